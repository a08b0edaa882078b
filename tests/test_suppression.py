"""Directives in comments: which are read, what they silence, and which are idle.

In: small texts, and findings placed in them by hand.  Out: tests.  Never here: a rule.
"""

from __future__ import annotations

import tokenize
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devicelint.model import Finding, Location, Severity, Sink
from devicelint.suppression import (
    DirectiveKind,
    may_hold_directive,
    may_speak,
    parse_suppressions,
    split,
    unused,
)


def finding(first: int, last: int | None = None, code: str = "DVL001") -> Finding:
    place = Location(0, first, 1)
    return Finding(
        code=code,
        name="attribute-without-device",
        message="",
        severity=Severity.ERROR,
        start=place,
        end=place,
        symbol="M.__init__",
        callable="torch.zeros",
        sink=Sink.ATTRIBUTE,
        reached_via=("M.__init__",),
        reason="",
        advice="",
        fingerprint="",
        fix=None,
        excerpt=(),
        statement=(first, last or first),
    )


def silences(text: str, *findings: Finding) -> list[bool]:
    kept, silenced = split(findings, parse_suppressions(text))
    assert len(kept) + len(silenced) == len(findings)
    return [one in silenced for one in findings]


def codes(text: str) -> list[tuple[str, ...] | None]:
    return [directive.codes for directive in parse_suppressions(text).directives]


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("# devicelint: ignore", [None]),
        ("#devicelint:ignore", [None]),
        ("#  DeviceLint :  Ignore", [None]),
        ("# devicelint: ignore because it is small", [None]),
        ("# devicelint: ignore[DVL001]", [("DVL001",)]),
        ("# devicelint: ignore [ dvl001 ,DVL003 ] moved by hand", [("DVL001", "DVL003")]),
        ("# devicelint: ignore[attribute-without-device]", [("ATTRIBUTE-WITHOUT-DEVICE",)]),
        ("# devicelint: ignore[]", [()]),
        ("# devicelint: ignore[DVL001", [()]),
        ("# devicelint: ignore DVL001, DVL002 reason", [("DVL001", "DVL002")]),
        ("# devicelint: ignore: DVL001", [("DVL001",)]),
        ("# devicelint: ignored", []),
        ("# devicelint: ignore-next", []),
        ("# mydevicelint: ignore", []),
        ("# type: ignore", []),
        ("# noqa", [None]),
        ("#NOQA", [None]),
        ("# noqa some words", [None]),
        ("# noqa: DVL001", [("DVL001",)]),
        ("# noqa:E501,DVL001", [("DVL001",)]),
        ("# noqa : E501 DVL001 dvl003", [("DVL001", "DVL003")]),
        ("# noqa: E501", []),
        ("# noqa: some words DVL001", []),
        ("# noqa:", []),
        ("# noqa-file", []),
        ("# noqable", []),
        ("# see noqa DVL001", []),
        ("# type: ignore  # noqa: DVL001  # pylint: disable=x", [("DVL001",)]),
        ("# devicelint: ignore[DVL001]  # noqa: DVL002", [("DVL001",), ("DVL002",)]),
        ("# devicelint: ignore[DVL001] see #12  # noqa", [("DVL001",), None]),
    ],
)
def test_grammar(comment: str, expected: list[tuple[str, ...] | None]) -> None:
    assert codes(f"x = 1  {comment}\n") == expected


def test_reason_and_place() -> None:
    text = 's = "é"  # noqa: E501  # devicelint: ignore[DVL001, DVL002] moved, see #12\n'
    (directive,) = parse_suppressions(text).directives
    assert directive.kind is DirectiveKind.IGNORE
    assert directive.reason == "moved, see #12"
    start, end = directive.start, directive.end
    written = text.encode()[start.offset : end.offset].decode()
    assert written == "# devicelint: ignore[DVL001, DVL002]"
    assert (start.line, start.column) == (1, text.index("# devicelint") + 1)
    assert end.column - start.column == len(written)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_are_those_of_the_parser(newline: str) -> None:
    text = newline.join(
        ["x = 1", "", "\fy = '''", "'''  # noqa", "z = 2  # devicelint: ignore", ""]
    )
    directives = parse_suppressions(text).directives
    assert [directive.start.line for directive in directives] == [4, 5]
    for directive in directives:
        assert text.encode()[directive.start.offset :].startswith(b"# ")


def test_strings_hold_no_directives() -> None:
    text = 'x = "# noqa"\ny = """\n# devicelint: ignore\n"""\nz = f"{x}  # noqa"\n'
    assert parse_suppressions(text).directives == ()


