"""What a person wants: a job, its work and its goal."""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from penstock.core.curve import Curve
from penstock.core.errors import JobError
from penstock.core.node_choice import ANYWHERE, NodeChoice
from penstock.core.overhead import NO_COSTS, Costs
from penstock.core.statistical_efficiency import StatisticalEfficiency
from penstock.core.stopping import StopRule


@dataclass(frozen=True, slots=True)
class Work:
    """How much there is to do. Progress is counted in the same unit as the curve: iterations.

    With a rule ``until`` which it is done, they are the most it may take.
    """

    iterations: float
    until: StopRule | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.iterations) and self.iterations > 0):
            raise JobError(f"work of {self.iterations} iterations", "a positive, finite number")


class Strictness(StrEnum):
    """Whether a missed deadline makes the result worthless (hard) or only late (soft)."""

    HARD = "hard"
    SOFT = "soft"


MOST_VALUE_STEPS = 8
"""Deadlines of one goal, the first included."""


@dataclass(frozen=True, slots=True)
class ValueStep:
    """A job that is done by ``at`` (absolute seconds) is worth ``value``, a share of its full value."""

    at: float
    value: float


@dataclass(frozen=True, slots=True)
class Deadline:
    """Finish by ``at`` (absolute seconds).

    The value of a soft one may fall in steps: ``then`` are later deadlines, each worth less than the one before it;
    after the last of them the result is worth nothing. Without steps nobody has said what being late is worth.

    >>> Deadline(6.0, Strictness.SOFT, (ValueStep(8.0, 0.5), ValueStep(12.0, 0.2))).value_at(7.0)
    0.5
    """

    at: float
    strictness: Strictness = Strictness.HARD
    then: tuple[ValueStep, ...] = ()

    def __post_init__(self) -> None:
        if self.then:
            _check_steps(self)

    @property
    def steps(self) -> tuple[ValueStep, ...]:
        """All deadlines of falling value, the first worth everything."""
        return (ValueStep(self.at, 1.0), *self.then)

    def value_at(self, finished_at: float) -> float:
        """The share of its value that the job has when it is done at this time."""
        return next((step.value for step in self.steps if finished_at <= step.at), 0.0)


def _check_steps(goal: Deadline) -> None:
    if goal.strictness is Strictness.HARD:
        raise JobError("values after a hard deadline", "later values only for a soft one", "Remove the strictness")
    if len(goal.steps) > MOST_VALUE_STEPS:
        many = f"{len(goal.steps)} deadlines of falling value"
        raise JobError(many, f"at most {MOST_VALUE_STEPS}, the first included", "Leave out some of them")
    for before, step in pairwise(goal.steps):
        if not before.at < step.at < math.inf:
            raise JobError(
                f"a value of {percent_text(step.value)} that ends no later than the {percent_text(before.value)} before"
                " it", "later deadlines in order of time", "Give the earliest first, each after the deadline itself",
            )  # fmt: skip
        if not before.value > step.value > 0:
            raise JobError(
                f"a value of {percent_text(step.value)} after one of {percent_text(before.value)}",
                "values that fall from step to step, below 100% and above 0%",
                "Leave out what is worth nothing: after the last step that is so anyway",
            )  # fmt: skip


def percent_text(share: float) -> str:
    """A share as people write it: "50%", "12.5%".

    >>> percent_text(0.125)
    '12.5%'
    """
    return f"{round(100 * share, 6):g}%"


@dataclass(frozen=True, slots=True)
class BestEffort:
    """Run on what is left over."""


Goal = Deadline | BestEffort


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A training run someone wants.

    Nobody has to give a number of devices. ``at_least`` and ``at_most`` bound what an elastic policy may choose;
    ``requested`` is what the person would have asked a rigid scheduler for, and the only thing rigid policies use.
    Among jobs that nobody promised anything, those of higher ``priority`` go first. With ``measure_first`` a deadline
    is answered once the curve is more than a guess. One that is not ``resumable`` begins again when it loses or changes
    its devices: only a promise to somebody else may do that to it. ``nodes`` says where it may run and where it would
    rather. With ``statistics`` its global batch follows its devices and its curve is one of goodput: work and rates
    count iterations of the initial batch. Without, its batch is fixed.
    """

    id: str
    work: Work
    curve: Curve
    goal: Goal = BestEffort()
    tenant: str = "default"
    submitted_at: float = 0.0
    requested: int = 1
    at_least: int = 1
    at_most: int | None = None
    kinds: tuple[str, ...] = ()
    priority: int = 0
    checkpoint_every_s: float = 600.0
    model: str = ""
    batch: int = 0
    costs: Costs = NO_COSTS
    measure_first: bool = False
    resumable: bool = True
    nodes: NodeChoice = ANYWHERE
    statistics: StatisticalEfficiency | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.submitted_at) or self.submitted_at < 0:
            raise JobError(f"job {self.id!r} submitted at {self.submitted_at}", "zero or a positive time in seconds")
        if self.requested < 1 or self.at_least < 1:
            raise JobError(f"job {self.id!r} asks for {min(self.requested, self.at_least)} devices", "at least 1")
        if self.at_most is not None and self.at_most < self.at_least:
            raise JobError(f"job {self.id!r} wants at least {self.at_least} and at most {self.at_most} devices")
        if not self.checkpoint_every_s > 0:
            raise JobError(
                f"job {self.id!r} writes a checkpoint every {self.checkpoint_every_s} s", "a positive number of seconds"
            )
        if not self.deadline > self.submitted_at:
            raise JobError(
                f"job {self.id!r} is due at {self.deadline:g} s but submitted at {self.submitted_at:g} s",
                "a deadline after submission",
                "Give a later deadline, or none for best effort",
            )

    @property
    def deadline(self) -> float:
        """When it must be done; infinite without a deadline."""
        return self.goal.at if isinstance(self.goal, Deadline) else math.inf

    @property
    def value_steps(self) -> tuple[ValueStep, ...]:
        """Its deadlines of falling value, the first worth everything; none at best effort."""
        return self.goal.steps if isinstance(self.goal, Deadline) else ()

    @property
    def hard(self) -> bool:
        """Whether finishing late is worth nothing."""
        return isinstance(self.goal, Deadline) and self.goal.strictness is Strictness.HARD

    def seconds_on(self, count: int, kind: str) -> float:
        """Run time from start to end on ``count`` devices without interruption."""
        rate = self.curve.rate(count, kind)
        return self.work.iterations / rate if rate else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendment:
    """What a person changes of a job after its submission; what is None stays as it is.

    ``at_least`` comes with ``at_most``: they are the new bounds, of which the upper may be none.
    """

    goal: Goal | None = None
    priority: int | None = None
    at_least: int | None = None
    at_most: int | None = None

    @property
    def asks_again(self) -> bool:
        """Whether what the job was promised no longer answers what it asks for."""
        return self.goal is not None or self.at_least is not None

    def applied_to(self, job: Job) -> Job:
        """The job as it is afterwards; raises :class:`~penstock.core.JobError` if there is no such job."""
        least = self.at_least
        return replace(
            job,
            goal=job.goal if self.goal is None else self.goal,
            priority=job.priority if self.priority is None else self.priority,
            requested=job.requested if least is None else least,
            at_least=job.at_least if least is None else least,
            at_most=job.at_most if least is None else self.at_most,
        )
