"""The world of the public ElasticFlow simulator, quirks and all, for replicating its published numbers.

The scheduler of Penstock plays no part here: these are replicas of what ``pkusys/ElasticFlow`` computes, job by job,
down to its merging of events, its overheads and its order of ties. Use them to check that a comparison with published
figures compares like with like; use the real policies for everything else. The planning of ElasticFlow itself lives in
``penstock.simulate.replicas.elasticflow.two_level_plan``.
"""

from collections.abc import Callable, Sequence

from penstock.core import UnknownNameError
from penstock.simulate.replicas.elasticflow.caps import cap, family, widest
from penstock.simulate.replicas.elasticflow.edf import run_edf, run_edf_admission
from penstock.simulate.replicas.elasticflow.elasticflow import run_elasticflow
from penstock.simulate.replicas.elasticflow.gandiva import run_gandiva
from penstock.simulate.replicas.elasticflow.jobs import LEVELS, ArtifactJob, Outcome
from penstock.simulate.replicas.elasticflow.tiresias import run_tiresias

_SOURCE = "github.com/pkusys/ElasticFlow"

_RUNNERS: dict[str, Callable[[Sequence[ArtifactJob], int, int, int], list[Outcome]]] = {
    "elasticflow-artifact": run_elasticflow,
    "edf-artifact": run_edf,
    "edf-admission-artifact": run_edf_admission,
    "tiresias-artifact": run_tiresias,
    "gandiva-artifact": run_gandiva,
}

REPLICAS: dict[str, tuple[str, str]] = {
    "elasticflow-artifact": ("ElasticFlow as the public simulator runs it", _SOURCE),
    "edf-artifact": ("earliest deadline first as the public simulator runs it", _SOURCE),
    "edf-admission-artifact": ("EDF with admission as the public simulator runs it", _SOURCE),
    "tiresias-artifact": ("Tiresias (2D-LAS) as the public simulator runs it", _SOURCE),
    "gandiva-artifact": ("Gandiva as the public simulator runs it", _SOURCE),
}
"""Summary and source of every replica."""


def run(policy: str, jobs: Sequence[ArtifactJob], nodes: int, devices_per_node: int, slot: int) -> list[Outcome]:
    """Run ``jobs`` to their end under a replica; outcomes come in the order of the jobs.

    ``slot`` is both the least distance of two scheduling events in seconds and, as in the original, the number of
    events between two restarts of all trainers.
    """
    if policy not in _RUNNERS:
        raise UnknownNameError.of("replica", policy, _RUNNERS)
    return _RUNNERS[policy](jobs, nodes, devices_per_node, slot)


__all__ = [
    "LEVELS",
    "REPLICAS",
    "ArtifactJob",
    "Outcome",
    "cap",
    "family",
    "run",
    "widest",
]
