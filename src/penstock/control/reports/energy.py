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
class EnergyUse:
    """Joules; none where nobody can tell."""

    joules: float | None = None
    estimated: bool = False

    def __add__(self, other: "EnergyUse") -> "EnergyUse":
        if self.joules is None or other.joules is None:
            return other if self.joules is None else self
        return EnergyUse(self.joules + other.joules, self.estimated or other.estimated)


UNKNOWN_ENERGY = EnergyUse()


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyAccount:
    """The period, the devices there are, and what jobs told that lie within it."""

    since: float
    until: float
    cluster: Cluster
    reported: Mapping[str, EnergyUse]

    def of(self, holdings: Iterable[Holding], watts: Mapping[str, float]) -> EnergyUse:
        """What was drawn for these holdings; ``watts`` are mean ones of a device by kind, see :meth:`mean_watts`."""
        held = [holding for holding in holdings if self.used_s(holding)]
        reported = {holding.job_id for holding in held} & self.reported.keys()
        told = [self.reported[job_id] for job_id in reported]
        total = UNKNOWN_ENERGY
        if told:
            total = EnergyUse(sum(use.joules or 0.0 for use in told), any(use.estimated for use in told))
        return sum((self._guess(holding, watts) for holding in held if holding.job_id not in reported), total)

    def mean_watts(self, holdings: Iterable[Holding]) -> dict[str, float]:
        """Power of a device by kind, over all jobs that told."""
        seconds: dict[str, float] = defaultdict(float)
        joules: dict[str, float] = defaultdict(float)
        counted: set[str] = set()
        for holding in holdings:
            if holding.job_id not in self.reported or (kind := self._kind(holding)) is None:
                continue
            seconds[kind] += self.used_s(holding)
            if holding.job_id not in counted:
                counted.add(holding.job_id)
                joules[kind] += self.reported[holding.job_id].joules or 0.0
        return {kind: joules[kind] / seconds[kind] for kind in seconds if seconds[kind]}

    def used_s(self, holding: Holding) -> float:
        """Device-seconds of a holding that lie in the period."""
        return len(holding.devices) * overlap_s(holding, self.since, self.until)

    def _guess(self, holding: Holding, watts: Mapping[str, float]) -> EnergyUse:
        kind = self._kind(holding)
        if kind is None:
            return UNKNOWN_ENERGY
        device_w = watts.get(kind) or full_load_w(self.cluster.nodes[self.cluster.node_of(holding.devices[0])])
        return UNKNOWN_ENERGY if device_w is None else EnergyUse(device_w * self.used_s(holding), True)

    def _kind(self, holding: Holding) -> str | None:
        """None for devices that are no longer there."""
        first = holding.devices[0] if holding.devices else self.cluster.device_count
        return self.cluster.device(first).kind if first < self.cluster.device_count else None


def overlap_s(holding: Holding, since: float, until: float) -> float:
    end = until if holding.until is None or holding.until > until else holding.until
    start = holding.since if holding.since > since else since
    return end - start if end > start else 0.0
