"""From a good plan to a better one by small steps, judged by everything the final ranking counts.

Operators move from the slowest stage towards another one, through every stage between them, and a stage gives up the
recomputation it does not need. A step is kept if the whole iteration gets faster and memory still suffices, so the
result is never worse than what came in.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

from penstock.core import ParallelPlan, ParallelStage
from penstock.parallel.full_cost import Prediction

SHIFTS = (13, 5, 2, 1)
"""Operators moved at a time; large steps first, they are tried again smaller."""

Judge = Callable[[ParallelPlan], Prediction | None]
"""What is expected of a plan, or None if it does not fit."""


def polished(plan: ParallelPlan, prediction: Prediction, judge: Judge, until: float) -> tuple[ParallelPlan, Prediction]:
    """Climb until no step helps or the time (:func:`time.perf_counter`) is over."""
    climbing = True
    while climbing and time.perf_counter() < until:
        climbing = False
        for step in _steps(plan, prediction):
            if time.perf_counter() >= until:
                break
            better = judge(step)
            if better is not None and better.iteration_s < prediction.iteration_s * (1 - 1e-9):
                plan, prediction, climbing = step, better, True
                break
    return plan, prediction


def _steps(plan: ParallelPlan, prediction: Prediction) -> Iterator[ParallelPlan]:
    times = [stage.micro_batch_s for stage in prediction.stages]
    slowest = prediction.bottleneck
    others = sorted((s for s in range(len(times)) if s != slowest), key=times.__getitem__)
    yield from _less_recomputation(plan, slowest)
    for shift in SHIFTS:
        for other in others:
            moved = _moved(plan, slowest, other, shift)
            if moved is not None:
                yield moved
    for other in others:
        yield from _less_recomputation(plan, other)


def _moved(plan: ParallelPlan, giver: int, taker: int, count: int) -> ParallelPlan | None:
    """``count`` operators leave the giver and arrive at the taker; those between pass on as many."""
    cuts = list(plan.cuts)
    step = -count if giver > taker else count
    for cut in range(min(giver, taker) + 1, max(giver, taker) + 1):
        cuts[cut] -= step
    if any(stop <= start for start, stop in pairwise(cuts)):
        return None
    return _cut_at(plan, cuts)


def _cut_at(plan: ParallelPlan, cuts: list[int]) -> ParallelPlan | None:
    """The same choices per operator with other borders; only where a stage splits all its operators alike."""
    if not all(stage.is_uniform and not any(stage.variant) for stage in plan.stages):
        return None
    again = [flag for stage in plan.stages for flag in stage.recompute]
    stages = (
        replace(
            ParallelStage.uniform(stop - start, tp=stage.tp[0], dp=stage.dp[0], context=plan.context),
            recompute=tuple(again[start:stop]),
        )
        for stage, (start, stop) in zip(plan.stages, pairwise(cuts), strict=True)
    )
    return replace(plan, stages=tuple(stages))


def _less_recomputation(plan: ParallelPlan, number: int) -> Iterator[ParallelPlan]:
    """One stage without recomputation, or with the first half or quarter of its recomputed operators let go."""
    stage = plan.stages[number]
    recomputed = [op for op, again in enumerate(stage.recompute) if again]
    for share in (1, 2, 4, 8):
        spared = set(recomputed[: len(recomputed) // share])
        if spared:
            flags = tuple(again and op not in spared for op, again in enumerate(stage.recompute))
            yield replace(
                plan, stages=(*plan.stages[:number], replace(stage, recompute=flags), *plan.stages[number + 1 :])
            )
