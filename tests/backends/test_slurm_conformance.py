"""The Slurm backend keeps every promise of a backend, on a real Slurm."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.backends import Backend
from penstock.backends.slurm import SlurmBackend, SlurmSettings
from penstock.backends.testing import NodeFaults, ProcessConformance
from tests.backends.watching import processes_of, until
from tests.tools.slurm import PARTITION, SlurmCluster, running_slurm


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    with running_slurm(tmp_path_factory.mktemp("slurm") / "cluster") as running:
        yield running


@dataclass(frozen=True)
class SlurmFaults:
    """A drain by its administrator, and a daemon that is killed."""

    cluster: SlurmCluster

    def drain(self, node: str) -> None:
        self.cluster.run("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=tests")

    def lose(self, node: str) -> None:
        self.cluster.stop(node)

    def restore(self, node: str) -> None:
        if node not in self.cluster.daemons:
            self.cluster.start_node(node)
        else:
            self.cluster.run("scontrol", "update", f"NodeName={node}", "State=RESUME")


class TestSlurmBackend(ProcessConformance):
    @pytest.fixture
    def faults(self, cluster: SlurmCluster) -> NodeFaults:
        return SlurmFaults(cluster)

    @pytest.fixture
    def opened(
        self, tmp_path: Path, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[Callable[[], Backend]]:
        monkeypatch.setenv("SLURM_CONF", str(cluster.configuration))
        state = tmp_path / "state"
        settings = SlurmSettings(partition=PARTITION, owner=True, host="127.0.0.1")
        yield lambda: SlurmBackend(state, settings)
        backend = SlurmBackend(state, settings)
        for run in backend.runs():
            if run.alive:
                backend.stop(run.run_id, 0.0)
        until(lambda: not any(run.alive for run in backend.runs()), "all agents to leave")
        assert processes_of(state) == []
