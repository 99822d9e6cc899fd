"""The language of the log: everything that ever changes the platform's state, as values.

An entry says what happened in the platform's words (a run failed, a person paused a job); the state turns it into the
scheduler's events. What was decided because of it follows as a :class:`Decided` entry in the same commit. Everything
that depends on anything but the log, a policy's answer or when a failed run is tried again, stands in the log, so that
reading it again gives the same state and asks nobody.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, get_args

from penstock.control.state.evaluations import Evaluates, EvaluationResult
from penstock.core import (
    FREE,
    Amendment,
    Costs,
    Curve,
    Decision,
    Diagnosis,
    Goal,
    Job,
    Node,
    Outlook,
    Overhead,
    PreflightLevel,
    Recipe,
    Report,
    Tenant,
    register,
)


@dataclass(frozen=True, slots=True)
class ConfiguredRules:
    """What the configuration of a server says about deciding."""

    policy: str
    slot: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """The platform runs under these rules from now on. The nodes are those it begins with; later ones come and go.

    Rules that somebody chose while the server ran are ``by`` them, and hold ``instead_of`` those of its configuration
    until that says something else.
    """

    at: float
    nodes: tuple[Node, ...]
    policy: str
    slot: float = 0.0
    overhead: Overhead = FREE
    by: str = ""
    instead_of: ConfiguredRules | None = None

    @property
    def configured_rules(self) -> ConfiguredRules:
        """What the configuration said when these rules were taken up."""
        return self.instead_of or ConfiguredRules(self.policy, self.slot)

    def outlasting(self, live: "Configured | None") -> "Configured":
        """These rules of a configuration, or those that were chosen ``live`` instead of the very same."""
        if live is None or live.instead_of is None or live.instead_of != self.configured_rules:
            return self
        return replace(self, policy=live.policy, slot=live.slot, by=live.by, instead_of=live.instead_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A new job. ``preparing``: it asks the scheduler when it has been prepared, and not before.

    It is ``blocked`` until the jobs ``after`` which it comes have finished, or with ``after_any`` have ended at all.
    An evaluation says which checkpoint it ``evaluates``.
    """

    at: float
    job: Job
    name: str
    recipe: Recipe
    spec: Mapping[str, Any]
    by: str = ""
    preparing: bool = False
    after: tuple[str, ...] = ()
    after_any: bool = False
    evaluates: Evaluates | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unblocked:
    """What a job waited for is over; it is prepared now, and asks the scheduler then."""

    at: float
    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """A job that the log knew nothing of, as its runs on the disk tell of it after history was lost.

    ``over`` is how it ended, as a phase; a job that was not over waits, paused, for somebody to resume it.
    """

    at: float
    submission: Submitted
    runs: tuple[str, ...]
    over: str = ""
    reason: str = ""
    started_at: float | None = None
    ended_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparationNoted:
    """What is being done to make a job ready."""

    at: float
    job_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A job has what it needs: the recipe it starts by, and what is known of its speed and its delays now."""

    at: float
    job_id: str
    recipe: Recipe
    curve: Curve
    costs: Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparationFailed:
    """A job cannot have what it asks for; ``tail`` is the last that whoever tried has said."""

    at: float
    job_id: str
    reason: str
    tail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """A person ends a job, or what it waits for did not finish, as ``reason`` says then."""

    at: float
    job_id: str
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """A person takes the job out of scheduling, or the platform does for a ``reason``; its promise is given up."""

    at: float
    job_id: str
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseAsked:
    """A job is to be paused at its next checkpoint, or not any more."""

    at: float
    job_id: str
    by: str = ""
    withdrawn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """A paused job asks again with the work that is left, and with another goal if one is given.

    ``from_scratch``: with all of its work, and an empty directory for checkpoints; what it saved stays where it is.
    ``job`` is only in entries of earlier versions, where a resumed job was a new one for the scheduler.
    """

    at: float
    job_id: str
    job: Job | None = None
    by: str = ""
    goal: Goal | None = None
    from_scratch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A person changes what a job asks for, or what it is called; ``spec`` is its job file from now on."""

    at: float
    job_id: str
    amendment: Amendment
    spec: Mapping[str, Any]
    name: str
    what: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A run has begun. ``expected_at`` of a job's first one is when the job was first expected to be done."""

    at: float
    job_id: str
    run_id: str
    expected_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed:
    """The run is not where it was believed to be, or trains ``again`` after a restart of its workers.

    ``remaining`` iterations are left.
    """

    at: float
    job_id: str
    remaining: float
    step: int | None = None
    total: int | None = None
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Resized:
    """The run now has ``width`` workers, because it was told to or because it lost some."""

    at: float
    job_id: str
    run_id: str
    generation: int
    width: int | None = None
    pause_s: float | None = None
    in_place: bool | None = None
    awaits_step: bool = False
    """Whether workers were restarted, so that training stands still until the first :class:`Progressed` after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLost:
    """One worker ended badly; the run may go on without it."""

    at: float
    job_id: str
    run_id: str
    worker: str
    code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveFailed:
    """The run could not save its state and goes on; until the next save succeeds, a failure would cost more."""

    at: float
    job_id: str
    run_id: str
    step: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNoted:
    """Something about a run that its job's story should tell and that changes nothing."""

    at: float
    job_id: str
    run_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWatched:
    """Something that was seen in a run while it trains, by its ``kind``: stuck, a straggler, its loss. It goes on."""

    at: float
    job_id: str
    run_id: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSuspended:
    """The run ended because it was told to; what it saved is kept.

    ``lost_steps`` were done by a run that cannot resume. What an ended run has drawn is told where known.
    """

    at: float
    job_id: str
    run_id: str
    step: int | None = None
    lost_steps: int = 0
    saved_step: int | None = None
    energy_j: float | None = None
    energy_estimated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReleased:
    """The run has done its part on devices and left them; it goes on without, on the processor."""

    at: float
    job_id: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished:
    """The work is done; ``reason`` says so of a job that trains until its metric says that it is enough."""

    at: float
    job_id: str
    run_id: str
    energy_j: float | None = None
    energy_estimated: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricReported:
    """The metric that a job trains until has this value, and what is expected of the job now, where that is news."""

    at: float
    job_id: str
    run_id: str
    step: int
    value: float
    outlook: Outlook | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """An evaluation has found this; ``worse`` names what is clearly below the best that earlier ones found."""

    at: float
    job_id: str
    run_id: str
    results: tuple[EvaluationResult, ...]
    worse: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureReported:
    """The run is gone, and its diagnosis is under way: what follows from its ``report`` is decided with that.

    ``again``: the diagnosis had been interrupted by the end of a server.
    """

    at: float
    job_id: str
    run_id: str
    report: Report
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed:
    """The run is gone. ``retry_at`` says when it is tried again; without it the job has failed for good.

    ``diagnosis`` is what its logs and its end were found to mean; entries of earlier versions have none.
    """

    at: float
    job_id: str
    run_id: str
    reason: str
    code: int | None = None
    step: int | None = None
    tail: tuple[str, ...] = ()
    retry_at: float | None = None
    saved_step: int | None = None
    energy_j: float | None = None
    energy_estimated: bool = False
    diagnosis: Diagnosis | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUnfit:
    """A node failed the check before this run started there: it is drained, and the job is not charged for it."""

    at: float
    job_id: str
    run_id: str
    node: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveLearned:
    """A run is faster or slower than believed. With a fingerprint the same is true of every job that has it."""

    at: float
    job_id: str
    curve: Curve
    fingerprint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostsLearned:
    """Jobs of this fingerprint take another time to start, to change devices or to end than believed."""

    at: float
    fingerprint: str
    costs: Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumableLearned:
    """A run showed that its job can go on from where it was when its devices change."""

    at: float
    job_id: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What follows from everything before it: answers, devices and plans."""

    at: float
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFailed:
    """A decision was due and the policy failed on it; what happened is recorded, and deciding is tried again later."""

    at: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """An entry that could not be taken in is passed over from now on, also when the log is read again.

    ``seq`` is its number; a submission that was turned away because of a failure is not in the log and has none.
    """

    at: float
    kind: str
    why: str
    seq: int = 0
    job_id: str | None = None


class Absence(StrEnum):
    """Why a node takes no jobs."""

    LOST = "lost"
    DRAINED = "drained"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLeft:
    """A node takes no jobs any more; ``reason`` says why one was drained, if whoever did it said so, and ``by`` who.

    Of a node that ``waits`` only jobs that can resume are taken away, and the others end there.
    """

    at: float
    node: str
    why: Absence = Absence.LOST
    reason: str = ""
    by: str = ""
    waits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCame:
    """A node is back, or new. A drained one stays drained until ``why`` says that this is what ended."""

    at: float
    node: Node
    why: Absence = Absence.LOST


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReshaped:
    """A known node is there with other devices than before; it ``keeps`` the jobs whose devices are still there."""

    at: float
    node: Node
    keeps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePassed:
    """A node did well in a check, as thorough as ``level`` says."""

    at: float
    node: str
    level: PreflightLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLeft:
    """One device of a node fails while the others go on; ``slot`` counts the devices of its node.

    A job that cannot resume may end on a device that ``waits``.
    """

    at: float
    node: str
    slot: int
    why: str = ""
    waits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCame:
    at: float
    node: str
    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantConfigured:
    """A tenant, or a group of tenants, has these settings from now on."""

    at: float
    tenant: Tenant
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantDismissed:
    """A tenant without jobs, or a group without members, has no settings any more and counts for nothing."""

    at: float
    name: str
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked:
    """Time has passed and a decision was due; written by earlier versions, now a :class:`Decided` says it."""

    at: float


AboutJob = (
    Unblocked | PreparationNoted | Prepared | PreparationFailed | Cancelled | Paused | PauseAsked | Resumed | Edited
    | Launched
    | Progressed | Resized | WorkerLost | SaveFailed | RunNoted | RunWatched | RunSuspended | RunReleased | RunFinished
    | FailureReported | RunFailed | NodeUnfit | CurveLearned | ResumableLearned | MetricReported | Evaluated
)  # fmt: skip
AboutNode = NodeLeft | NodeCame | NodeReshaped | NodePassed | DeviceLeft | DeviceCame
Entry = (
    Configured | Submitted | Recovered | AboutJob | CostsLearned | AboutNode | Decided | DecisionFailed | Quarantined
    | TenantConfigured | TenantDismissed | Ticked
)  # fmt: skip

register(*get_args(Entry))


def job_of(entry: Entry) -> str | None:
    """The job an entry is about, if it is about one."""
    if isinstance(entry, Submitted):
        return entry.job.id
    if isinstance(entry, Recovered):
        return entry.submission.job.id
    return entry.job_id if isinstance(entry, AboutJob | Quarantined) else None
