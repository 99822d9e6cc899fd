"""What is special about the machine at hand: its disk, its sockets, its agents."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from penstock.backends import Backend, BackendError, LocalBackend, fake_devices
from penstock.backends.agent.outputs import RunLog
from penstock.backends.agent.progress import ProgressFile
from penstock.backends.agent.side_processes import SideEnd
from penstock.backends.agent.spawner import Spawner
from penstock.backends.runs import backend as backend_module
from penstock.backends.runs.rundir import MARKS, RunDir, marked_runs
from penstock.core import InputError, Launch, ModuleCall, ReportKind, Worker
from tests.backends.watching import (
    CAREFUL,
    SLEEPER,
    kinds,
    make_launch,
    output,
    processes_of,
    python,
    until,
    wait_for,
    wait_for_end,
    wait_for_output,
    workers,
)
from tests.tools import coroutines


@pytest.mark.parametrize("place", ["/proc/penstock", "file/below"])
def test_a_state_directory_that_cannot_be_written_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(InputError, match=r"cannot write to .* Allowed: .* another state directory"):
        LocalBackend(tmp_path / place, fake_devices(1))


def test_event_files_of_a_script_are_metrics(state_dir: Path, tmp_path: Path) -> None:
    code = """
import os
from pathlib import Path
from penstock.tools import Scalar, scalar_record
for place in ('runs/now', os.environ['PENSTOCK_CHECKPOINT_DIR']):
    path = Path(place) / f'events.out.tfevents.1700000000.here.{os.getpid()}.0'
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b''.join(scalar_record(Scalar(path.parent.name, step, 1.0, step / 2)) for step in (1, 2)))
"""
    backend = LocalBackend(state_dir, fake_devices(1))
    backend.launch(make_launch(python(code), working_dir=str(tmp_path)))
    wait_for_end(backend, "run-1")
    found = {series.name: [(point.step, point.value) for point in series.points] for series in backend.metrics("run-1")}
    assert found == {"now": [(1, 0.5), (2, 1.0)], "checkpoints": [(1, 0.5), (2, 1.0)]}


def test_a_full_disk_is_told_at_launch(state_dir: Path) -> None:
    LocalBackend(state_dir, fake_devices(1))
    code = """
import resource, signal, sys
from penstock.backends import LocalBackend, fake_devices
from penstock.core import InputError
from tests.backends.watching import make_launch
backend = LocalBackend(sys.argv[1], fake_devices(1))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))
try:
    backend.launch(make_launch(('true',)))
except InputError as error:
    print(error)
"""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code, str(state_dir)], capture_output=True, text=True, cwd=root, check=True
    )
    assert "cannot write to" in done.stdout
    assert "Free some space" in done.stdout
    assert LocalBackend(state_dir, fake_devices(1)).runs() == ()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"working_dir": "/nowhere"}, "working directory '/nowhere' does not exist"),
        ({"command": ()}, "has no command"),
        ({"count": 0}, "has no workers"),
    ],
)
def test_what_could_never_start_is_refused_and_leaves_nothing(
    local: Backend, fields: dict[str, object], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        local.launch(make_launch(**{"command": ("true",), **fields}))  # type: ignore[arg-type]
    assert local.runs() == ()


def test_paths_too_long_for_a_socket_work(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 80)
    local = LocalBackend(deep, fake_devices(2))
    local.launch(make_launch(python(SLEEPER)))
    wait_for_output(local, "run-1", "here")
    socket_path = Path(json.loads((deep / "runs/run-1/agent.json").read_text())["socket"])
    local.stop("run-1", 1.0)
    wait_for_end(local, "run-1")
    until(lambda: not socket_path.parent.exists(), "the socket's directory to go")


def test_an_agent_that_does_not_start_is_told_with_its_reason(
    state_dir: Path, local: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend_module, "START_S", 5.0)
    (state_dir / "runs/run-1/merged.log").mkdir(parents=True)
    with pytest.raises(BackendError, match=r"did not start.*merged\.log"):
        local.launch(make_launch(("true",)))


def test_two_servers_that_launch_at_once_start_one_agent(state_dir: Path) -> None:
    launch = make_launch(python(SLEEPER))
    servers = [LocalBackend(state_dir, fake_devices(2)) for _ in range(4)]
    threads = [threading.Thread(target=server.launch, args=(launch,)) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kinds(servers[0].reports("run-1", 0)).count("launched") == 1


def test_a_server_may_be_killed_and_the_run_goes_on(state_dir: Path) -> None:
    code = """
