"""Memory that workers of a run have used is given back with the run, however they ended."""

from pathlib import Path

import pytest

from penstock.backends.agent import memory_place as places
from penstock.backends.agent.environment import base_environment
from penstock.backends.agent.memory_place import give_memory_back, memory_place
from penstock.backends.runs.rundir import RunDir
from penstock.core import Launch, Worker


@pytest.fixture(autouse=True)
def shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shared = tmp_path / "shm"
    shared.mkdir()
    monkeypatch.setattr(places, "SHARED_MEMORY", shared)
    return shared


def run_in(folder: Path, name: str) -> RunDir:
    (folder / name).mkdir()
    return RunDir(folder / name)


def test_a_run_that_is_forgotten_leaves_nothing_and_others_keep_theirs(tmp_path: Path, shared_memory: Path) -> None:
    runs = [run_in(tmp_path, name) for name in ("a.1", "a.2")]
    for run in runs:
        place = memory_place(run.path)
        assert place is not None
        (place / "set").mkdir(parents=True)
        (place / "set" / "r00000.0.bin").write_bytes(b"state")
    runs[0].forget()
    assert list(shared_memory.iterdir()) == [memory_place(runs[1].path)]
    give_memory_back(runs[0].path)


def test_workers_are_told_where_it_is(tmp_path: Path, shared_memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_in(tmp_path, "a.1")
    worker = Worker(id="w0", rank=0, node="local", slot=0)
    launch = Launch(run_id="a.1", job_id="a", command=("true",), workers=(worker,), working_dir=str(tmp_path))
    told = base_environment({}, launch, run.paths)["PENSTOCK_MEMORY_DIR"]
    assert Path(told).parent == shared_memory
    monkeypatch.setattr(places, "SHARED_MEMORY", tmp_path / "none")
    assert "PENSTOCK_MEMORY_DIR" not in base_environment({}, launch, run.paths)
