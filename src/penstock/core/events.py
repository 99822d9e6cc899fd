"""What goes into the scheduler. Every event says when it happened."""

from dataclasses import dataclass

from penstock.core.cluster import Node
from penstock.core.curve import Curve
from penstock.core.jobs import Job
from penstock.core.overhead import Costs


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    at: float
    job: Job


@dataclass(frozen=True, slots=True)
class JobCancelled:
    at: float
    job_id: str


@dataclass(frozen=True, slots=True)
class Progress:
    """The job reports how many iterations are left; the truth replaces our projection."""

    at: float
    job_id: str
    remaining: float


@dataclass(frozen=True, slots=True)
class JobFinished:
    at: float
    job_id: str


@dataclass(frozen=True, slots=True)
class CurveChanged:
    """The job runs faster or slower than believed, from now on."""

    at: float
    job_id: str
    curve: Curve


@dataclass(frozen=True, slots=True)
class CostsChanged:
    """The job starts, changes or ends faster or slower than believed, from now on."""

    at: float
    job_id: str
    costs: Costs


@dataclass(frozen=True, slots=True)
class WorkerFailed:
    """A worker died: the gang stops and loses what was done since its last checkpoint."""

    at: float
    job_id: str


@dataclass(frozen=True, slots=True)
class NodeLost:
    at: float
    node: str


@dataclass(frozen=True, slots=True)
class NodeJoined:
    """A known node is back, or a new one appears."""

    at: float
    node: Node


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; the answer to a :class:`~penstock.core.instructions.Wake`."""

    at: float


Event = (
    JobSubmitted | JobCancelled | Progress | JobFinished | CurveChanged | CostsChanged | WorkerFailed | NodeLost
    | NodeJoined | Tick
)  # fmt: skip