import os, signal, sys
from penstock.backends import LocalBackend, fake_devices
from tests.backends.watching import CAREFUL, python
from tests.backends.watching import make_launch
LocalBackend(sys.argv[1], fake_devices(2)).launch(make_launch(python(CAREFUL), 2))
os.kill(os.getpid(), signal.SIGKILL)
"""
    server = subprocess.run([sys.executable, "-c", code, str(state_dir)], cwd=Path(__file__).parents[2], check=False)
    assert server.returncode == -signal.SIGKILL
    local = LocalBackend(state_dir, fake_devices(2))
    assert [(run.run_id, run.alive) for run in local.runs()] == [("run-1", True)]
    wait_for_output(local, "run-1", "here", "w1")
    local.resize("run-1", workers(1), 1)
    assert wait_for(local, "run-1", ReportKind.RESIZED).width == 1


def test_a_dead_run_has_no_process_left(local: LocalBackend, state_dir: Path) -> None:
    """Silent children in a session of their own notice nothing of their agent's death."""
    code = "import subprocess, time; subprocess.Popen(['sleep', '600'], start_new_session=True); " + SLEEPER
    local.launch(make_launch(python(code)))
    wait_for_output(local, "run-1", "here")
    agent = wait_for(local, "run-1", ReportKind.LAUNCHED).pid
    assert agent is not None
    os.kill(agent, signal.SIGKILL)
    until(lambda: not any(run.alive for run in local.runs()), "the agent to be gone")
    until(lambda: not processes_of(state_dir), "its processes to be gone", timeout_s=2.0)


def test_a_silent_worker_dies_with_its_agent(local: Backend, state_dir: Path) -> None:
    local.launch(make_launch(python(SLEEPER), 2))
    wait_for_output(local, "run-1", "here", "w1")
    agent = wait_for(local, "run-1", ReportKind.LAUNCHED).pid
    assert agent is not None
    os.kill(agent, signal.SIGKILL)
    until(lambda: not processes_of(state_dir), "the workers to be gone")


def test_an_agent_that_is_asked_to_end_ends_its_run_in_order(local: Backend) -> None:
    local.launch(make_launch(python(CAREFUL)))
    wait_for_output(local, "run-1", "here")
    agent = wait_for(local, "run-1", ReportKind.LAUNCHED).pid
    assert agent is not None
    os.kill(agent, signal.SIGTERM)
    last = wait_for_end(local, "run-1")
    assert (last.kind, last.reason) == (ReportKind.FAILED, "signal")
    assert "saved" in output(local, "run-1")


def test_signals_of_the_terminal_do_not_reach_a_run(local: Backend) -> None:
    code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n" + SLEEPER
    local.launch(make_launch(python(code)))
    wait_for_output(local, "run-1", "here")
    agent = wait_for(local, "run-1", ReportKind.LAUNCHED).pid
    assert agent is not None
    assert os.getsid(agent) != os.getsid(0)
    for number in (signal.SIGINT, signal.SIGHUP):
        os.kill(agent, number)
    assert local.usage("run-1").memory_bytes > 0
    assert output(local, "run-1", "w0").startswith("True")


def test_progress_can_come_in_a_file(local: Backend) -> None:
    code = """
import json, os, time
with open(os.environ['PENSTOCK_PROGRESS'], 'w') as file:
    json.dump({'step': 12, 'total': 20}, file)
time.sleep(600)
"""
    local.launch(make_launch(python(code)))
    told = wait_for(local, "run-1", ReportKind.PROGRESS)
    assert (told.step, told.total, told.width) == (12, 20, 1)


