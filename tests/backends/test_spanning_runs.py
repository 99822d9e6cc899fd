"""A run across machines that share no network with each other but one bridge: in-place resizes, lost hosts, drains."""

import ctypes
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from penstock.backends.agent.part_workers import PartWorkers
from penstock.backends.agent.parts import PartEnd, PartFate
from penstock.backends.testing import wait_for, wait_for_end, wait_for_output
from penstock.backends.testing.process_parts import REFUSED_NODE, WAITING_NODE
from penstock.core import Launch, Report, ReportKind, RunState, Worker
from tests.backends.machines import Machines, played_machines
from tests.backends.spanning import SpanningBackend
from tests.backends.test_tcp_line import batches, losses
from tests.backends.watching import CAREFUL, kinds, output, processes_of, python, status, until

SCRIPT = Path(__file__).parents[1] / "runtime" / "scripts" / "train.py"
STEPS = 150
PIDFD_GETFD = 438
"""The number of a system call that Python has no name for."""


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    with played_machines(2) as made:
        yield made


def cleared(state: Path) -> None:
    for process in processes_of(state):
        process.kill()


@pytest.fixture
def backend(tmp_path: Path, machines: Machines) -> Iterator[SpanningBackend]:
    state = tmp_path / "state"
    yield SpanningBackend(state, machines.names, host=machines.host, prefixes=machines.prefixes())
    cleared(state)


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[SpanningBackend]:
    """The same on the loopback, for what needs no network."""
    state = tmp_path / "state"
    yield SpanningBackend(state, ("here", WAITING_NODE, REFUSED_NODE))
    cleared(state)


def on(*nodes: str) -> tuple[Worker, ...]:
    return tuple(Worker(id=f"w{rank}", rank=rank, node=node, slot=rank) for rank, node in enumerate(nodes))


def launch(run_id: str, command: tuple[str, ...], workers: tuple[Worker, ...], folder: Path, **more: object) -> Launch:
    values = {"grace_s": 4.0, "env": (("OMP_NUM_THREADS", "1"),), **more}
    return Launch(run_id=run_id, job_id="job", command=command, workers=workers, working_dir=str(folder), **values)  # type: ignore[arg-type]


def host_of(state: Path, run_id: str, part: str) -> psutil.Process:
    """The process that an engine would kill: of the host in a part, not its worker."""
    return psutil.Process(int((state / "runs" / run_id / "parts" / f"{part}.pid").read_text()))


def wait_for_world(backend: SpanningBackend, run_id: str, **fields: object) -> Report:
    resized = wait_for(backend, run_id, ReportKind.RESIZED, **fields)
    wait_for(backend, run_id, ReportKind.PROGRESS, generation=resized.generation)
    return resized


def test_an_elastic_run_across_machines_grows_shrinks_and_survives_a_killed_host_with_every_sample_once(
    backend: SpanningBackend, machines: Machines, tmp_path: Path
) -> None:
    left, right = machines.names
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    for folder in (calm, rough):
        folder.mkdir()
    command = (sys.executable, str(SCRIPT), "--steps", str(STEPS))
    backend.launch(launch("calm", command, on(left), calm))
    backend.launch(launch("rough", (*command, "--sleep", "0.5", "--hurry", "now"), on(left, right), rough))
    wait_for(backend, "rough", ReportKind.PROGRESS)
    backend.resize("rough", on(left, right, right), 1)
    grown = wait_for_world(backend, "rough", generation=1)
    assert (grown.width, grown.in_place) == (3, True)
    backend.resize("rough", on(left, right), 2)
    shrunk = wait_for_world(backend, "rough", generation=2)
    assert (shrunk.width, shrunk.in_place) == (2, True)
    host_of(tmp_path / "state", "rough", "w1-2").kill()
    survived = wait_for_world(backend, "rough", width=1)
    assert survived.in_place
    (rough / "now").touch()
    assert wait_for_end(backend, "calm").kind is ReportKind.FINISHED, output(backend, "calm")
    assert wait_for_end(backend, "rough").kind is ReportKind.FINISHED, output(backend, "rough")
    exits = {one.worker: one.reason for one in backend.reports("rough", 0) if one.kind is ReportKind.WORKER_EXITED}
    assert (exits["w0"], exits["w2"]) == ("done", "asked")
    assert exits["w1"] in ("deleted", "node_lost"), "whoever was first to tell: the engine, or the line to the host"
    assert batches(rough) == batches(calm)
    assert losses(rough) == pytest.approx(losses(calm), rel=2e-4)


