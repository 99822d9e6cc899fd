"""What a job holds, what it is promised, and how the promise is meant to be kept."""

import math
from dataclasses import dataclass
from enum import StrEnum

from penstock.core.curve import Source

LATE_TOLERANCE_S = 1e-3
"""A job that ends this little after its deadline has kept it: sums of floating-point durations differ by less."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The devices a job holds now: indices into the cluster, all of one kind, and the nodes they span."""

    job_id: str
    kind: str
    devices: tuple[int, ...]
    nodes: int

    @property
    def width(self) -> int:
        return len(self.devices)


@dataclass(frozen=True, slots=True)
class Plan:
    """Widths over time: from each start until the next one, the last until ``end``."""

    steps: tuple[tuple[float, int], ...]
    end: float

    def device_seconds(self) -> float:
        ends = [*(start for start, _ in self.steps), self.end][1:]
        return sum(width * (end - start) for (start, width), end in zip(self.steps, ends, strict=True))


@dataclass(frozen=True, slots=True)
class HeldPlan:
    """Devices of one kind that are kept for a job over time."""

    kind: str
    plan: Plan


class Verdict(StrEnum):
    """What a job is told when it asks."""

    PROMISED = "promised"
    """Its deadline will be met, whatever is submitted later."""
    BEST_EFFORT = "best effort"
    """It runs on what is free; nothing is promised."""
    DEFERRED = "deferred"
    """No promise yet: it is tried again, and may run on free devices meanwhile, until ``answer_by``."""
    REFUSED = "refused"
    """Its deadline cannot be met; ``counter_offer`` is the earliest that could."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """What we tell a job at submission.

    ``deadline`` is what is promised; ``finish_at`` is when a promised job is done at the latest by its plan,
    ``expected_at`` when any job probably is; ``speed`` says what all of that rests on. A ``counter_offer`` with a
    ``held`` plan is a reservation until ``offer_until``: the same work, submitted again by then by the same tenant with
    that deadline or a later one, is promised. With ``measured_on`` the answer waits until the job has run on so many
    devices.
    """

    job_id: str
    verdict: Verdict
    reason: str
    finish_at: float = math.inf
    devices: int = 0
    device_seconds: float = 0.0
    counter_offer: float = math.inf
    offer_until: float = math.inf
    held: HeldPlan | None = None
    answer_by: float = math.inf
    expected_at: float = math.inf
    speed: Source | None = None
    deadline: float = math.inf
    measured_on: int = 0
