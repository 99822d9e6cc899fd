"""The world of the public ElasticFlow simulator, quirks and all, for replicating its published numbers.

The scheduler of Penstock plays no part here: these are replicas of what ``pkusys/ElasticFlow`` computes, job by job,
down to its merging of events, its overheads and its order of ties. Use them to check that a comparison with published
figures compares like with like; use the real policies for everything else. The planning of ElasticFlow itself lives in
``penstock.simulate.replicas.elasticflow.two_level_plan``.
"""

from typing import TYPE_CHECKING

from penstock.tools import lazy_door

if TYPE_CHECKING:
    from penstock.simulate.replicas.elasticflow.caps import cap, family, widest
    from penstock.simulate.replicas.elasticflow.jobs import LEVELS, ArtifactJob, ReplicaOutcome
    from penstock.simulate.replicas.elasticflow.overhead import Restarts, seconds
    from penstock.simulate.replicas.elasticflow.runners import run

__all__ = [
    "LEVELS",
    "ArtifactJob",
    "ReplicaOutcome",
    "Restarts",
    "cap",
    "family",
    "run",
    "seconds",
    "widest",
]

__getattr__ = lazy_door(__name__)