def test_a_plain_run_meets_at_the_machine_of_rank_zero_and_is_asked_before_its_place_is_taken_away(
    backend: SpanningBackend, machines: Machines, tmp_path: Path
) -> None:
    code = f"import os; print('master', os.environ['MASTER_ADDR'], os.environ['LOCAL_RANK'], flush=True)\n{CAREFUL}"
    backend.launch(launch("run-1", python(code), on(*machines.names), tmp_path))
    for worker in ("w0", "w1"):
        wait_for_output(backend, "run-1", "here", worker)
        assert f"master {machines.host.rpartition('.')[0]}.2 0" in output(backend, "run-1", worker)
    host_of(tmp_path / "state", "run-1", "w1-2").send_signal(signal.SIGTERM)
    last = wait_for_end(backend, "run-1")
    assert (last.kind, last.reason) == (ReportKind.FAILED, "evicted")
    assert all("saved" in output(backend, "run-1", worker) for worker in ("w0", "w1"))
    assert "is being taken away" in output(backend, "run-1")


def test_a_broken_line_and_an_agent_that_was_away_cost_nothing(beside: SpanningBackend, tmp_path: Path) -> None:
    code = "import time\nfor i in range(60):\n    print('line', i, flush=True)\n    time.sleep(0.05)"
    beside.launch(launch("run-1", python(code), on("here"), tmp_path))
    wait_for_output(beside, "run-1", "line 5")
    agent = psutil.Process(beside.reports("run-1", 0)[0].pid or 0)
    for connection in agent.net_connections("tcp"):
        if connection.status == "ESTABLISHED":
            _hang_up(agent.pid, connection.fd)
    agent.suspend()
    agent.resume()
    assert wait_for_end(beside, "run-1").kind is ReportKind.FINISHED, output(beside, "run-1")
    assert output(beside, "run-1", "w0").splitlines() == [f"line {i}" for i in range(60)]


def _hang_up(pid: int, fd: int) -> None:
    """Shut down a connection of another process, as a firewall that lost its memory would."""
    handle = os.pidfd_open(pid)
    copy = ctypes.CDLL(None).syscall(PIDFD_GETFD, handle, fd, 0)
    os.close(handle)
    assert copy >= 0
    with socket.socket(fileno=copy) as line:
        line.shutdown(socket.SHUT_RDWR)


def test_a_run_that_waits_says_why_and_a_refused_part_ends_it(beside: SpanningBackend, tmp_path: Path) -> None:
    beside.launch(launch("run-1", ("true",), on("here", WAITING_NODE), tmp_path))
    until(lambda: status(beside, "run-1").state is RunState.WAITING, "a run that waits")
    until(lambda: "(Resources)" in status(beside, "run-1").reason, "the engine's words")
    assert "worker_started" not in kinds(beside.reports("run-1", 0)), "all start together or none"
    beside.stop("run-1", 0.0)
    wait_for_end(beside, "run-1")
    beside.launch(launch("run-2", ("true",), on(REFUSED_NODE), tmp_path))
    last = wait_for_end(beside, "run-2")
    assert (last.kind, last.reason) == (ReportKind.FAILED, "refused")
    assert "there is no such node" in last.tail[-1]


def test_the_secret_is_in_no_command_line_no_log_and_no_environment_of_a_worker(
    beside: SpanningBackend, tmp_path: Path
) -> None:
    code = "import os, time; print(os.environ['PENSTOCK_SECRET_FILE'], flush=True); time.sleep(600)"
    beside.launch(launch("run-1", python(code), on("here"), tmp_path))
    place = wait_for_output(beside, "run-1", "/secret", "w0").strip()
    secret = Path(place).read_text()
    assert Path(place).stat().st_mode & 0o777 == 0o600
    files = [
        path for path in (tmp_path / "state").rglob("*") if path.is_file() and secret.encode() in path.read_bytes()
    ]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert {path.suffix for path in files} == {"", ".secret"}
    for process in processes_of(tmp_path / "state"):
        assert secret not in " ".join([*process.cmdline(), *process.environ().values()])
    beside.stop("run-1", 0.0)
    wait_for_end(beside, "run-1")
    assert not Path(place).exists()


@pytest.mark.parametrize(
    ("waited_s", "limit_s", "words", "said"),
    [
        (60.0, 60.0, "", None), (60.1, 60.0, "", "its host did not come in time"),
        (60.1, 60.0, "no such image", "no such image"), (1e6, None, "no such image", None),
    ],
)  # fmt: skip
def test_a_part_whose_host_does_not_come_is_refused_with_the_words_of_its_engine(
    waited_s: float, limit_s: float | None, words: str, said: str | None
) -> None:
    part: Any = SimpleNamespace(pending=True, connected=False, end=None, asked_at=100.0, words=words, broken_at=None)
    ended = PartWorkers._lost(SimpleNamespace(_start_limit_s=limit_s), part, 100.0 + waited_s)  # type: ignore[arg-type]
    assert ended == (None if said is None else PartEnd(fate=PartFate.REFUSED, words=said))
