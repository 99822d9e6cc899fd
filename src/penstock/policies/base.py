"""The three decisions, and how a named policy combines them.

*Admission* answers a job that asks, *allocation* says how many devices each job holds from now on, *placement* (its own
room) says which ones. A policy is pure: the same view gives the same decision, and nothing is remembered in between.

There are two ways to look at the world. A :class:`KindPolicy` sees the jobs and the devices of one kind at a time, each
job bound to the kind on which it is fastest. A :class:`Policy` sees everything and may move jobs between kinds.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

import numpy as np

from penstock.core import Job, Plan, Quote, Verdict
from penstock.policies.columns import PLAN_STEPS, Bools, Floats, Ints

if TYPE_CHECKING:
    from penstock.policies.kind_view import KindView
    from penstock.policies.view import View


@dataclass(frozen=True, slots=True, eq=False)
class Plans:
    """Widths over time, one row per job: ``width[i, k]`` from ``at[i, k]`` on; (inf, 0) pads a row.

    ``kind`` is the kind of device of each plan, as a position among the kinds of the view.
    """

    at: Floats
    width: Ints
    kind: Ints

    @classmethod
    def none(cls, rows: int) -> "Plans":
        """No plan for anybody."""
        return cls.of_one_kind(np.full((rows, PLAN_STEPS), math.inf), np.zeros((rows, PLAN_STEPS), dtype=np.int64))

    @classmethod
    def of_one_kind(cls, at: Floats, width: Ints) -> "Plans":
        """Plans of a policy that looks at one kind of device at a time."""
        return cls(at, width, np.zeros(len(at), dtype=np.int64))

    def copy(self) -> "Plans":
        return Plans(self.at.copy(), self.width.copy(), self.kind.copy())

    def of_row(self, row: int, end: float) -> Plan:
        """One row as a value, cut at the job's own end."""
        pairs = zip(self.at[row].tolist(), self.width[row].tolist(), strict=True)
        return Plan(tuple((at, width) for at, width in pairs if at < end), end)

    def next_change(self, now: float) -> float:
        """The first time after ``now`` at which a plan gives a width; that a job ends is told by the job."""
        return float(self.at.min(initial=math.inf, where=(self.at > now) & (self.width > 0)))


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """For every row of a :class:`View` a kind and a width (0 = no devices); per kind, when to ask again at the latest.

    ``plans``, if given, is kept by the scheduler and shown to the policy next time: what backs its promises. Rows that
    are ``pinned`` are not moved by the placement while they keep their width. ``missed`` marks the promised jobs that
    will be late; ``None`` if none will.
    """

    kinds: Ints
    widths: Ints
    wake_at: tuple[float, ...]
    plans: Plans | None = None
    pinned: Bools | None = None
    missed: Bools | None = None

    @property
    def late(self) -> Ints:
        """Rows of promised jobs that will be late."""
        return np.flatnonzero(self.missed) if self.missed is not None else np.zeros(0, dtype=np.int64)

    def keeps_promises_of(self, other: "Assignment") -> bool:
        """Whether every promised job that is late here is late there as well: no promise is given up for another."""
        return bool(np.isin(self.late, other.late).all())


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """One width per row of a :class:`KindView` (0 = no devices), and when to ask again at the latest.

    ``plans``, if given, is kept by the scheduler and shown to the policy next time: what backs its promises. ``missed``
    marks the promised jobs that will be late; ``None`` if none will.
    """

    widths: Ints
    wake_at: float = math.inf
    plans: Plans | None = None
    missed: Bools | None = None


class PlannedQuotes(list["Quote | None"]):
    """Quotes with the plans in which every promise among them and every earlier one hold together.

    The allocation of the same decision sees these plans as those at hand, so that what was promised is carried out.
    ``worked_out`` is what the policy wants to find again in that allocation, where it is about the same rows.
    """

    def __init__(self, quotes: Iterable["Quote | None"], plans: Plans, worked_out: object = None) -> None:
        super().__init__(quotes)
        self.plans = plans
        self.worked_out = worked_out

    @staticmethod
    def plans_of(quotes: Sequence["Quote | None"]) -> Plans | None:
        """The plans that come with the quotes, if any do."""
        return quotes.plans if isinstance(quotes, PlannedQuotes) else None


class JobsView(Protocol):
    """What every view has."""

    @property
    def now(self) -> float: ...

    @property
    def jobs(self) -> Sequence[Job]: ...


ViewT_contra = TypeVar("ViewT_contra", bound=JobsView, contravariant=True)


class Admission(Protocol[ViewT_contra]):
    """Answers the jobs in ``rows``, which are unanswered or deferred; one quote each, in the same order.

    ``None`` is for a deferred job to which nothing new is to be said. Admission that plans answers with
    :class:`PlannedQuotes`.
    """

    def admit(self, view: ViewT_contra, rows: Ints) -> Sequence[Quote | None]: ...


class NamedPolicy:
    """What is said about a policy, whatever it looks at: everyone is let in, nothing is promised."""

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str] = ""
    placement: ClassVar[str] = "buddy"
    overhead_proof: ClassVar[bool] = False
    """Whether its promises account for what rescheduling costs; if not, they hold only where that is free."""
    keeps_promises: ClassVar[bool] = False
    """Whether it keeps what jobs were promised, by itself or by the policy before it."""
    bounds_suspensions: ClassVar[bool] = False
    """Whether a job is suspended only so often for anything less than a promise or a quota."""

    def _let_in(self, jobs: Sequence[Job], rows: Ints) -> Sequence[Quote]:
        reason = f"{self.name} lets every job in and promises nothing"
        return [Quote(job_id=jobs[row].id, verdict=Verdict.BEST_EFFORT, reason=reason) for row in rows]


class Policy(NamedPolicy):
    """Base of policies that see all kinds of devices at once; subclasses say who gets how many of which kind."""

    def admit(self, view: "View", rows: Ints) -> Sequence[Quote | None]:
        return self._let_in(view.jobs, rows)

    def allocate(self, view: "View") -> Assignment:
        raise NotImplementedError

    def explain(self, view: "View", row: int) -> str:
        """Why this row holds what it holds, in words; called only when somebody asks."""
        kind = int(view.bound[row])
        if view.width[row]:
            return f"holds {view.width[row]} of {view.capacity[kind]} {view.kinds[kind]} devices"
        free = int(view.capacity.sum() - view.width.sum())
        return f"waits; {free} of {int(view.capacity.sum())} devices are free"


class KindPolicy(NamedPolicy):
    """Base of policies that see one kind of device at a time; subclasses say who gets how many devices."""

    def admit(self, view: "KindView", rows: Ints) -> Sequence[Quote | None]:
        return self._let_in(view.jobs, rows)

    def allocate(self, view: "KindView") -> Allocation:
        """Widths: each is 0, the job's requested width, or one of its levels; the sum is within capacity."""
        raise NotImplementedError

    def explain(self, view: "KindView", row: int) -> str:
        """Why this row holds what it holds, in words; called only when somebody asks."""
        if view.width[row]:
            return f"holds {view.width[row]} of {view.capacity} devices"
        free = view.capacity - int(view.width.sum())
        return f"waits for {view.requested[row]} devices; {free} of {view.capacity} are free"


AnyPolicy = Policy | KindPolicy
