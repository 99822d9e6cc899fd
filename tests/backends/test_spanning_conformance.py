"""Workers behind hosts of an engine keep every promise of a backend."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.backends import Backend
from penstock.backends.testing import BackendContract
from tests.backends.spanning import SpanningBackend
from tests.backends.watching import processes_of, until
from tests.tools import needs


@pytest.mark.skipif(
    shutil.which("slurmctld") is not None and os.geteuid() == 0,
    reason=needs.reason("the same is tested on a real Slurm", needs.ORDINARY_USER),
)
class TestSpanningBackend(BackendContract):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Iterator[Callable[[], Backend]]:
        state = tmp_path / "state"
        yield lambda: SpanningBackend(state)
        backend = SpanningBackend(state)
        for run in backend.runs():
            if run.alive:
                backend.stop(run.run_id, 0.0)
        until(lambda: not any(run.alive for run in backend.runs()), "all agents to leave")
        assert processes_of(state) == []
