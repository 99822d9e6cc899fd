"""Aceso's primitive ``dec_op``: operators leave the bottleneck, stage by stage, toward a partner with room."""

from collections.abc import Callable
from dataclasses import replace

from bench.aceso.config import AcesoConfig, Space
from bench.aceso.visits import Visits
from penstock.core import ParallelStage

GOALS = (0.4, 0.2, 0.0)
"""Shares of the gap between bottleneck and partner that a migration tries to close."""
MOST_STEPS = 5


def migrate(config: AcesoConfig, target: int, visits: Visits, enough: Callable[[], bool]) -> AcesoConfig | None:
    """Up to five migrations, each from the bottleneck the last one left; None if the first already fails."""
    by_memory = not config.fits
    bottleneck: int | None = target
    partner = visits.partner(config, target)
    improved = None
    for step in range(MOST_STEPS):
        if bottleneck is None or partner is None or enough():
            break
        found = _migrated(config, bottleneck, partner, by_memory, enough)
        if found is None:
            break
        improved = config = found
        bottleneck = visits.target(config, by_time=True, note=f"migration {step}")
        partner = None if bottleneck is None else visits.partner(config, bottleneck, f"migration {step}")
    return improved


def _migrated(
    config: AcesoConfig, bottleneck: int, partner: int, by_memory: bool, enough: Callable[[], bool]
) -> AcesoConfig | None:
    for goal in _goals(config, bottleneck, partner, by_memory):
        stages = list(config.stages)
        if _walk(config, stages, bottleneck, partner, goal, by_memory, enough):
            return config.space.config(config.plan.micro_batch, stages)
        if enough():
            break
    return None


def _goals(config: AcesoConfig, bottleneck: int, partner: int, by_memory: bool) -> list[float]:
    if by_memory:
        return [config.space.problem.mesh.memory_mb]
    slowest, other = config.compute_ms[bottleneck], config.compute_ms[partner]
    return [slowest - (slowest - other) * share for share in GOALS]


def _walk(
    config: AcesoConfig, stages: list[ParallelStage], stage: int, partner: int, goal: float, by_memory: bool,
    enough: Callable[[], bool],
) -> bool:  # fmt: skip
    """Move the fewest operators out of every stage on the way that bring it below ``goal``; whether all got there."""
    space, micro_batch = config.space, config.plan.micro_batch
    step = 1 if stage < partner else -1
    while stage != partner:
        found = next(
            (
                (count, smaller)
                for count in range(stages[stage].ops)
                if not enough()
                for smaller in [_without(space, stages, stage, count, step, micro_batch)]
                if _value(space, stages, stage, smaller, count if step < 0 else 0, micro_batch, by_memory) < goal
            ),
            None,
        )
        if found is None:
            return False
        count, smaller = found
        if count:
            _hand_over(space, stages, stage, smaller, count, step, micro_batch)
        stage += step
    return _value(space, stages, stage, stages[stage], 0, micro_batch, by_memory) < goal


def _without(
    space: Space, stages: list[ParallelStage], stage: int, count: int, step: int, micro_batch: int
) -> ParallelStage:
    """The stage without its last (``step`` 1) or first ``count`` operators, recomputing what the greedy says."""
    if count == 0:
        return stages[stage]
    kept = slice(None, -count) if step > 0 else slice(count, None)
    smaller = part(stages[stage], kept)
    start = start_of(stages, stage) + (count if step < 0 else 0)
    return space.recomputed(start, smaller, micro_batch, len(stages) - 1 - stage)


def _value(
    space: Space, stages: list[ParallelStage], number: int, stage: ParallelStage, moved: int, micro_batch: int,
    by_memory: bool,
) -> float:  # fmt: skip
    cost = space.estimate(start_of(stages, number) + moved, stage, micro_batch, len(stages) - 1 - number)
    return cost.memory_mb if by_memory else cost.time_us / 1000


def _hand_over(
    space: Space, stages: list[ParallelStage], stage: int, smaller: ParallelStage, count: int, step: int,
    micro_batch: int,
) -> None:  # fmt: skip
    """The neighbour takes the operators at the split of its nearest operator, keeping their variants."""
    giver, taker = stages[stage], stages[stage + step]
    if step > 0:
        variants, nearest = giver.variant[-count:], 0
    else:
        variants, nearest = giver.variant[:count], -1
    taken = ParallelStage(
        devices=taker.devices, tp=(taker.tp[nearest],) * count, dp=(taker.dp[nearest],) * count,
        recompute=(False,) * count, variant=variants,
    )  # fmt: skip
    stages[stage] = smaller
    stages[stage + step] = joined(taken, taker) if step > 0 else joined(taker, taken)
    start = start_of(stages, stage + step)
    stages[stage + step] = space.recomputed(start, stages[stage + step], micro_batch, len(stages) - 1 - stage - step)


def start_of(stages: list[ParallelStage], number: int) -> int:
    return sum(stage.ops for stage in stages[:number])


def part(stage: ParallelStage, kept: slice) -> ParallelStage:
    return replace(
        stage, tp=stage.tp[kept], dp=stage.dp[kept], recompute=stage.recompute[kept], variant=stage.variant[kept]
    )


def joined(left: ParallelStage, right: ParallelStage) -> ParallelStage:
    return ParallelStage(
        devices=right.devices, tp=left.tp + right.tp, dp=left.dp + right.dp,
        recompute=left.recompute + right.recompute, variant=left.variant + right.variant,
    )  # fmt: skip