def test_logs_of_one_stream_can_be_read_alone(local: Backend) -> None:
    local.launch(make_launch(python("import sys; print('good'); print('bad', file=sys.stderr)")))
    wait_for_end(local, "run-1")
    assert output(local, "run-1", "w0/stdout") == "good\n"
    assert output(local, "run-1", "w0/stderr") == "bad\n"
    assert sorted(output(local, "run-1", "w0").split()) == ["bad", "good"]
    with pytest.raises(InputError, match="stream"):
        output(local, "run-1", "w0/stdin")


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe\n",
        b"[1]\n",
        b'{"op": "resize"}\n',
        b'{"op": "resize", "generation": 1, "workers": []}\n',
        b'{"type": "progress", "step": "x"}\n',
        b"x" * 2_000_000 + b"\n",
    ],
    ids=["bytes", "list", "half", "empty", "stranger", "endless"],
)
def test_nonsense_on_the_socket_disturbs_nobody(local: Backend, state_dir: Path, line: bytes) -> None:
    local.launch(make_launch(python(SLEEPER)))
    about = json.loads((state_dir / "runs/run-1/agent.json").read_text())
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(5.0)
        peer.connect(about["socket"])
        with suppress(ConnectionError):  # which is what a line too long gets
            peer.sendall(line)
            answer = peer.recv(65536)
            assert not answer or json.loads(answer)["error"]
    assert local.usage("run-1").memory_bytes > 0


def test_an_unknown_request_is_answered_with_the_known_ones(local: Backend, state_dir: Path) -> None:
    local.launch(make_launch(python(SLEEPER)))
    about = json.loads((state_dir / "runs/run-1/agent.json").read_text())
    with socket.socket(socket.AF_UNIX) as peer, peer.makefile("rwb", buffering=0) as line:
        peer.settimeout(5.0)
        peer.connect(about["socket"])
        line.write(b'{"type": "dance"}\n{"type": "ping"}\n')
        answers = [json.loads(line.readline()) for _ in range(2)]
    assert "ping, resize, suspend, stop, usage" in answers[0]["error"]
    assert (answers[1]["error"], answers[1]["state"]) == ("", "running")


