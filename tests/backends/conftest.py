"""A state directory whose every process is gone after the test, whatever the test did."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.backends import Backend, LocalBackend, fake_devices
from tests.backends.watching import processes_of, until


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "state"
    yield root
    backend = LocalBackend(root, fake_devices(8))
    for run in backend.runs():
        if run.alive:
            backend.stop(run.run_id, 0.0)
    until(lambda: not any(run.alive for run in backend.runs()), "all agents to leave")
    left = processes_of(root)
    for process in left:
        process.kill()
    assert left == []


@pytest.fixture
def local(state_dir: Path) -> Backend:
    return LocalBackend(state_dir, fake_devices(8))
