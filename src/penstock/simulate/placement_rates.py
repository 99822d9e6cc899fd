"""How fast jobs run where they are placed: slower over many nodes, beside others on a node, or on a shared network.

The policy plans by the curves; the scheduler hears the rate as soon as a job is placed.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields

from penstock.core import Cluster, InputError, UnknownNameError, fewest_nodes
from penstock.scheduler import PlacedJob

_GUIDE = 'Try "spread=10%", or "spread=10%,interference=5%,contention=20%"'
CURVE = "curve"
"""The rates of the curves alone."""


@dataclass(frozen=True, slots=True)
class PlacementRates:
    """A rate model (:class:`penstock.scheduler.RateModel`) for simulations; all shares 0 is what the curves say.

    Every doubling of nodes beyond the fewest that hold a job takes the share ``spread`` off its rate. With k other jobs
    on the fullest of its nodes it runs at ``1 / (1 + interference * k)`` of its rate. A job on several nodes that
    shares a node with k others on several nodes runs at ``1 / (1 + contention * k)`` of it: they share its network.

    >>> PlacementRates.parse("spread=10%,contention=0.2")
    PlacementRates(spread=0.1, interference=0.0, contention=0.2)
    """

    spread: float = 0.0
    interference: float = 0.0
    contention: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "PlacementRates":
        if text.strip() == CURVE:
            return cls()
        given: dict[str, float] = {}
        names = [each.name for each in fields(cls)]
        for part in text.split(","):
            key, equals, value = (piece.strip() for piece in part.partition("="))
            if key not in names:
                raise UnknownNameError.of("part of --rates", key, (*names, CURVE), _GUIDE)
            given[key] = _share(part, value) if equals and key not in given else math.nan
            if math.isnan(given[key]):
                raise InputError(f"{part.strip()!r} in the rates {text!r}", "each part once, as NAME=PERCENT", _GUIDE)
        return cls(**given)

    def __str__(self) -> str:
        given = [(each.name, getattr(self, each.name)) for each in fields(self)]
        return ",".join(f"{name}={100 * share:g}%" for name, share in given if share) or CURVE

    @property
    def is_different(self) -> bool:
        """Whether anything but the curve counts."""
        return bool(self.spread or self.interference or self.contention)

    def rates(self, cluster: Cluster, placed: Sequence[PlacedJob], asked: Sequence[int]) -> Sequence[float]:
        """O(devices held)."""
        nodes_of = [{cluster.node_of(device) for device in each.devices} for each in placed]
        jobs_on = Counter(node for nodes in nodes_of for node in nodes)
        wide_on = Counter(node for nodes in nodes_of if len(nodes) > 1 for node in nodes)
        return [self._rate(cluster, placed[at], nodes_of[at], jobs_on, wide_on) for at in asked]

    def _rate(
        self, cluster: Cluster, job: PlacedJob, nodes: set[int], jobs_on: Counter[int], wide_on: Counter[int]
    ) -> float:
        count = len(job.devices)
        rate = job.job.curve.rate(count, job.kind, job.nodes)
        largest = max(node.device_count for _, node in cluster.present() if node.kind == job.kind)
        beyond = math.log2(len(nodes) / fewest_nodes(count, largest))
        rate *= math.pow(1.0 - self.spread, max(beyond, 0.0))
        rate /= 1.0 + self.interference * (max(jobs_on[node] for node in nodes) - 1)
        return rate / (1.0 + self.contention * (max(wide_on[node] for node in nodes) - 1)) if len(nodes) > 1 else rate


AS_CURVES = PlacementRates()


def _share(part: str, text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not 0 <= share < 1:
        raise InputError(f"{part.strip()!r} among the rates", "0% up to, not including, 100%", _GUIDE)
    return share
