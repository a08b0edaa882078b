"""`devicelint trace` from outside: programs that end in every way, and what their logs tell.

In: small programs, run as processes of their own.  Out: tests.  Never here: what a recorder sees of
a module, which is `test_runtime.py`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from devicelint.trace import logfile, record  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
MODEL = """\
import os, signal, sys, time
import torch
from torch import nn


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))


class Model(nn.Module):
    def __init__(self, ending=""):
        super().__init__()
        self.table = torch.arange(3)
        self.inner = Inner()
        if ending == "raise":
            torch.zeros(2, 3) @ torch.zeros(2)
        if ending == "exit":
            os._exit(5)
        if ending == "wait":
            print("ready", flush=True)
            time.sleep(60)
"""


def traced(folder: Path, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `devicelint trace` and wait for it."""
    command = [sys.executable, "-m", "devicelint", "trace", "--log-dir", str(folder), *words]
    options.setdefault("env", environment())
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, **options
    )


def environment(**more: str) -> dict[str, str]:
    """Give an environment in which this checkout is found and no rank is set."""
    base = {name: value for name, value in os.environ.items() if name != "RANK"}
    return base | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **more}


@pytest.fixture
def program(tmp_path: Path):
    """Write a program: the model, and what is done with it."""

    def write(rest: str) -> str:
        path = tmp_path / "program.py"
        path.write_text(MODEL + rest, encoding="utf-8")
        return str(path)

    return write


def lines_of(folder: Path) -> list[int]:
    """Give the lines of the constructions in the one log of a folder."""
    logs = logfile.read(folder)
    assert logs.problems == ()
    assert len(logs.logs) == 1
    return [item.place.line for item in logs.logs[0].constructions]


# --- what passes through ----------------------------------------------------------------------


def test_exit_code_and_output_are_the_programs(program, tmp_path: Path) -> None:
    path = program('Model()\nprint("out", *sys.argv[1:])\nsys.exit(7)\n')
    result = traced(tmp_path / "logs", path, "--flag", "word")
    assert (result.returncode, result.stdout) == (7, "out --flag word\n")
    assert "Built without a device: 2 places" in result.stderr
    assert lines_of(tmp_path / "logs") == [15, 9]


def test_a_traceback_is_that_of_the_program_alone(program, tmp_path: Path) -> None:
    path = program('Model("raise")\n')
    alone = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, env=environment(), check=False
    )
    result = traced(tmp_path / "logs", path)
    assert result.returncode == alone.returncode == 1
    assert result.stderr.startswith(alone.stderr)
    (log,) = logfile.read(tmp_path / "logs").logs
    assert log.ended == "exit"
    assert log.exception.startswith("RuntimeError")
    assert log.exception.endswith("(while Model was being built)")
    assert [item.place.line for item in log.constructions] == [15, 9, 18, 18]


def test_a_command_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    result = traced(tmp_path / "logs", "--", "no-such-command")
    assert result.returncode == 2
    assert "no-such-command" in result.stderr


def test_module_commands_and_programs_without_torch(tmp_path: Path) -> None:
    result = traced(tmp_path / "logs", "--", sys.executable, "-m", "this")
    assert result.returncode == 0
    assert result.stdout.startswith("The Zen of Python")
    assert "No process that imports PyTorch was traced." in result.stderr


# --- how programs end -------------------------------------------------------------------------


