"""Workers that reach their agent by TCP and share no file with each other train as if they did."""

import json
import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.backends import LocalBackend, fake_devices
from penstock.core import PROTOCOL_VERSION, AgentAddress, Report, ReportKind
from tests.backends.watching import kinds, make_launch, output, processes_of, until, wait_for, wait_for_end, workers

SCRIPT = Path(__file__).parents[1] / "runtime" / "scripts" / "train.py"
SLEEPER = (sys.executable, "-c", "import os, time; print(os.environ['PENSTOCK_AGENT'], flush=True); time.sleep(600)")
RUN = "run-1"
STEPS = 150


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[LocalBackend]:
    state = tmp_path / "state"
    yield LocalBackend(state, fake_devices(4), listen=AgentAddress.parse("tcp://127.0.0.1:0"))
    for process in processes_of(state):
        process.kill()


def begin(backend: LocalBackend, folder: Path, *arguments: str, width: int) -> None:
    """The training script; what its workers write down goes into ``folder``."""
    folder.mkdir()
    command = (sys.executable, str(SCRIPT), "--steps", str(STEPS), *arguments)
    launch = make_launch(command, width, run_id=folder.name, working_dir=str(folder), env=(("OMP_NUM_THREADS", "1"),))
    backend.launch(launch)


def records(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(folder.glob(f"{kind}-*")) for line in path.read_text().splitlines()]


def batches(folder: Path) -> dict[int, list[int]]:
    """Samples of each completed step in the order of ranks."""
    completed: dict[int, int] = {}
    for one in records(folder, "step"):
        completed[one["step"]] = max(completed.get(one["step"], 0), one["generation"])
    shares = sorted(records(folder, "share"), key=lambda one: int(one["rank"]))
    return {
        step: [s for one in shares if (one["step"], one["generation"]) == (step, generation) for s in one["samples"]]
        for step, generation in completed.items()
    }


def losses(folder: Path) -> dict[int, float]:
    return {one["step"]: one["loss"] for one in records(folder, "step")}


def wait_for_world(backend: LocalBackend, run_id: str, **fields: object) -> Report:
    resized = wait_for(backend, run_id, ReportKind.RESIZED, **fields)
    wait_for(backend, run_id, ReportKind.PROGRESS, generation=resized.generation)
    return resized


def test_an_elastic_run_grows_in_place_loses_rank_zero_and_sees_every_sample_in_order(
    backend: LocalBackend, tmp_path: Path
) -> None:
    begin(backend, tmp_path / "calm", width=1)
    begin(backend, tmp_path / "rough", "--sleep", "0.05", width=2)
    wait_for(backend, "rough", ReportKind.PROGRESS)
    backend.resize("rough", workers(3), 1)
    grown = wait_for_world(backend, "rough", generation=1)
    assert (grown.width, grown.in_place) == (3, True)
    rank_zero = wait_for(backend, "rough", ReportKind.WORKER_STARTED, worker="w0").pid
    assert rank_zero is not None
    os.kill(rank_zero, 9)
    shrunk = wait_for_world(backend, "rough", width=2)
    assert shrunk.in_place
    assert wait_for_end(backend, "calm").kind is ReportKind.FINISHED, output(backend, "calm")
    assert wait_for_end(backend, "rough").kind is ReportKind.FINISHED, output(backend, "rough")
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    assert batches(rough) == batches(calm)
    assert sorted(batches(rough)) == list(range(STEPS))
    assert losses(rough) == pytest.approx(losses(calm), rel=2e-4)
    assert not list((tmp_path / "state/runs/rough").glob("rendezvous/*")), "they met over the agent, not over a file"


def test_the_secret_is_in_no_command_line_no_log_and_no_file_for_others(backend: LocalBackend, tmp_path: Path) -> None:
    backend.launch(make_launch(SLEEPER, 2))
    until(lambda: output(backend, RUN).count("tcp://") == 2, "both workers")
    file = tmp_path / "state/runs/run-1/secret"
    secret = file.read_text()
    assert len(secret) >= 32
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    elsewhere = [path for path in (tmp_path / "state").rglob("*") if path.is_file() and path != file]
    assert [path for path in elsewhere if secret.encode() in path.read_bytes()] == []
    for process in processes_of(tmp_path / "state"):
        assert secret not in " ".join(process.cmdline())
        assert secret not in " ".join(process.environ().values())
    backend.stop(RUN, 0.0)
    wait_for_end(backend, RUN)
    assert not file.exists()


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        ({"secret": "guess-guess-guess"}, "a wrong secret"),
        ({}, "no secret"),
        ({"version": PROTOCOL_VERSION + 1}, "install the same version of penstock"),
        ({"type": "bye"}, "bye"),
    ],
    ids=["wrong", "missing", "version", "no hello"],
)  # fmt: skip
def test_strangers_are_refused_in_one_sentence(
    backend: LocalBackend, tmp_path: Path, hello: dict[str, object], reason: str
) -> None:
    backend.launch(make_launch(SLEEPER))
    until(lambda: "tcp://" in output(backend, RUN), "the address")
    found = re.search(r"tcp://\S+", output(backend, RUN))
    assert found is not None
    address = AgentAddress.parse(found[0])
    said = {"type": "hello", "worker": "w0", "pid": 1, "version": PROTOCOL_VERSION} | hello
    with address.connect(5.0) as line, line.makefile("rwb") as stream:
        line.settimeout(10.0)
        stream.write(json.dumps(said).encode() + b"\n")
        stream.flush()
        answers = [json.loads(answer) for answer in stream]
    assert [answer["type"] for answer in answers] == ["refused"]
    assert reason in answers[0]["reason"]
    log = (tmp_path / "state/runs/run-1/agent.log").read_text()
    assert "refused a connection" in log
    assert "guess" not in log
    assert kinds(backend.reports(RUN, 0)) == ["launched", "worker_started"]


def test_a_worker_of_another_version_ends_with_the_reason(backend: LocalBackend, tmp_path: Path) -> None:
    """The library meets an agent that refuses it: the script fails with that sentence, and does not wait for ever."""
    begin(backend, tmp_path / "other", width=1)
    environment = wait_for(backend, "other", ReportKind.WORKER_STARTED)
    assert environment.pid is not None
    wait_for_end(backend, "other")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        env = {
            **os.environ, "PENSTOCK_AGENT": f"tcp://127.0.0.1:{listener.getsockname()[1]}", "PENSTOCK_WORKER": "w0",
            "PENSTOCK_SECRET": "s", "PENSTOCK_CHECKPOINT_DIR": str(tmp_path / "c"),
        }  # fmt: skip
        worker = subprocess.Popen(
            [sys.executable, str(SCRIPT), "--steps", "5"], env=env, cwd=tmp_path, stderr=subprocess.PIPE, text=True
        )
        line, _ = listener.accept()
        with line, line.makefile("rwb") as stream:
            assert json.loads(stream.readline())["version"] == PROTOCOL_VERSION
            stream.write(b'{"type": "refused", "reason": "install the same version of penstock"}\n')
            stream.flush()
            _, told = worker.communicate(timeout=60)
    assert worker.returncode != 0
    assert "install the same version of penstock" in told
