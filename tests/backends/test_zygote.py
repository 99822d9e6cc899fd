"""Python scripts that import torch are forked from a warm interpreter, and started plainly where there is none."""

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from penstock.backends import Backend
from penstock.backends.local.environment import Script, find_script, wants_torch
from penstock.core import ReportKind
from tests.backends.watching import kinds, make_launch, output, until, wait_for, wait_for_end, wait_for_output, workers

SCRIPT = """
import os, sys, time
if False:
    import torch
print('parent', os.getppid(), 'args', *sys.argv[1:], 'rank', os.environ['RANK'], flush=True)
while sys.argv[1] == 'stay': time.sleep(0.05)
sys.exit(5 if sys.argv[1] == 'fail' else 0)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def interpreter(directory: Path, zygote: str) -> Path:
    """A Python that treats the zygote's module as ``zygote`` says and everything else like the real one."""
    path = directory / "bin" / "python3"
    path.parent.mkdir()
    path.write_text(
        f'#!/bin/sh\nif [ "$2" = penstock.runtime.zygote ]; then {zygote}; fi\nexec {sys.executable} "$@"\n'
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def warm(tmp_path: Path) -> Path:
    return interpreter(tmp_path, f"exec {sys.executable} {Path(__file__).with_name('fake_zygote.py')}")


def agent_of(backend: Backend) -> psutil.Process:
    return psutil.Process(wait_for(backend, "run-1", ReportKind.LAUNCHED).pid)


def zygote_of(backend: Backend) -> psutil.Process:
    def probe() -> list[psutil.Process]:
        return [child for child in agent_of(backend).children() if "fake_zygote" in " ".join(child.cmdline())]

    return until(probe, "the zygote")[0]


def test_workers_are_forked_from_one_zygote(local: Backend, script: Path, warm: Path) -> None:
    local.launch(make_launch((str(warm), str(script), "stay"), 2))
    parent = zygote_of(local).pid
    for rank in (0, 1):
        assert wait_for_output(local, "run-1", "parent", f"w{rank}") == f"parent {parent} args stay rank {rank}\n"
    local.stop("run-1", 5.0)
    assert wait_for_end(local, "run-1").reason == "stopped"


def test_the_zygote_outlives_a_resize(local: Backend, script: Path, warm: Path) -> None:
    local.launch(make_launch((str(warm), str(script), "stay"), 1))
    wait_for_output(local, "run-1", "rank 0")
    parent = zygote_of(local).pid
    local.resize("run-1", workers(2), 1)
    assert f"parent {parent} " in wait_for_output(local, "run-1", "rank 1", "w1")


def test_a_forked_workers_failure_is_told(local: Backend, script: Path, warm: Path) -> None:
    local.launch(make_launch((str(warm), "-u", str(script), "fail"), 1))
    last = wait_for_end(local, "run-1")
    assert (last.kind, last.code) == (ReportKind.FAILED, 5)
    assert "args fail" in last.tail[-1]


def test_a_forked_worker_can_be_killed(local: Backend, script: Path, warm: Path) -> None:
    local.launch(make_launch((str(warm), str(script), "stay"), 1))
    pid = wait_for(local, "run-1", ReportKind.WORKER_STARTED).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    last = wait_for_end(local, "run-1")
    assert (last.code, last.reason) == (137, "signal")


def test_workers_survive_their_zygote(local: Backend, script: Path, warm: Path) -> None:
    local.launch(make_launch((str(warm), str(script), "stay"), 1))
    wait_for_output(local, "run-1", "rank 0")
    worker = psutil.Process(wait_for(local, "run-1", ReportKind.WORKER_STARTED).pid)
    zygote_of(local).kill()
    until(lambda: worker.ppid() == agent_of(local).pid, "the agent to adopt the worker")
    worker.kill()
    last = wait_for_end(local, "run-1")
    assert (last.code, last.reason) == (137, "signal")


def test_without_a_zygote_scripts_start_on_their_own(local: Backend, script: Path, tmp_path: Path) -> None:
    cold = interpreter(tmp_path, "echo no torch here >&2; exit 1")
    local.launch(make_launch((str(cold), str(script), "end"), 2))
    assert wait_for_end(local, "run-1").kind is ReportKind.FINISHED
    assert kinds(local.reports("run-1", 0)).count("worker_started") == 2
    assert "args end rank 1" in output(local, "run-1", "w1")


def test_the_real_zygote_forks_with_torch_loaded(local: Backend, tmp_path: Path) -> None:
    pytest.importorskip("penstock.runtime.zygote")
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\nloaded = 'torch' in sys.modules\nimport torch\nprint('loaded', loaded, *sys.argv[1:])\n"
    )
    local.launch(make_launch((sys.executable, "train.py", "--x"), 2, working_dir=str(tmp_path)))
    assert wait_for_end(local, "run-1").kind is ReportKind.FINISHED, output(local, "run-1")
    assert output(local, "run-1", "w1") == "loaded True --x\n"


def test_only_scripts_that_import_torch_wait_for_a_zygote(tmp_path: Path) -> None:
    plain, heavy = tmp_path / "plain.py", tmp_path / "heavy.py"
    plain.write_text("print('penstock: step=1')  # no import torch\n")
    heavy.write_text("def f():\n    from torch import nn\n")
    assert not wants_torch(Script("python3", ("plain.py",)), str(tmp_path))
    assert wants_torch(Script("python3", ("heavy.py",)), str(tmp_path))
    assert not wants_torch(Script("python3", ("missing.py",)), str(tmp_path))


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        (("python", "train.py", "--lr", "1"), ("train.py", "--lr", "1")),
        (("/opt/venv/bin/python3.11", "-u", "a/train.py"), ("a/train.py",)),
        (("train.py", "x"), ("train.py", "x")),
        (("python", "-m", "train"), None),
        (("python",), None),
        (("bash", "run.py"), None),
        (("pythonic", "train.py"), None),
    ],
)
def test_scripts_are_recognised(command: tuple[str, ...], argv: tuple[str, ...] | None) -> None:
    found = find_script(command, {"PATH": "/usr/bin:/bin"})
    assert (found.argv if found else None) == argv


def test_a_bare_script_runs_with_the_python_on_the_jobs_path() -> None:
    found = find_script(("train.py",), {"PATH": "/nowhere"})
    assert found is not None
    assert found.interpreter == sys.executable
