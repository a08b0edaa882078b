"""Where an imported name is looked for, whatever folder a run was started in.

In: folders with empty files.  Out: tests.  Never here: what the files hold.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from devicelint.locate import Locator

#: `lib` is a namespace package, and so is a folder in it; `app` has modules of the same name
FILES = (
    "src/lib/core/__init__.py",
    "src/lib/core/layers.py",
    "src/lib/models/deep/model.py",
    "src/lib/models/lib/inner.py",
    "src/lib/models/lib/deep/user.py",
    "src/lib/models/lib/core/layers.py",
    "app/core/layers.py",
    "torch/nn/own.py",
)
MODEL = "src/lib/models/deep/model.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def found(folder: Path, start: str, file: str, name: str) -> tuple[str, int] | None:
    """Look a name up from a file, in a run that was started in a folder."""
    place = Locator((), str(folder / start)).find(str(folder / file), name)
    return (str(Path(place[0]).relative_to(folder)), place[1]) if place is not None else None


@pytest.mark.parametrize("start", ["", "src", "src/lib", "src/lib/models/deep", "app", "nowhere"])
@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("lib.core.layers.Norm", ("src/lib/core/layers.py", 3)),
        ("lib.core.Norm", ("src/lib/core/__init__.py", 2)),
        ("lib.core", ("src/lib/core/__init__.py", 2)),
        ("lib.nowhere.Norm", None),
        ("other.core.layers.Norm", None),
    ],
)
def test_a_package_is_found_from_within(
    start: str, name: str, place: tuple[str, int] | None, folder: Path
) -> None:
    assert found(folder, start, MODEL, name) == place


def test_the_nearest_package_of_a_name_comes_first(folder: Path) -> None:
    user = "src/lib/models/lib/deep/user.py"
    assert found(folder, "app", user, "lib.inner.f") == ("src/lib/models/lib/inner.py", 2)
    assert found(folder, "app", user, "lib.core.f") == ("src/lib/core/__init__.py", 2)


def test_what_is_beside_a_package_is_not_found_from_within(folder: Path) -> None:
    """No higher than the folder of the run, lest a stranger's file be taken for a library."""
    assert found(folder, "src", MODEL, "app.core.layers.f") is None
    assert found(folder, "", MODEL, "app.core.layers.f") == ("app/core/layers.py", 3)


def test_pytorch_is_never_looked_for(folder: Path) -> None:
    assert found(folder, "", "torch/nn/own.py", "torch.nn.own.f") is None