def test_a_relative_python_path_holds_for_agents_and_workers(local: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package may not be installed at all, only found from the directory a server was started in."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(("src", "/elsewhere")))
    local.launch(make_launch(python("import os; print(os.environ['PYTHONPATH'])")))
    wait_for_end(local, "run-1")
    assert output(local, "run-1", "w0").split() == [f"{Path('src').absolute()}{os.pathsep}/elsewhere"]


def test_the_servers_environment_is_not_the_jobs(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "PGPASSWORD", "PENSTOCK_TOKEN", "LD_PRELOAD_HINT", "SITE_CODE"):
        monkeypatch.setenv(name, "the server's")
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    local = LocalBackend(state_dir, fake_devices(1), pass_environment=["SITE_*"])
    code = "import json, os; print('ENV', json.dumps(dict(os.environ)))"
    local.launch(make_launch(python(code), env=(("OWN", "job"), ("HF_TOKEN", "the job's"))))
    wait_for_end(local, "run-1")
    seen = json.loads(output(local, "run-1").partition("ENV ")[2].splitlines()[0])
    assert {"AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "PENSTOCK_TOKEN", "LD_PRELOAD_HINT"}.isdisjoint(seen)
    chosen = (seen["OWN"], seen["HF_TOKEN"], seen["SITE_CODE"], seen["NCCL_DEBUG"])
    assert chosen == ("job", "the job's", "the server's", "WARN")
    assert seen["PATH"]


def test_a_progress_file_that_is_a_link_or_a_pipe_is_not_read(tmp_path: Path) -> None:
    secret, link, pipe = tmp_path / "secret", tmp_path / "link", tmp_path / "pipe"
    secret.write_text("step=3 total=9")
    link.symlink_to(secret)
    os.mkfifo(pipe)
    file = ProgressFile(secret)
    assert [file.news(), file.news()] == [{"step": 3, "total": 9}, None], "it is read again when it has changed"
    os.utime(secret, ns=(1, 1))
    assert file.news() == {"step": 3, "total": 9}
    assert ProgressFile(link).news() is None
    assert ProgressFile(pipe).news() is None


def test_a_process_that_is_none_of_the_agents_is_not_ended_because_a_zygote_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A zygote is the job's own process: it may say any number, and the agent may be root's.

    Signals are watched and not sent, and strangers are processes of the test: a guard that fails ends nothing here.
    """
    shell = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, text=True)
    assert shell.stdout is not None
    stranger = int(shell.stdout.readline())
    told: list[str] = []
    signals: list[int] = []

    class Listener:
        def on_started(self, worker_id: str, pid: int) -> None:
            told.append(f"{worker_id} {pid}")

        def on_exited(self, worker_id: str, how: object) -> None: ...

    async def forge(*pids: int) -> None:
        spawner = Spawner(tmp_path, make_launch(("true",)), {}, RunLog(tmp_path, lambda *_: None), Listener())
        for pid in pids:
            spawner._on_zygote_event({"event": "started", "id": "nobody", "pid": pid})
        spawner.close()

    try:
        with monkeypatch.context() as watched:
            for send in ("kill", "killpg"):
                watched.setattr(os, send, lambda pid, _: signals.append(pid))
            coroutines.run(forge(stranger, 0, -1, -stranger))
            assert signals == [], "neither a stranger nor a group nor everything"
            coroutines.run(forge(shell.pid))
            assert {shell.pid, stranger} == set(signals), "a child that is not wanted any more, with those below it"
        assert told == []
    finally:
        psutil.Process(stranger).kill()
        shell.wait()
        shell.stdout.close()


@pytest.mark.parametrize("job_folder", ["here", "absent"])
def test_a_check_by_our_own_python_runs_where_the_job_would(tmp_path: Path, job_folder: str) -> None:
    (tmp_path / "here").mkdir()
    used = str(tmp_path / "here") if job_folder == "here" else tempfile.gettempdir()
    launch = make_launch(("true",), working_dir=str(tmp_path / job_folder))
    call = ModuleCall(node="w0", module="timeit", words=("-n1", "-r1", "import os; print(os.getcwd())"), own=True)

    class Listener:
        def on_started(self, worker_id: str, pid: int) -> None: ...

        def on_exited(self, worker_id: str, how: object) -> None: ...

    async def check() -> SideEnd:
        spawner = Spawner(tmp_path, launch, {}, RunLog(tmp_path, lambda *_: None), Listener())
        running = asyncio.ensure_future(spawner.run_beside(call, {"PENSTOCK_NODE": "a"}))
        while not running.done():
            spawner.reap()
            await asyncio.sleep(0.01)
        spawner.close()
        return running.result()

    ended = coroutines.run(check())
    assert (ended.code, ended.output.splitlines()[0]) == (0, used)


def test_output_of_runs_that_were_forgotten_is_not_looked_through(tmp_path: Path) -> None:
    """Years of output lie beside the runs; listing costs what there is to list. Older directories are found once."""
    local = LocalBackend(tmp_path, fake_devices(1))
    for number in range(300):
        (tmp_path / "runs" / f"old-{number}.1").mkdir()
    launch = Launch(
        run_id="j.1", job_id="j", command=("true",), working_dir=str(tmp_path), checkpoint_dir=str(tmp_path / "c"),
        workers=(Worker(id="w0", rank=0, node=local.nodes()[0].name, slot=0),),
    )  # fmt: skip
    RunDir(tmp_path / "runs" / "j.1").path.mkdir()
    RunDir(tmp_path / "runs" / "j.1").write_launch(launch)
    assert [run.run_id for run in marked_runs(tmp_path / "runs")] == ["j.1"]
    assert len(list((tmp_path / "runs" / MARKS).iterdir())) == 1
    shutil.rmtree(tmp_path / "runs" / MARKS)
    assert [run.run_id for run in marked_runs(tmp_path / "runs")] == ["j.1"], "as an earlier version left it"
    local.forget("j.1")
    assert marked_runs(tmp_path / "runs") == []
    assert list((tmp_path / "runs" / MARKS).iterdir()) == []
