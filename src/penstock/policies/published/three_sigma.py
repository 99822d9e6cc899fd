"""3Sigma-like: expected value over the distribution of run times instead of one estimate."""

import math
from statistics import NormalDist
from typing import Annotated, ClassVar

import numpy as np

from penstock.policies.base import Allocation, KindPolicy
from penstock.policies.columns import Floats, Ints
from penstock.policies.greedy import take_in_order
from penstock.policies.kind_view import KindView
from penstock.policies.parameters import Parameter

NOTABLE = 0.01
"""Expected value by which a job must lose by waiting before others are interrupted for it."""
_CERTAIN = 1e-9
_DEVIATIONS = np.linspace(-4.0, 4.0, 65)
_NORMAL = np.array([NormalDist().cdf(each) for each in _DEVIATIONS])


class ThreeSigma(KindPolicy):
    """What a job is worth is averaged over all run times it may have; who loses most by waiting runs first.

    A deadline is worth 1 if it is met, so starting now is worth the probability of being in time; a job without one is
    worth ``best_effort_value`` and loses as much for every run time that it ends later. What jobs would lose by waiting
    one more ``cycle_s`` is compared, per device. Jobs with a deadline that would lose may take the devices of jobs
    without one; nobody else is interrupted. Jobs that can hardly be in time any more run on what is left.

    After Park et al. (EuroSys'18), reconstructed. Left out: the histograms by user and job name (run times spread
    log-normally by ``spread`` around what the curve says) and the integer program over future windows, of which
    this is the greedy first step. O(jobs log jobs) per decision.
    """

    name: ClassVar[str] = "3sigma"
    summary: ClassVar[str] = "expected value over the distribution of run times; who loses most by waiting runs first"
    paper: ClassVar[str] = "Park et al., EuroSys'18 (3Sigma-like)"
    placement: ClassVar[str] = "best-fit"

    def __init__(
        self,
        spread: Annotated[float, Parameter("standard deviation of the logarithm of run times", least=0, most=3)] = 0.5,
        cycle_s: Annotated[float, Parameter("how long a job that is not started now would wait", least=1.0)] = 300.0,
        best_effort_value: Annotated[
            float, Parameter("what a job without a deadline is worth against one in time", least=0, most=1)
        ] = 0.1,
    ) -> None:
        self.spread = spread
        self.cycle_s = cycle_s
        self.best_effort_value = best_effort_value

    def allocate(self, view: KindView) -> Allocation:
        worth, later = self.expected_values(view, 0.0), self.expected_values(view, self.cycle_s)
        loss = np.maximum(worth - later, 0.0)
        due, runs = np.isfinite(view.deadline), view.width > 0
        group = np.select([runs & due, due & (loss >= NOTABLE), runs], [0, 1, 2], 3)
        expected_s = self.expected_seconds(view)
        density = worth / (view.requested * np.maximum(expected_s, 1.0))
        keys = (-view.priority, group, -loss / view.requested, -density, expected_s)
        order = view.order(np.where(runs & due, 0, 1), *keys)
        widths = take_in_order(order, np.where(runs, view.width, view.requested), view.capacity)
        return Allocation(widths, self._next_cycle(view, widths))

    def expected_seconds(self, view: KindView) -> Floats:
        """The mean of each job's run time."""
        return _pauses(view) + view.rigid_seconds * math.exp(self.spread**2 / 2)

    def expected_values(self, view: KindView, delay_s: float) -> Floats:
        """What each job is worth on average if it starts that much later."""
        expected_s = self.expected_seconds(view)
        ends_after = view.now + delay_s + expected_s - view.submitted
        slowdown = ends_after / np.maximum(expected_s, 1.0)
        in_time = self.chances(view.rigid_seconds, view.deadline - view.now - delay_s - _pauses(view))
        return np.asarray(np.where(np.isfinite(view.deadline), in_time, self.best_effort_value * (2.0 - slowdown)))

    def chances(self, median_s: Floats, within_s: Floats) -> Floats:
        """How likely run times that spread around ``median_s`` are to end in time."""
        least = np.finfo(np.float64).tiny
        deviation = np.log(np.maximum(within_s, least) / np.maximum(median_s, least)) / max(self.spread, _CERTAIN)
        return np.asarray(np.interp(deviation, _DEVIATIONS, _NORMAL, left=0.0, right=1.0))

    def _next_cycle(self, view: KindView, widths: Ints) -> float:
        """A job that waits for its deadline to come near is looked at again, if it could take anybody's devices."""
        due = np.isfinite(view.deadline)
        waits = due & (widths == 0) & (view.deadline > view.now)
        lends = ~due & (widths > 0)
        return view.now + self.cycle_s if waits.any() and lends.any() else math.inf


def _pauses(view: KindView) -> Floats:
    """Seconds without progress if a job goes on, or starts."""
    return np.where(view.width > 0, view.still_s, view.start_s)