def test_nothing_is_tokenised_without_need(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> Iterator[tokenize.TokenInfo]:
        raise AssertionError("tokenised")

    monkeypatch.setattr(tokenize, "generate_tokens", fail)
    for text in ("", "x = 1  # hello\n", "import x  # noqa: F401\n", "import devicelint\n"):
        assert parse_suppressions(text).directives == ()


@pytest.mark.parametrize(
    "rest", ["x = (", "'''", "    x\n  y\n", "x = '", "\x00", "if x:\n        a\n    b\n", "\\"]
)
def test_broken_text_yields_what_precedes(rest: str) -> None:
    text = f"a = 1  # devicelint: ignore\nb = 2\nc = 3\n{rest}"
    assert codes(text) == [None]


@given(st.text(alphabet="#noqa devicelint:ignore[]DVL01,'\"(\\\n\r\t é", max_size=80))
def test_any_text_can_be_read(text: str) -> None:
    for directive in parse_suppressions(text).directives:
        data = text.encode()
        assert data[directive.start.offset : directive.start.offset + 1] == b"#"
        assert directive.start.offset < directive.end.offset <= len(data)


# Reach -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "comment",
    ["# devicelint: ignore", "# devicelint: ignore[DVL001]", "# noqa", "# noqa: X1, DVL001"],
)
def test_any_line_of_the_statement(comment: str) -> None:
    lines = ["before = 0", "x = f(", "    1,", ")", "after = 0"]
    for index in range(len(lines)):
        text = "".join(
            f"{line}  {comment}\n" if number == index else f"{line}\n"
            for number, line in enumerate(lines)
        )
        assert silences(text, finding(2, 4)) == [1 <= index <= 3]


def test_comments_alone_above_the_statement() -> None:
    above = "# devicelint: ignore[DVL001] for a reason\n# that takes two lines\nx = f()\n"
    assert silences(above, finding(3)) == [True]
    assert silences("a = 0\n    # noqa: DVL001\nx = f()\n", finding(3)) == [True]
    assert silences("# devicelint: ignore\n\nx = f()\n", finding(3)) == [False]
    assert silences("# devicelint: ignore\ny = 0\nx = f()\n", finding(3)) == [False]
    assert silences("y = 0  # devicelint: ignore\nx = f()\n", finding(2)) == [False]
    assert silences("x = f()\n# devicelint: ignore\n", finding(1)) == [False]
    assert silences("# devicelint: ignore\nx = f()\nz = f()\n", finding(2), finding(3)) == [
        True,
        False,
    ]


def test_codes_decide() -> None:
    for written, expected in [
        ("DVL001", [True, False]),
        ("DVL003, DVL001", [True, True]),
        ("DVL00", [True, True]),
        ("DVL", [True, True]),
        ("DVL002", [False, False]),
        ("D", [False, False]),
        ("", [False, False]),
    ]:
        text = f"x = f()  # devicelint: ignore[{written}]\n"
        assert silences(text, finding(1), finding(1, code="DVL003")) == expected
    assert silences("x  # devicelint: ignore[attribute-without-device]\n", finding(1)) == [True]


def test_skip_file() -> None:
    text = "x = 1\n\n# devicelint: skip-file, generated\n"
    assert parse_suppressions(text).skips_file
    assert silences(text, finding(1), finding(7, code="DVL003")) == [True, True]
    assert not parse_suppressions('"""\n# devicelint: skip-file\n"""\n').skips_file
    assert unused([], parse_suppressions(text + "# devicelint: ignore\n")) == ()


def test_order_is_kept() -> None:
    findings = [finding(3), finding(1), finding(2)]
    kept, silenced = split(findings, parse_suppressions("x\ny  # noqa\nz\n"))
    assert kept == (findings[0], findings[1])
    assert silenced == (findings[2],)
    assert split(findings, parse_suppressions("")) == (tuple(findings), ())


# Idle directives ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("comment", "idle"),
    [
        ("# devicelint: ignore", []),
        ("# devicelint: ignore[DVL001]", []),
        ("# devicelint: ignore[DVL]", []),
        ("# devicelint: ignore[DVL001, DVL002]", [("DVL002",)]),
        ("# devicelint: ignore[DVL002]", [("DVL002",)]),
        ("# devicelint: ignore[]", [()]),
        ("# devicelint: ignore[DVL001", [()]),
        ("# noqa: E501, DVL001, DVL002", [("DVL002",)]),
        ("# noqa: DVL001  # devicelint: ignore[DVL001]", []),
    ],
)
def test_idle_codes(comment: str, idle: list[tuple[str, ...]]) -> None:
    suppressions = parse_suppressions(f"x = f()  {comment}\n")
    assert [one.codes for one in unused([finding(1)], suppressions)] == idle


def test_idle_directives_away_from_any_finding() -> None:
    text = "a  # devicelint: ignore\nb  # noqa\nc  # noqa: E501\nd  # noqa: DVL001\n"
    idle = unused([], parse_suppressions(text))
    assert [(one.start.line, one.codes) for one in idle] == [(1, None), (4, ("DVL001",))]


# For the whole file, and at a glance --------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "skips"),
    [
        ("# devicelint: skip-file\nx = 1\n", True),
        ("x = 1\n# devicelint: skip-file generated\n", True),
        ("x = 1  # devicelint: skip-file\n", False),
        ("if x:\n    # devicelint: skip-file\n    y = 1\n", False),
        ("x = (\n# devicelint: skip-file\n    1)\n", True),
    ],
)
def test_skip_file_counts_on_a_line_of_its_own(text: str, skips: bool) -> None:
    assert parse_suppressions(text).skips_file is skips
    assert silences(text, finding(1)) == [skips]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x  # devicelint: ignore", True),
        ("x  #DeviceLint:ignore", True),
        ("x  # noqa: E501, dvl001", True),
        ("x  # noqa", False),
        ("x  # noqa: E501", False),
        ("import devicelint", False),
        ("# see devicelint", False),
    ],
)
def test_files_without_directives_of_ours_are_told_by_their_bytes(
    text: str, expected: bool
) -> None:
    assert may_hold_directive(text.encode()) is expected


