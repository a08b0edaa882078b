"""The edits that `runs.py` makes in a copy of vLLM, to a class that many files rest on.

In: the text of its file, and a number that makes an edit unlike all others.  Out: the new text.
Never here: a file.
"""

from __future__ import annotations

import ast

#: A class that 48 files of vLLM name, and the file it is in.
BASE_FILE = "vllm/model_executor/layers/linear.py"
BASE_CLASS = "LinearBase"


def with_comment(text: str, number: int) -> str:
    """Add a comment above the base class: everything below is a line further down."""
    lines = text.splitlines(keepends=True)
    lines.insert(_base_class(text).lineno - 1, f"# moved {number}\n")
    return "".join(lines)


def with_statement(text: str, number: int) -> str:
    """Add a number to keep at the end of the constructor of the base class: no call, no tensor."""
    return _with_line(text, f"self.n{number} = 0")


def with_tensor(text: str, number: int) -> str:
    """Add a tensor there, which is a finding, and of no concern to other files."""
    return _with_line(text, f"self.t{number} = torch.zeros({number + 1})")


def with_layer(text: str, number: int) -> str:
    """Add a class of the project there: what construction runs has changed."""
    return _with_line(text, f"self.l{number} = UnquantizedLinearMethod()")


def _with_line(text: str, line: str) -> str:
    (constructor,) = (
        node
        for node in _base_class(text).body
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )
    last = constructor.body[-1]
    lines = text.splitlines(keepends=True)
    lines.insert(last.end_lineno or last.lineno, f"{' ' * last.col_offset}{line}\n")
    return "".join(lines)


def _base_class(text: str) -> ast.ClassDef:
    (found,) = (
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef) and node.name == BASE_CLASS
    )
    return found
