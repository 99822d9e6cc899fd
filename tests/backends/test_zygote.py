"""Python scripts that import torch are forked from a warm interpreter, and started plainly where there is none."""

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from penstock.backends import Backend
from penstock.backends.agent.environment import Script, find_script, wants_torch
from penstock.core import ReportKind
from tests.backends.watching import (
    kinds,
    make_launch,
    output,
    processes_of,
    until,
    wait_for,
    wait_for_end,
    wait_for_output,
    workers,
)

SCRIPT = """
import os, sys, time
if False:
    import torch
print('from', os.environ.get('FORKED_FROM'), 'args', *sys.argv[1:], 'rank', os.environ['RANK'], flush=True)
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
    """The first child of the agent; the workers it forks are the agent's children too."""
    children = until(lambda: agent_of(backend).children(), "the zygote")
    return min(children, key=lambda child: child.create_time())


def test_workers_are_forked_from_one_zygote(local: Backend, script: Path, warm: Path) -> None:
    local.launch(make_launch((str(warm), str(script), "stay"), 2))
    zygote = zygote_of(local).pid
    for rank in (0, 1):
        assert wait_for_output(local, "run-1", "from", f"w{rank}") == f"from {zygote} args stay rank {rank}\n"
    local.stop("run-1", 5.0)
    assert wait_for_end(local, "run-1").reason == "stopped"


def test_the_zygote_outlives_a_resize(local: Backend, script: Path, warm: Path) -> None:
    local.launch(make_launch((str(warm), str(script), "stay"), 1))
    wait_for_output(local, "run-1", "rank 0")
    zygote = zygote_of(local).pid
    local.resize("run-1", workers(2), 1)
    assert f"from {zygote} " in wait_for_output(local, "run-1", "rank 1", "w1")


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
    zygote = zygote_of(local)
    zygote.kill()
    until(lambda: not zygote.is_running(), "the agent to bury the zygote")
    assert worker.ppid() == agent_of(local).pid
    worker.terminate()
    last = wait_for_end(local, "run-1")
    assert (last.code, last.reason) == (143, "signal")


@pytest.fixture
def busy(tmp_path: Path) -> Path:
    """While this file exists the zygote is busy with its imports."""
    path = tmp_path / "importing"
    path.touch()
    return path


def launch_busy(local: Backend, script: Path, warm: Path, busy: Path, count: int) -> None:
    hold = (("ZYGOTE_HOLD", str(busy)),)
    local.launch(make_launch((str(warm), str(script), "stay"), count, env=hold, grace_s=60.0))
    zygote_of(local)


def test_a_stop_does_not_wait_for_the_zygotes_imports(local: Backend, script: Path, warm: Path, busy: Path) -> None:
    launch_busy(local, script, warm, busy, 2)
    local.stop("run-1", 60.0)
    last = wait_for_end(local, "run-1")
    assert busy.exists()
    assert (last.kind, last.reason) == (ReportKind.FAILED, "stopped")
    assert "worker_started" not in kinds(local.reports("run-1", 0))


def test_a_resize_during_the_imports_forks_only_the_new_world(
    local: Backend, script: Path, warm: Path, busy: Path
) -> None:
    launch_busy(local, script, warm, busy, 3)
    local.resize("run-1", workers(2), 1)
    wait_for(local, "run-1", ReportKind.WORKER_EXITED, count=3)
    busy.unlink()
    wait_for(local, "run-1", ReportKind.RESIZED, generation=1, width=2)
    for rank in (0, 1):
        wait_for_output(local, "run-1", f"rank {rank}", f"w{rank}")
    started = {r.pid for r in local.reports("run-1", 0) if r.kind is ReportKind.WORKER_STARTED}
    assert len(started) == 2
    wanted = {*started, zygote_of(local).pid}
    until(lambda: {child.pid for child in agent_of(local).children()} == wanted, "the other forks to be ended")


@pytest.mark.parametrize("also_the_zygote", [False, True])
def test_no_forked_worker_outlives_its_agent(
    local: Backend, script: Path, state_dir: Path, also_the_zygote: bool
) -> None:
    """Nobody looks: the kernel alone sees to it."""
    local.launch(make_launch((sys.executable, str(script), "stay"), 2))
    for rank in (0, 1):
        wait_for_output(local, "run-1", "rank", f"w{rank}")
    agent = agent_of(local)
    if also_the_zygote:
        zygote_of(local).kill()
    agent.kill()
    until(lambda: not processes_of(state_dir), "the workers to be gone")


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
