"""Agents that are stopped, killed or robbed of their directory, and children that hide: nothing outlives a run."""

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from penstock.backends import LocalBackend, ShortageError, SilentError, fake_devices
from penstock.backends.runs import agent_launcher, silent_agents
from penstock.backends.runs.rundir import RunDir
from penstock.core import ReportKind
from tests.backends.watching import SLEEPER, make_launch, processes_of, python, until, wait_for, wait_for_end

_HIDE = "import subprocess, sys, time; subprocess.Popen(['env', '-i', 'setsid', 'sleep', sys.argv[1]]); time.sleep(600)"
_DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"


@pytest.fixture
def local(state_dir: Path) -> LocalBackend:
    return LocalBackend(state_dir, fake_devices(8))


def agent_of(local: LocalBackend, state_dir: Path, run_id: str = "run-1") -> int:
    wait_for(local, run_id, ReportKind.WORKER_STARTED)
    about = RunDir(state_dir / "runs" / run_id).read_agent()
    assert about is not None
    return int(about["pid"])


def alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def hidden(mark: str) -> list[int]:
    return [one.pid for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == ["sleep", mark]]


def test_a_run_whose_agent_is_stopped_is_ended_after_its_grace(local: LocalBackend, state_dir: Path) -> None:
    local.launch(make_launch(python(_DEAF)))
    agent = agent_of(local, state_dir)
    os.kill(agent, signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(SilentError, match="does not answer to a StopRequest"):
        local.stop("run-1", 5.0)
    assert time.monotonic() - began < 5.0
    assert processes_of(state_dir), "its own grace is not over"

    def gone() -> bool:
        with suppress(SilentError):  # as long as it is there
            local.stop("run-1", 5.0)
        return not local.runs()[0].alive

    until(gone, "the end of a stopped agent")
    assert time.monotonic() - began >= 4.0
    until(lambda: not alive(agent) and not processes_of(state_dir), "the end of its workers")


def test_a_silent_agent_is_not_waited_for_twice(
    local: LocalBackend, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local.launch(make_launch(python(SLEEPER)))
    agent = agent_of(local, state_dir)
    os.kill(agent, signal.SIGSTOP)
    local.usage("run-1")
    with monkeypatch.context() as patch:
        patch.setattr(silent_agents, "ask", lambda *_: pytest.fail("it is asked again"))
        for _ in range(20):
            local.usage("run-1")
    os.kill(agent, signal.SIGCONT)
    local.stop("run-1", 5.0)
    assert wait_for_end(local, "run-1").reason == "stopped"


def test_children_that_hide_die_with_the_run(local: LocalBackend, state_dir: Path) -> None:
    local.launch(make_launch(python(_HIDE, "7117")))
    until(lambda: hidden("7117"), "the child that hides")
    os.kill(agent_of(local, state_dir), signal.SIGKILL)
    until(lambda: not hidden("7117"), "the end of the child that hides")
    until(lambda: not local.runs()[0].alive, "the end of the run")


def test_a_run_that_deletes_its_directory_is_gone_with_its_processes(local: LocalBackend, state_dir: Path) -> None:
    local.launch(make_launch(python(SLEEPER)))
    agent = agent_of(local, state_dir)
    assert [status.run_id for status in local.runs()] == ["run-1"]
    until(lambda: _deleted(state_dir / "runs" / "run-1"), "the end of its directory")
    assert local.runs() == ()
    until(lambda: not alive(agent) and not processes_of(state_dir), "the end of its processes")


def _deleted(path: Path) -> bool:
    """Agents write into it meanwhile, and what they write has to go, too."""
    shutil.rmtree(path, ignore_errors=True)
    return not path.exists()


def test_a_launch_that_was_only_written_down_is_not_there_yet_and_starts(local: LocalBackend, state_dir: Path) -> None:
    launch = make_launch(python("print('here')"))
    run_dir = RunDir(state_dir / "runs" / "run-1")
    run_dir.path.mkdir(parents=True)
    run_dir.write_launch(launch)
    assert local.runs() == ()
    local.launch(launch)
    assert wait_for_end(local, "run-1").kind is ReportKind.FINISHED
    assert [status.run_id for status in local.runs()] == ["run-1"]


def test_a_directory_in_place_of_a_file_disturbs_no_listing(local: LocalBackend, state_dir: Path) -> None:
    for run_id in ("mad", "sane"):
        local.launch(make_launch(python(SLEEPER), run_id=run_id))
        wait_for(local, run_id, ReportKind.WORKER_STARTED)
    for name in ("state", "agent.json", "reports.jsonl"):
        path = state_dir / "runs" / "mad" / name
        path.rename(path.with_suffix(".moved")) if path.exists() else None
        path.mkdir()
    assert {status.run_id: status.alive for status in local.runs()} == {"mad": True, "sane": True}
    for name in ("state", "agent.json", "reports.jsonl"):
        path = state_dir / "runs" / "mad" / name
        path.rmdir()
        path.with_suffix(".moved").rename(path) if path.with_suffix(".moved").exists() else None


def test_a_machine_without_processes_is_no_fault_of_the_run(
    local: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_options: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(agent_launcher.subprocess, "Popen", refuse)
    with pytest.raises(ShortageError, match="Resource temporarily unavailable"):
        local.launch(make_launch(python("pass")))
    monkeypatch.undo()
    local.launch(make_launch(python("pass")))
    assert wait_for_end(local, "run-1").kind is ReportKind.FINISHED


def test_agents_start_without_a_zygote_too(local: LocalBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = subprocess.Popen

    def no_zygote(argv: list[str], *args: object, **options: object) -> object:
        if any("agent_zygote" in word for word in argv):
            raise FileNotFoundError(2, "no such thing")
        return sound(argv, *args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(agent_launcher.subprocess, "Popen", no_zygote)
    local.launch(make_launch(python("print('here')")))
    assert wait_for_end(local, "run-1").kind is ReportKind.FINISHED


def test_a_zygote_that_was_killed_is_replaced(local: LocalBackend, state_dir: Path) -> None:
    for run_id in ("first", "second", "third"):
        local.launch(make_launch(python("pass"), run_id=run_id))
        assert wait_for_end(local, run_id).kind is ReportKind.FINISHED
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if str(state_dir / "runs") in words and "penstock.backends.runs.agent_zygote" in words:
                process.kill()
