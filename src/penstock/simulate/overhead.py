"""What a decision costs, in three models: nothing, as in the public ElasticFlow simulator, or as measured.

``none``: rescheduling is free. ``artifact``: the model of the public simulator (github.com/pkusys/ElasticFlow): every
running job loses a base time at every decision, changed or not, more if its exact set of devices was not used
since the last restart, and much more at a restart; see :class:`ArtifactCosts`. ``measured``: only jobs whose devices
change pause, for as long as ElasticFlow measured on A100s (Gu et al., ASPLOS'23, figure 12).
"""

from collections.abc import Callable

import numpy as np

from penstock.core import Cluster, Overhead, UnknownNameError
from penstock.policies import Floats
from penstock.scheduler import CostedRound, CostModel, ExpectedCosts
from penstock.simulate.replicas.elasticflow.overhead import Restarts, seconds

_WIDEST = 64
MEASURED_CHANGE_S = 4.2
"""The slowest of the measured rescalings and migrations (bert, 8 to 16 devices); the fastest was 0.7 s."""


class ArtifactCosts:
    """Charges what the public simulator charges.

    A device set counts as known once it has been used. Every ``slot``-th decision is a restart: sets that are new in
    that very decision pay for it, and afterwards all sets are forgotten.
    """

    def __init__(self, devices: int, slot: float) -> None:
        self._devices = devices
        self._restarts = Restarts(max(int(slot), 1))
        self._known: set[tuple[int, ...]] = set()
        self._forgot = False
        self._base = seconds(1, devices, cached=True)
        change = seconds(1, devices)
        self.overhead = Overhead(
            every_round_s=self._base, change_s=change, per_doubling_s=seconds(2, devices) - change,
            worst_s=seconds(_WIDEST, devices, restart=True),
        )  # fmt: skip

    def pauses(self, decision: CostedRound) -> Floats:
        restart = self._restarts.due()
        pauses = np.where(decision.widths > 0, self._base, 0.0)
        suspects = decision.widths > 0 if self._forgot else decision.changed
        for row in suspects.nonzero()[0].tolist():
            devices = decision.devices_of(row)
            if devices not in self._known:
                self._known.add(devices)
                pauses[row] = seconds(len(devices), self._devices, restart=restart)
        self._forgot = restart
        if restart:
            self._known.clear()
        return pauses


class Metered:
    """Passes a cost model through and adds up what it charged."""

    def __init__(self, costs: CostModel) -> None:
        self._costs = costs
        self.overhead = costs.overhead
        self.device_seconds = 0.0

    def pauses(self, decision: CostedRound) -> Floats:
        pauses = self._costs.pauses(decision)
        self.device_seconds += float(pauses @ decision.widths)
        return pauses


_MODELS: dict[str, Callable[[Cluster, float], CostModel]] = {
    "none": lambda _cluster, _slot: ExpectedCosts(),
    "artifact": lambda cluster, slot: ArtifactCosts(cluster.device_count, slot),
    "measured": lambda _cluster, _slot: ExpectedCosts(Overhead(change_s=MEASURED_CHANGE_S, worst_s=MEASURED_CHANGE_S)),
}
OVERHEADS = tuple(_MODELS)


def costs_named(name: str, cluster: Cluster, slot: float) -> CostModel:
    """A fresh cost model by name."""
    try:
        return _MODELS[name](cluster, slot)
    except KeyError:
        raise UnknownNameError.of("overhead model", name, OVERHEADS) from None
