"""The three decisions, and how a named policy combines them.

*Admission* answers a job that asks, *allocation* says how many devices each job holds from now on, *placement* (its own
room) says which ones. A policy is pure: the same view gives the same decision, and nothing is remembered in between.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from penstock.core import Quote, Verdict
from penstock.policies.view import PLAN_STEPS, Floats, Ints, View


@dataclass(frozen=True, slots=True, eq=False)
class Plans:
    """Widths over time, one row per job: ``width[i, k]`` from ``at[i, k]`` on; (inf, 0) pads a row."""

    at: Floats
    width: Ints

    @classmethod
    def none(cls, rows: int) -> "Plans":
        """No plan for anybody."""
        return cls(np.full((rows, PLAN_STEPS), math.inf), np.zeros((rows, PLAN_STEPS), dtype=np.int64))

    def next_change(self, now: float) -> float:
        """The first time after ``now`` at which a plan gives a width; that a job ends is told by the job."""
        return float(self.at.min(initial=math.inf, where=(self.at > now) & (self.width > 0)))


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """One width per row of the view (0 = no devices), and when to ask again at the latest.

    ``plans``, if given, is kept by the scheduler and shown to the policy next time: what backs its promises.
    """

    widths: Ints
    wake_at: float = math.inf
    plans: Plans | None = None


class Admission(Protocol):
    """Answers the jobs in ``rows``, which are unanswered or deferred; one quote each, in the same order."""

    def admit(self, view: View, rows: Ints) -> Sequence[Quote]: ...


class Allocator(Protocol):
    """Decides widths: each is 0, the job's requested width, or one of its levels; the sum is within capacity."""

    def allocate(self, view: View) -> Allocation: ...


class Policy:
    """Base of all policies: everyone is let in, nothing is promised; subclasses say who gets how many devices."""

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str] = ""
    placement: ClassVar[str] = "buddy"
    overhead_proof: ClassVar[bool] = False
    """Whether its promises account for what rescheduling costs; if not, they hold only where that is free."""
    keeps_promises: ClassVar[bool] = False
    """Whether it keeps what jobs were promised, by itself or by the policy before it."""

    def admit(self, view: View, rows: Ints) -> Sequence[Quote]:
        reason = f"{self.name} lets every job in and promises nothing"
        return [Quote(job_id=view.jobs[row].id, verdict=Verdict.BEST_EFFORT, reason=reason) for row in rows]

    def allocate(self, view: View) -> Allocation:
        raise NotImplementedError

    def explain(self, view: View, row: int) -> str:
        """Why this row holds what it holds, in words; called only when somebody asks."""
        if view.width[row]:
            return f"holds {view.width[row]} of {view.capacity} devices"
        free = view.capacity - int(view.width.sum())
        return f"waits for {view.requested[row]} devices; {free} of {view.capacity} are free"
