"""Polish: move all cuts of a pipeline a little, together, by near exact stage times.

The tables the cuts were first chosen by are quick and slightly wrong: one split per stage, a bound on rounding. Here
every stage between nearby cuts is solved near exactly, then the best combination of cuts is taken.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.parallel.operators import Floats
from penstock.parallel.search.cuts import CutStage
from penstock.parallel.search.stages.solver import StagePosition, StageSolver, stage_positions
from penstock.parallel.search.stages.table import PipelineCuts


@dataclass(frozen=True)
class CutWindow:
    """Operators at which one boundary between stages may lie."""

    low: int
    high: int

    @property
    def size(self) -> int:
        return self.high - self.low + 1


def polished(
    solver: StageSolver, pipeline: PipelineCuts, reach: int, enough: Callable[[], bool]
) -> PipelineCuts | None:
    """The best pipeline with the same devices whose cuts are at most ``reach`` operators away; None if out of time."""
    positions = stage_positions(solver.problem, pipeline.micro_batch, [stage.devices for stage in pipeline.stages])
    windows = _windows(pipeline.stages, reach)
    n = solver.problem.global_batch // pipeline.micro_batch
    bound = pipeline.iteration_us(n) / n
    times = []
    for position, (left, right) in zip(positions, itertools.pairwise(windows), strict=True):
        between = _between(solver, position, left, right, bound, enough)
        if between is None:
            return None
        times.append(between)
    return _best_cuts(pipeline, windows, times, n)


def _windows(stages: Sequence[CutStage], reach: int) -> list[CutWindow]:
    """Windows that leave every stage at least one operator whatever the cuts."""
    ends = [0, *(stage.stop for stage in stages)]
    windows = [CutWindow(0, 0)]
    for before, cut, after in zip(ends, ends[1:], ends[2:], strict=False):
        left = min(reach, (cut - before - 1) // 2)
        right = min(reach, (after - cut) // 2)
        windows.append(CutWindow(cut - left, cut + right))
    return [*windows, CutWindow(ends[-1], ends[-1])]


def _between(
    solver: StageSolver,
    position: StagePosition,
    left: CutWindow,
    right: CutWindow,
    bound_us: float,
    enough: Callable[[], bool],
) -> Floats | None:
    """Times of all stages from a cut in ``left`` to a cut in ``right``; None if out of time."""
    times = np.full((left.size, right.size), np.inf)
    for row, start in enumerate(range(left.low, left.high + 1)):
        if enough():
            return None
        shortest = max(right.low - start, 1)
        found = solver.row(position, start, shortest, right.high, bound_us)
        times[row] = found[right.low - start - 1 :][: right.size]
    return times


def _best_cuts(pipeline: PipelineCuts, windows: list[CutWindow], times: list[Floats], n: int) -> PipelineCuts:
    """Bisection over the slowest stage, with the least total below each bound."""
    best, best_us = pipeline, pipeline.iteration_us(n)
    levels = np.unique(np.concatenate([matrix[np.isfinite(matrix)] for matrix in times]))
    low, high = 0, len(levels) - 1
    while low <= high:
        middle = (low + high) // 2
        found = _cuts_within(times, float(levels[middle]))
        if found is None:
            low = middle + 1
            continue
        high = middle - 1
        candidate = _pipeline(pipeline, windows, times, found)
        if candidate.iteration_us(n) < best_us:
            best, best_us = candidate, candidate.iteration_us(n)
    return best


def _cuts_within(times: list[Floats], bound: float) -> list[int] | None:
    """Positions in the windows of the pipeline of least total time without a stage above ``bound``."""
    value = np.zeros(1)
    choices = []
    for matrix in reversed(times):
        totals = np.where(matrix <= bound, matrix, np.inf) + value[None, :]
        choices.append(totals.argmin(axis=1))
        value = totals.min(axis=1)
    if not np.isfinite(value[0]):
        return None
    cuts = [0]
    for choice in reversed(choices):
        cuts.append(int(choice[cuts[-1]]))
    return cuts


def _pipeline(pipeline: PipelineCuts, windows: list[CutWindow], times: list[Floats], cuts: list[int]) -> PipelineCuts:
    ops = [window.low + cut for window, cut in zip(windows, cuts, strict=True)]
    stages = tuple(
        CutStage(start, stop, stage.devices) for start, stop, stage in zip(ops, ops[1:], pipeline.stages, strict=False)
    )
    found = tuple(float(matrix[a, b]) for matrix, a, b in zip(times, cuts, cuts[1:], strict=False))
    return PipelineCuts(pipeline.micro_batch, stages, found)
