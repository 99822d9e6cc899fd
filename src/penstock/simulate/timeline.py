"""Who held which devices when, for pictures."""

from dataclasses import dataclass, field

from penstock.core import Grant


@dataclass(frozen=True, slots=True)
class Bar:
    """One job on a run of neighbouring devices for a while."""

    job_id: str
    first_device: int
    count: int
    start: float
    end: float


@dataclass(slots=True)
class Timeline:
    """All bars of a run."""

    bars: list[Bar] = field(default_factory=list)

    def add(self, grant: Grant, start: float, end: float) -> None:
        """Record a grant that was held from ``start`` to ``end``."""
        if end <= start:
            return
        first = previous = grant.devices[0]
        for device in (*grant.devices[1:], -1):
            if device != previous + 1:
                self.bars.append(Bar(grant.job_id, first, previous - first + 1, start, end))
                first = device
            previous = device
