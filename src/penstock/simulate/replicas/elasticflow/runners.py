"""Which replica answers to which name."""

from collections.abc import Callable, Sequence

from penstock.core import UnknownNameError
from penstock.simulate.replicas.elasticflow.edf import run_edf, run_edf_admission
from penstock.simulate.replicas.elasticflow.elasticflow import run_elasticflow
from penstock.simulate.replicas.elasticflow.gandiva import run_gandiva
from penstock.simulate.replicas.elasticflow.jobs import ArtifactJob, ReplicaOutcome
from penstock.simulate.replicas.elasticflow.tiresias import run_tiresias

_RUNNERS: dict[str, Callable[[Sequence[ArtifactJob], int, int, int], list[ReplicaOutcome]]] = {
    "elasticflow-artifact": run_elasticflow,
    "edf-artifact": run_edf,
    "edf-admission-artifact": run_edf_admission,
    "tiresias-artifact": run_tiresias,
    "gandiva-artifact": run_gandiva,
}


def run(policy: str, jobs: Sequence[ArtifactJob], nodes: int, devices_per_node: int, slot: int) -> list[ReplicaOutcome]:
    """Run ``jobs`` to their end under a replica; outcomes come in the order of the jobs.

    ``slot`` is both the least distance of two scheduling events in seconds and, as in the original, the number of
    events between two restarts of all trainers.
    """
    if policy not in _RUNNERS:
        raise UnknownNameError.of("replica", policy, _RUNNERS)
    return _RUNNERS[policy](jobs, nodes, devices_per_node, slot)
