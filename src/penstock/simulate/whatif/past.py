"""What a platform has lived through, as values that a replay can live through again.

A past is made of what nobody's policy decided: jobs as they came, what people and machines did to them and to nodes,
under which rules. Beside every job stands what really became of it, which no replay reads; it is there to be compared.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.core import LATE_TOLERANCE_S, Cluster, Curve, Event, Job, Overhead


class Stretch(NamedTuple):
    """Devices that a job really held for a while."""

    kind: str
    width: int
    nodes: int
    since: float
    until: float

    @property
    def seconds(self) -> float:
        return self.until - self.since

    def overlap(self, since: float, until: float) -> float:
        """Device-seconds of it inside a window of time."""
        return self.width * max(0.0, min(self.until, until) - max(self.since, since))


@dataclass(frozen=True, slots=True, kw_only=True)
class RealCourse:
    """What really became of a job. ``ending`` is its phase; times are NaN where it did not come to that."""

    ending: str
    started_at: float = math.nan
    ended_at: float = math.nan
    promised: bool = False
    stretches: Sequence[Stretch] = ()

    @property
    def finished(self) -> bool:
        return self.ending == "finished"

    @property
    def device_seconds(self) -> float:
        return sum(stretch.width * stretch.seconds for stretch in self.stretches)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastJob:
    """A job as it asked, at ``arrives_at`` or so long after the jobs it came ``after`` were over.

    ``curve`` is its speed as finally measured, ``speed`` how many times as fast as that it really was; of a job that
    failed for good the last ``undone`` iterations were never done. One that was ``carried`` over was there before the
    past begins, and comes with the work that was left then.
    """

    job: Job
    arrives_at: float
    curve: Curve
    real: RealCourse
    speed: float = 1.0
    undone: float = 0.0
    after: tuple[str, ...] = ()
    lag_s: float = 0.0
    carried: bool = False

    @property
    def id(self) -> str:
        return self.job.id

    @property
    def completion_s(self) -> float:
        """As it really was."""
        return self.real.ended_at - self.job.submitted_at

    @property
    def kept(self) -> bool:
        """Whether it was promised something and got it."""
        return self.real.promised and self.real.ended_at <= self.job.deadline + LATE_TOLERANCE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRules:
    """What decided from ``at`` on."""

    at: float
    policy: str
    slot: float
    overhead: Overhead


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Everything from ``since`` to ``until``; ``left_out`` says what of it no replay can tell, in sentences.

    ``events`` are what people and machines did besides submitting, in order of time; nodes that were away when the past
    begins are lost then.
    """

    since: float
    until: float
    cluster: Cluster
    rules: Sequence[PastRules]
    jobs: Sequence[PastJob]
    events: Sequence[Event]
    left_out: Sequence[str] = ()

    @property
    def policies(self) -> str:
        """The policies that really ran, in order."""
        names = [rules.policy for rules in self.rules]
        return " then ".join(name for index, name in enumerate(names) if not index or names[index - 1] != name)

    @property
    def finished(self) -> list[PastJob]:
        """Those that really finished."""
        return [job for job in self.jobs if job.real.finished]
