"""What jobs have drawn: as their runs told it where they did, else estimated, and then said so.

A run tells its energy when it ends, so it is known of jobs that lived and ended within the period. Of the others, and
of runs that told nothing, device time counts: at the mean power of the jobs that told, by kind of device, or at what
the devices draw at full load where nobody did.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.control.observe.device_readings import full_load_w
from penstock.control.state.store import Holding
from penstock.core import Cluster


@dataclass(frozen=True, slots=True)
class Drawn:
    """Joules; none where nobody can tell."""

    joules: float | None = None
    estimated: bool = False

    def __add__(self, other: "Drawn") -> "Drawn":
        if self.joules is None or other.joules is None:
            return other if self.joules is None else self
        return Drawn(self.joules + other.joules, self.estimated or other.estimated)


NOTHING_TOLD = Drawn()


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The period, the devices there are, and what jobs told that lie within it."""

    since: float
    until: float
    cluster: Cluster
    told: Mapping[str, Drawn]

    def of(self, holdings: Iterable[Holding], watts: Mapping[str, float]) -> Drawn:
        """What was drawn for these holdings; ``watts`` are mean ones of a device by kind, see :meth:`mean_watts`."""
        held = [holding for holding in holdings if self.used_s(holding)]
        told = {holding.job_id for holding in held} & self.told.keys()
        total = sum((self.told[job_id] for job_id in told), NOTHING_TOLD)
        return sum((self._guess(one, watts) for one in held if one.job_id not in told), total)

    def mean_watts(self, holdings: Iterable[Holding]) -> dict[str, float]:
        """Power of a device by kind, over all jobs that told."""
        seconds: dict[str, float] = defaultdict(float)
        joules: dict[str, float] = defaultdict(float)
        counted: set[str] = set()
        for holding in holdings:
            if holding.job_id not in self.told or (kind := self._kind(holding)) is None:
                continue
            seconds[kind] += self.used_s(holding)
            if holding.job_id not in counted:
                counted.add(holding.job_id)
                joules[kind] += self.told[holding.job_id].joules or 0.0
        return {kind: joules[kind] / seconds[kind] for kind in seconds if seconds[kind]}

    def used_s(self, holding: Holding) -> float:
        """Device-seconds of a holding that lie in the period."""
        return len(holding.devices) * overlap_s(holding, self.since, self.until)

    def _guess(self, holding: Holding, watts: Mapping[str, float]) -> Drawn:
        kind = self._kind(holding)
        if kind is None:
            return NOTHING_TOLD
        each = watts.get(kind) or full_load_w(self.cluster.nodes[self.cluster.node_of(holding.devices[0])])
        return NOTHING_TOLD if each is None else Drawn(each * self.used_s(holding), True)

    def _kind(self, holding: Holding) -> str | None:
        """None for devices that are no longer there."""
        first = holding.devices[0] if holding.devices else self.cluster.device_count
        return self.cluster.device(first).kind if first < self.cluster.device_count else None


def overlap_s(holding: Holding, since: float, until: float) -> float:
    end = until if holding.until is None else min(holding.until, until)
    return max(0.0, end - max(holding.since, since))
