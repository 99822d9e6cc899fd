"""What goes into the scheduler. Every event says when it happened."""

import math
from dataclasses import dataclass

from penstock.core.cluster import Node
from penstock.core.curve import Curve
from penstock.core.jobs import Amendment, Goal, Job
from penstock.core.overhead import Costs
from penstock.core.tenants import Tenant


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    at: float
    job: Job


@dataclass(frozen=True, slots=True)
class JobCancelled:
    at: float
    job_id: str


@dataclass(frozen=True, slots=True)
class JobPaused:
    """A person takes the job out of scheduling: it gives back its devices and what it was promised."""

    at: float
    job_id: str


@dataclass(frozen=True, slots=True)
class JobResumed:
    """A paused job asks again with the work that is left, and with another goal if one is given."""

    at: float
    job_id: str
    goal: Goal | None = None


@dataclass(frozen=True, slots=True)
class JobAmended:
    """A person changes what the job asks for; with another goal or other bounds it asks anew, wherever it stands.

    What had been taken in is not turned away for it, unless it ``may_be_refused``, as somebody who only asks wants.
    """

    at: float
    job_id: str
    amendment: Amendment
    may_be_refused: bool = False


@dataclass(frozen=True, slots=True)
class JobFailed:
    """The job is given up: it failed for good."""

    at: float
    job_id: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """The job reports how many iterations are left; the truth replaces our projection."""

    at: float
    job_id: str
    remaining: float


@dataclass(frozen=True, slots=True)
class OutlookChanged:
    """What is left of a job that trains until its metric says stop: ``remaining`` iterations are expected, and in nine
    of ten cases no more than ``allowance`` more. Its rule ends it before its work does with the probability ``reach``.
    """

    at: float
    job_id: str
    remaining: float
    allowance: float
    reach: float


@dataclass(frozen=True, slots=True)
class JobFinished:
    """The job is done; it may have lost its devices or been paused a moment before it said so."""

    at: float
    job_id: str


@dataclass(frozen=True, slots=True)
class DevicesReleased:
    """The job has done its work on devices and gives them back; what is left of it, until it finishes, needs none."""

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
class ResumableChanged:
    """It turned out that the job goes on from where it was when its devices change, or that it begins again."""

    at: float
    job_id: str
    resumable: bool


@dataclass(frozen=True, slots=True)
class WorkerFailed:
    """A worker died: the gang stops and loses what was done since its last checkpoint."""

    at: float
    job_id: str


@dataclass(frozen=True, slots=True)
class NodeLost:
    """A node is gone at once, with what its jobs did since they last saved; ``why`` is for the story of each job."""

    at: float
    node: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class NodeClosed:
    """A node takes no more jobs: those that can resume save their state and leave it, the others stay until they end.

    :class:`NodeJoined` opens it again. With ``slots`` this is about some of its devices only.
    """

    at: float
    node: str
    why: str = ""
    slots: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeJoined:
    """A known node is back, or a new one appears; ``until`` is when it will leave, if that is known (a lease)."""

    at: float
    node: Node
    until: float = math.inf


@dataclass(frozen=True, slots=True)
class NodeDraining:
    """A node will leave at ``until``; an infinite time takes that back."""

    at: float
    node: str
    until: float


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A known node is there with other devices: the old ones are gone for good, the new ones come last in order.

    Where it ``keeps`` those that it still has, jobs that hold no others go on.
    """

    at: float
    node: Node
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class DeviceLost:
    """One device of a node fails alone; ``slot`` counts the devices of its node."""

    at: float
    node: str
    slot: int


@dataclass(frozen=True, slots=True)
class DeviceRestored:
    at: float
    node: str
    slot: int


@dataclass(frozen=True, slots=True)
class TenantChanged:
    """Someone jobs are accounted to, or a group of such, has these settings from now on."""

    at: float
    tenant: Tenant


@dataclass(frozen=True, slots=True)
class TenantRemoved:
    """A tenant without jobs, or a group without members, counts for nothing any more."""

    at: float
    name: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; the answer to a :class:`~penstock.core.instructions.Wake`."""

    at: float


Event = (
    JobSubmitted | JobCancelled | JobPaused | JobResumed | JobAmended | JobFailed | Progress | OutlookChanged
    | JobFinished | DevicesReleased | CurveChanged | CostsChanged | ResumableChanged | WorkerFailed | NodeLost
    | NodeJoined | NodeClosed | NodeDraining | NodeChanged | DeviceLost | DeviceRestored | TenantChanged | TenantRemoved
    | Tick
)  # fmt: skip