@given(st.text(alphabet="#noqa devicelint:ignore[]DVL01,\n\t é", max_size=60))
def test_the_glance_misses_no_directive(text: str) -> None:
    ours = [
        directive
        for directive in parse_suppressions(text).directives
        if directive.kind is not DirectiveKind.NOQA or directive.codes
    ]
    assert may_hold_directive(text.encode()) or not ours


# Whether a text may speak of statements at all ----------------------------------------------------

#: lines of which texts are made; each may stand in a string, a bracket, a comment block
LINES = [
    "x = 1",
    "x = 1  # noqa",
    "x = 1  # noqa: DVL001, E501",
    "x = 1  # noqa: E501",
    "x = 1  # devicelint: ignore[DVL001]",
    "x = f(  # devicelint: ignore",
    "    1,  # noqa",
    "    2,",
    ")",
    "# noqa",
    "# noqa: DVL001",
    "    # devicelint: ignore[DVL001] and a reason",
    "# of no interest",
    "\t# tab",
    "#",
    "",
    "   ",
    "\x0c# devicelint: ignore",
    "\x0cx = 1",
    's = "# noqa"',
    's = """',
    '"""',
    "# noqa in a string, or not",
    "if x:",
    "    y = 2  # noqa",
    "x = 1 \\",
    "    + 2  # noqa",
    "é = 'ü'  # noqa",
]


def speaks(text: str, statement: tuple[int, int]) -> bool:
    """Tell whether a directive silences a finding of this statement."""
    return silences(text, finding(*statement)) == [True]


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("x = 1  # noqa\n", (1, 1)),
        ("x = 1  # noqa", (1, 1)),
        ("# devicelint: ignore\nx = 1\n", (2, 2)),
        ("# devicelint: ignore\n# a\n    # b\n#\nx = 1\n", (5, 5)),
        ("x = f(\n    1,  # noqa\n    2,\n)\n", (1, 4)),
        ("x = f(\n    1,\n    2,\n)  # noqa\n", (1, 4)),
        ("x = f(  # noqa\n    1,\n)\n", (1, 3)),
        ("# noqa\nx = f(\n    1,\n)\n", (2, 4)),
        ("x = f(\n    # noqa: DVL001\n    g(1),\n)\n", (1, 4)),
        ("\x0c# noqa\nx = 1\n", (2, 2)),
        ("y = 1\r\n# noqa\r\nx = 1\r\n", (3, 3)),
        ("y = 1\r# noqa\rx = 1\r", (3, 3)),
        ("s = '''\n# noqa\n'''\nx = 1  # noqa: DVL001\n", (4, 4)),
        ("s = '# noqa'  # devicelint: ignore\n", (1, 1)),
        ("x = y[  # noqa\n    :1\n]  # noqa: DVL001\n", (1, 3)),
        ("é = 'ü'\nx = 'é'  # noqa\n", (2, 2)),
        ("y = 1  # noqa\nx = y[0  # noqa\n    : 2]\n", (2, 3)),
        ("x = y[0  # noqa\n    : 2]\n", (1, 2)),
        ("\n\n\nx = 1  # type: ignore  # noqa\n", (4, 4)),
    ],
)
def test_what_is_silenced_may_be_spoken_of(text: str, statement: tuple[int, int]) -> None:
    assert speaks(text, statement)
    assert may_speak(text, [(1, 0), statement])


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("x = 1\n", (1, 1)),
        ("", (1, 1)),
        ("x = 1\ny = 1  # noqa\n", (1, 1)),
        ("y = 1  # noqa\nx = 1\n", (2, 2)),
        ("# noqa\n\nx = 1\n", (3, 3)),
        ("# noqa\ny = 1\n# a\nx = 1\n", (4, 4)),
        ("x = f(\n    1,\n)\n# noqa\n", (1, 3)),
        ("x = 1  # noqa: E501\n", (1, 1)),
    ],
)
def test_what_nothing_is_near_is_not_tokenised(text: str, statement: tuple[int, int]) -> None:
    assert not speaks(text, statement)
    assert not may_speak(text, [statement])


def test_of_no_statement_nothing_is_said() -> None:
    assert not may_speak("x = 1  # noqa\n", [])


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from(LINES), max_size=12),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
)
def test_it_may_speak_wherever_it_silences(lines: list[str], newline: str, ended: bool) -> None:
    text = newline.join(lines) + newline * ended
    for first in range(1, len(lines) + 1):
        for last in range(first, min(first + 4, len(lines) + 1)):
            if speaks(text, (first, last)):
                assert may_speak(text, [(first, last)])
                assert may_speak(text, [(1, 0), (first, last)])