def test_os_exit_in_the_middle_leaves_a_log(program, tmp_path: Path) -> None:
    result = traced(tmp_path / "logs", program('Model("exit")\n'))
    assert result.returncode == 5
    (log,) = logfile.read(tmp_path / "logs").logs
    assert log.ended == ""
    assert [item.place.line for item in log.constructions] == [15, 9]
    assert log.unfinished == ("Model", "Inner")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_it_as_it_would_have(number: int, program, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "devicelint", "trace"),
            *("--log-dir", str(tmp_path / "logs"), program('Model("wait")\n')),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    (log,) = logfile.read(tmp_path / "logs").logs
    target = log.header.pid if number == signal.SIGKILL else process.pid
    os.kill(target, number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -number
    (log,) = logfile.read(tmp_path / "logs").logs
    assert [item.place.line for item in log.constructions] == [15, 9]
    if number == signal.SIGINT:
        assert errors.count("KeyboardInterrupt\n") == 1
        assert log.exception.startswith("KeyboardInterrupt")


def test_a_full_disk_loses_the_log_and_not_the_program(program, tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    rest = """
from devicelint.trace import writer
import builtins
real = open
writer.open = lambda path, *rest, **more: real("/dev/full", *rest, **more)
Model()
print("done")
"""
    result = traced(tmp_path / "logs", program(rest))
    assert (result.returncode, result.stdout) == (0, "done\n")
    assert "No process" in result.stderr


def test_a_folder_that_cannot_be_made_does_not_matter(program, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    result = traced(tmp_path / "file" / "logs", program('Model()\nprint("done")\n'))
    assert (result.returncode, result.stdout) == (0, "done\n")
    assert "running without a log" in result.stderr


def test_children_are_traced_too(program, tmp_path: Path) -> None:
    rest = """
import subprocess
import torch.multiprocessing as mp


kept = []


def work(index):
    kept.append(Model().to("meta"))


if __name__ == "__main__":
    Model()
    if os.fork() == 0:
        Model()
        os._exit(0)
    os.wait()
    child = mp.get_context("fork").Process(target=work, args=(1,))
    child.start()
    child.join()
    mp.spawn(work, nprocs=1)
    subprocess.run([sys.executable, "-c", "import program; program.Model()"], check=True)
"""
    path = program(rest)
    result = traced(tmp_path / "logs", path, env=environment(), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    logs = logfile.read(tmp_path / "logs").logs
    assert len(logs) == 5
    for log in logs:
        assert [item.place.line for item in log.constructions] == [15, 9]
        assert log.faults == ()
    # `multiprocessing` ends its children without `atexit`; they are looked at all the same.
    assert sorted(len(log.strays) for log in logs) == [0, 0, 0, 1, 1]
    assert sorted(log.ended for log in logs) == ["", "exit", "exit", "exit", "exit"]


def test_a_torn_last_line_is_left_out(program, tmp_path: Path) -> None:
    traced(tmp_path / "logs", program("Model()\n"))
    (file,) = (tmp_path / "logs").iterdir()
    text = file.read_text(encoding="utf-8")
    for cut in range(1, 60):
        file.write_text(text[: -cut * 7], encoding="utf-8")
        assert len(logfile.read(file).logs) == 1


# --- reports ----------------------------------------------------------------------------------


def test_ranks_are_merged_and_compared(program, tmp_path: Path) -> None:
    path = program('model = Model().to("meta")\n')
    for rank in "01":
        env = environment(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE="2")
        result = traced(tmp_path / "logs", path, env=env)
        assert (result.returncode, result.stderr) == (0, "")
    command = [sys.executable, "-m", "devicelint", "trace", "report", str(tmp_path / "logs")]
    run = subprocess.run(
        [*command, "--output-format", "json"],
        capture_output=True, text=True, env=environment(), check=True,
    )  # fmt: skip
    report = json.loads(run.stdout)
    assert [log["header"]["rank"] for log in report["logs"]] == [0, 1]
    assert len(report["left_behind"]) == 1
    (left,) = report["left_behind"]
    assert (left["path"], left["processes"], left["count"]) == ("table", ["rank 0", "rank 1"], 2)
    assert report["differences"] == []
    assert {tuple(site["processes"]) for site in report["unnamed"]} == {("rank 0", "rank 1")}


def test_check_tells_what_the_run_has_shown(program, tmp_path: Path) -> None:
    path = program('model = Model(*sys.argv[1:]).to("meta")\n')
    traced(tmp_path / "logs", path, "-")
    run = subprocess.run(
        [
            *(sys.executable, "-m", "devicelint", "check", "--isolated", "--no-cache"),
            *("--trace", str(tmp_path / "logs"), "--output-format", "json", "program.py"),
        ],
        capture_output=True, text=True, env=environment(), cwd=tmp_path, check=False,
    )  # fmt: skip
    assert run.returncode == 1, run.stderr
    verdicts = [
        (item["line"], item["runtime"]["verdict"]) for item in json.loads(run.stdout)["findings"]
    ]
    assert sorted(verdicts) == [
        (9, "confirmed"), (15, "confirmed"), (18, "never executed"), (18, "never executed"),
    ]  # fmt: skip
    assert [verdict for _, verdict in verdicts] == ["confirmed"] * 2 + ["never executed"] * 2


def test_check_says_what_is_no_trace(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text("{}", encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "devicelint", "check", "--trace", "trace.json"],
        capture_output=True, text=True, env=environment(), cwd=tmp_path, check=False,
    )  # fmt: skip
    assert run.returncode == 2
    assert "not a trace" in run.stderr


@pytest.mark.parametrize("name", ["text", "json", "sarif"])
def test_reports_go_to_a_file(name: str, program, tmp_path: Path) -> None:
    target = tmp_path / "report"
    result = traced(
        tmp_path / "logs", "--output-format", name, "-o", str(target), program("Model()\n")
    )
    assert (result.returncode, result.stderr) == (0, "")
    text = target.read_text(encoding="utf-8")
    if name != "text":
        assert json.loads(text)
    assert "torch.arange" in text


def test_device_meta_needs_no_change_of_the_program(program, tmp_path: Path) -> None:
    traced(tmp_path / "logs", "--device", "meta", program("Model()\n"))
    (log,) = logfile.read(tmp_path / "logs").logs
    assert {item.device for item in log.constructions} == {"meta"}
    assert log.header.forced == "meta"


# --- the library ------------------------------------------------------------------------------


def test_nothing_is_left_in_pytorch() -> None:
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.zeros(2)

    def state() -> list[object]:
        return [
            *(one.__dict__["__init__"] for one in (Net, nn.Linear, nn.Module)),
            "__init_subclass__" in nn.Module.__dict__,
            "__new__" in torch.Tensor.__dict__,
            torch.from_numpy,
            torch.Generator,
            torch.FloatTensor,
            torch.cuda.Stream.__new__,
            torch._C._len_torch_function_stack(),
        ]

    before = state()
    with record() as log:
        Net()
        assert Net.__init__ is before[0]
        assert torch.Generator is before[6]
    assert all(now is then for now, then in zip(state(), before, strict=True))
    assert len(log.unnamed) == 1


def test_stand_ins_are_what_they_stand_for() -> None:
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.generator = torch.Generator()
            assert isinstance(self.generator, torch.Generator)
            assert isinstance(torch.zeros(2), torch.FloatTensor)
            assert isinstance(torch.zeros(2), torch.Tensor)
            assert issubclass(nn.Parameter, torch.Tensor)
            assert torch.zeros(2).type(torch.LongTensor).dtype == torch.long
            assert torch.FloatTensor([1.0]).type() == "torch.FloatTensor"

    with record() as log:
        Net()
    assert log.faults == ()
    assert "torch.Generator" in {item.callable for item in log.constructions}


def test_threads_are_traced_and_kept_apart() -> None:
    import threading

    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for _ in range(20):
                self.table = torch.zeros(2)
                time.sleep(0.0005)

    with record() as log:
        threads = [threading.Thread(target=Net) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        torch.zeros(3)  # outside any construction
    assert log.faults == ()
    assert [item.count for item in log.unnamed] == [80]


def test_nested_recordings_each_tell_their_own() -> None:
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.zeros(2)

    with record() as outer:
        Net()
        with record() as inner:
            Net()
    assert [item.count for item in inner.unnamed] == [1]
    assert [item.count for item in outer.unnamed] == [1, 1]  # built from two places


def test_a_look_at_init_is_no_construction() -> None:
    from torch import nn

    layer = nn.Linear(2, 2)
    with record() as log:
        kept = layer.__init__
        torch.zeros(2)
        del kept
        nn.Linear(2, 2)
    assert [item.callable for item in log.constructions] == ["torch.nn.Linear"]


def test_the_fixture_of_pytest(pytester_like: Path) -> None:
    # installed, the plugin is loaded by its entry point; in a bare checkout it is not
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "devicelint.trace.pytest_plugin", "."],
        capture_output=True,
        text=True,
        env={**environment(), **alone},
        cwd=pytester_like,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    assert "1 passed" in run.stdout


@pytest.fixture
def pytester_like(tmp_path: Path) -> Path:
    """Write a test that uses the fixture."""
    (tmp_path / "test_model.py").write_text(
        MODEL + "\n\ndef test_model(device_trace):\n    Model()\n"
        "    assert [item.sink for item in device_trace.unnamed] == ['attribute', 'parameter']\n",
        encoding="utf-8",
    )
    return tmp_path


def test_torch_is_imported_only_when_a_recording_begins() -> None:
    code = (
        "import sys, devicelint.trace, devicelint.trace.pytest_plugin, devicelint.commands.trace\n"
        "import devicelint.trace.launch, devicelint.trace.report, devicelint.trace.merge\n"
        "import devicelint.trace.logfile\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], env=environment(), check=True)


def test_an_exception_that_arrives_in_our_code_is_handed_on() -> None:
    from devicelint.trace.interrupts import raise_later

    with pytest.raises(KeyboardInterrupt):
        raise_later(KeyboardInterrupt())
        end = time.monotonic() + 10
        while time.monotonic() < end:
            pass


def test_warnings_are_shown_where_they_belong(program, tmp_path: Path) -> None:
    rest = """

class Copying(nn.Module):
    def __init__(self):
        super().__init__()
        for _ in range(2):
            self.first = torch.tensor(torch.zeros(2))
        self.second = torch.tensor(torch.zeros(2))
        self.third = torch.range(0, 2)


Copying()
Copying()
"""
    path = program(rest)
    alone = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, env=environment(), check=True
    )
    result = traced(tmp_path / "logs", "-o", str(tmp_path / "report"), path)
    assert alone.stderr.count("UserWarning") == 3
    assert result.stderr == alone.stderr
