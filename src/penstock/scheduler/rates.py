"""How fast jobs run where they are: beside the cost model, the second thing that a simulation may plug in.

The scheduler asks its rate model whenever placements change, about every job that was placed or whose neighbours came
or went, so that the nodes a gang spans and the company it keeps can matter. The answers are part of the decision.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.core import Cluster, Job


@dataclass(frozen=True, slots=True)
class PlacedJob:
    """A job and the devices it runs on."""

    job: Job
    kind: str
    devices: tuple[int, ...]
    nodes: int


class RateModel(Protocol):
    """Iterations per second of the ``asked`` jobs (positions in ``placed``, which has everybody who runs)."""

    def rates(self, cluster: Cluster, placed: Sequence[PlacedJob], asked: Sequence[int]) -> Sequence[float]: ...


class CurveRates:
    """What every job's own curve says for its devices and the nodes they span; neighbours do not matter."""

    def rates(self, cluster: Cluster, placed: Sequence[PlacedJob], asked: Sequence[int]) -> Sequence[float]:
        del cluster
        return [placed[i].job.curve.rate(len(placed[i].devices), placed[i].kind, placed[i].nodes) for i in asked]
