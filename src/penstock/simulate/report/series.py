"""From outcomes to what a chart shows, thinned to what an eye can tell apart and never smoothed.

Points of a distribution are real jobs at evenly spaced ranks. Values over time are exact means of a bin: the integral
of a step function over the bin, divided by its width.
"""

from dataclasses import dataclass

import numpy as np

from penstock.policies import Floats
from penstock.simulate.report.arrays import Crowd, Outcomes
from penstock.simulate.timeline import Timeline

CDF_POINTS = 240
BINS = 240


@dataclass(frozen=True, slots=True)
class Distribution:
    """Share of jobs at or below each value; both ascend."""

    values: Floats
    shares: Floats

    def quantile(self, share: float) -> float:
        return float(np.interp(share, self.shares, self.values)) if len(self.values) else float("nan")


def distribution(values: Floats, of: int) -> Distribution:
    """The values that are there, as shares of ``of`` jobs: a curve ends below 1 if some jobs never came so far."""
    there = np.sort(values[~np.isnan(values)])
    ranks = np.unique(np.linspace(0, len(there) - 1, min(CDF_POINTS, len(there))).astype(np.int64))
    return Distribution(there[ranks], (ranks + 1) / of) if len(there) else Distribution(there, there)


@dataclass(frozen=True, slots=True)
class Clockwork:
    """The stretch of time all charts over time share."""

    start: float
    end: float

    @classmethod
    def of(cls, crowd: Crowd, runs: "list[Outcomes]") -> "Clockwork":
        ends = [float(np.nanmax(run.finished)) for run in runs if not np.isnan(run.finished).all()]
        start = float(crowd.submitted.min()) if len(crowd) else 0.0
        return cls(start, max([*ends, start + 1.0]))

    @property
    def edges(self) -> Floats:
        return np.linspace(self.start, self.end, BINS + 1)

    @property
    def bin_s(self) -> float:
        return (self.end - self.start) / BINS


def devices_held(timeline: Timeline, clock: Clockwork) -> Floats:
    """Mean number of devices held in each bin."""
    starts = np.array([bar.start for bar in timeline.bars])
    ends = np.array([bar.end for bar in timeline.bars])
    counts = np.array([bar.count for bar in timeline.bars], dtype=np.float64)
    return _mean_level(starts, ends, counts, clock)


def jobs_waiting(crowd: Crowd, run: Outcomes) -> tuple[Floats, Floats]:
    """From when to when each job waited for its first device; those that never got one are left out."""
    waited = ~np.isnan(run.started) & (run.started > crowd.submitted)
    return crowd.submitted[waited], run.started[waited]


def waiting(crowd: Crowd, run: Outcomes, clock: Clockwork) -> Floats:
    """Mean number of jobs that wait for their first device in each bin."""
    starts, ends = jobs_waiting(crowd, run)
    return _mean_level(starts, ends, np.ones(len(starts)), clock)


def demand(crowd: Crowd, clock: Clockwork) -> Floats:
    """Devices that the work submitted in each bin would keep busy for the length of the bin."""
    finite = np.isfinite(crowd.size_s)
    total, _ = np.histogram(crowd.submitted[finite], clock.edges, weights=crowd.size_s[finite])
    return np.asarray(total / clock.bin_s)


def _mean_level(starts: Floats, ends: Floats, weights: Floats, clock: Clockwork) -> Floats:
    """Exact bin means of the step function that ``weights`` add up to while they last."""
    if not len(starts):
        return np.zeros(BINS)
    at = np.concatenate([starts, ends])
    step = np.concatenate([weights, -weights])
    order = np.argsort(at, kind="stable")
    at, level = at[order], np.cumsum(step[order])
    area = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(at))])
    return np.asarray(np.diff(np.interp(clock.edges, at, area)) / clock.bin_s)
