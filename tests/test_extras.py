"""`extra-constructors`, `extra-sinks` and `managed-calls`: what the settings add to the tables.

In: small projects with factories and frameworks of their own.  Out: tests.  Never here: how a value
in the configuration is written.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from devicelint import runner
from devicelint.config import load_settings
from devicelint.model import Applicability, Finding

OPS = """\
import torch


def make_buffer(size, dtype=None, device=None):
    return torch.empty(size, dtype=dtype, device=device)


def make_stream(where=None):
    return torch.cuda.Stream(where)


class Pool:
    @staticmethod
    def take(size, device=None):
        return torch.empty(size, device=device)
"""

HEAD = """\
import torch
from torch import nn
import mypkg.ops as ops
from mypkg import make_buffer as buffer
from .ops import Pool, make_stream


class Model(nn.Module):
    def __init__(self, device):
        super().__init__()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    package = tmp_path / "src/mypkg"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from .ops import make_buffer\n")
    (package / "ops.py").write_text(OPS)
    return tmp_path


def found(project: Path, body: str, *config: str) -> list[Finding]:
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    (project / "src/mypkg/model.py").write_text(HEAD + lines)
    settings = load_settings(project, config=config, isolated=True)
    run = runner.check(runner.Request(project), settings)
    assert not run.diagnostics
    return [finding for path, finding in run.findings if path.endswith("model.py")]


def codes(project: Path, body: str, *config: str) -> list[str]:
    return [finding.code for finding in found(project, body, *config)]


BUFFER = 'extra-constructors."mypkg.ops.make_buffer" = { position = 2 }'


@pytest.mark.parametrize("callee", ["ops.make_buffer", "buffer"])
@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("self.x = {}(3)", ["DVL001"]),
        ("self.register_buffer('x', {}(3))", ["DVL003"]),
        ("self.x = nn.Parameter({}(3))", ["DVL002"]),
        ("self.x = {}(3).tolist()", ["DVL009"]),
        ("self.x = {}(3, device=device)", []),
        ("self.x = {}(3, device=None)", ["DVL001"]),
        ("self.x = {}(3, None, device)", []),
        ("self.x = {}(3).to(device)", []),
        ("with torch.device(device):\n    self.x = {}(3)", []),
    ],
)
def test_a_factory_of_the_project(
    project: Path, callee: str, call: str, expected: list[str]
) -> None:
    body = call.format(callee)
    assert codes(project, body, BUFFER) == expected
    # Without the row nothing is known of what the factory does with its device.
    assert codes(project, body) == []


def test_it_is_fixed_like_one_of_torch(project: Path) -> None:
    (finding,) = found(project, "self.x = buffer(3)", BUFFER)
    assert finding.callable == "mypkg.ops.make_buffer"
    assert finding.fix is not None
    assert finding.fix.applicability is Applicability.SAFE
    assert [edit.content for edit in finding.fix.edits] == [", device=device"]


def test_another_keyword_and_kind(project: Path) -> None:
    row = 'extra-constructors."mypkg.ops.make_stream" = { kind = "stream", keyword = "where" }'
    (finding,) = found(project, "self.side = make_stream()", row)
    assert finding.code == "DVL005"
    assert finding.fix is not None and finding.fix.edits == ()
    assert "`where=`" in finding.fix.title
    assert codes(project, "self.side = make_stream(where=device)", row) == []


def test_a_static_method(project: Path) -> None:
    row = 'extra-constructors."mypkg.ops.Pool.take" = "tensor"'
    assert codes(project, "self.x = Pool.take(3)", row) == ["DVL001"]
    assert codes(project, "self.x = Pool.take(3, device=device)", row) == []


def test_a_factory_that_cannot_be_found(project: Path) -> None:
    row = 'extra-constructors."elsewhere.make" = {}'
    body = "from elsewhere import make\nself.x = make(3)"
    assert codes(project, body, row) == ["DVL001"]


def test_the_name_of_a_module_does_not_end_within_a_word(project: Path) -> None:
    row = 'extra-constructors."kg.ops.make_buffer" = {}'
    assert codes(project, "self.x = buffer(3)", row) == []


def test_files_that_do_not_name_torch(project: Path) -> None:
    (project / "src/mypkg/base.py").write_text(
        "from torch import nn\n\n\nclass Base(nn.Module):\n    pass\n"
    )
    (project / "src/mypkg/plain.py").write_text(
        "from .base import Base\nfrom .ops import make_buffer\n\n\nclass Plain(Base):\n"
        "    def __init__(self):\n        self.x = make_buffer(3)\n"
    )
    settings = load_settings(project, config=[BUFFER], isolated=True)
    for paths in ((".",), ("src/mypkg/plain.py",)):
        run = runner.check(runner.Request(project, paths), settings)
        assert [(path, one.code) for path, one in run.findings] == [
            ("src/mypkg/plain.py", "DVL001")
        ]


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        ("parameter", ["DVL002"]),
        ("buffer", ["DVL003"]),
        ("attribute", ["DVL001"]),
        ("host", ["DVL009"]),
        ("managed", []),
    ],
)
@pytest.mark.parametrize("name", ["keep", "frame.keep"])
def test_extra_sinks(project: Path, name: str, sink: str, expected: list[str]) -> None:
    body = "from frame import keep\nkeep(torch.zeros(3))"
    assert codes(project, body) == ["DVL004"]
    assert codes(project, body, f'extra-sinks."{name}" = "{sink}"') == expected


def test_extra_sinks_of_methods_and_project_functions(project: Path) -> None:
    (project / "src/mypkg/frame.py").write_text("def keep(value):\n    return None\n")
    body = "from mypkg.frame import keep\nkeep(torch.zeros(3))"
    assert codes(project, body, 'extra-sinks."mypkg.frame.keep" = "buffer"') == ["DVL003"]
    assert codes(project, "self.put(torch.zeros(3))", 'extra-sinks.put = "managed"') == []


@pytest.mark.parametrize("name", ["put", "frame.put"])
def test_managed_calls_may_be_dotted(project: Path, name: str) -> None:
    body = "import frame\nframe.put(torch.zeros(3))"
    assert codes(project, body) == ["DVL004"]
    assert codes(project, body, f'managed-calls = ["{name}"]') == []
