"""Aceso's operator-level fine tuning: runs of operators change tp for dp or back, single ones their variant."""

from collections.abc import Iterator
from dataclasses import replace

from bench.aceso.config import AcesoConfig
from penstock.core import ParallelStage


def tuned(config: AcesoConfig) -> AcesoConfig:
    """One pass over all stages; a change is kept if it makes its stage faster within the memory limit."""
    for number in range(len(config.stages)):
        for change in (_retuned_run, _retuned_variants):
            stage = change(config, number)
            if stage is None:
                continue
            stages = list(config.stages)
            stages[number] = stage
            changed = config.space.config(config.plan.micro_batch, stages)
            limit = config.space.problem.mesh.memory_mb
            if changed.times_ms[number] < config.times_ms[number] and changed.memories_mb[number] <= limit:
                config = changed
    return config


def _retuned_run(config: AcesoConfig, number: int) -> ParallelStage | None:
    """The best of all runs that begin at a tunable operator and go on as far as possible in either direction."""
    limit = config.space.problem.mesh.memory_mb
    best, best_rank = None, (True, float("inf"))
    for stage in _runs(config, number):
        ready = config.space.recomputed(
            config.plan.cuts[number], stage, config.plan.micro_batch, _later(config, number)
        )
        cost = config.space.estimate(config.plan.cuts[number], ready, config.plan.micro_batch, _later(config, number))
        misses = cost.memory_mb >= limit
        rank = misses, cost.memory_mb if misses else cost.time_us
        if rank < best_rank:
            best, best_rank = ready, rank
    return best


def _runs(config: AcesoConfig, number: int) -> Iterator[ParallelStage]:
    stage, start = config.stages[number], config.plan.cuts[number]
    if stage.devices == 1:
        return
    for op in range(stage.ops):
        if not config.space.problem.tables.chain.tunable[start + op]:
            continue
        for grow_tp in (True, False):
            for run in (range(op, stage.ops), range(op, -1, -1)):
                changed = _changed_run(config, number, run, grow_tp)
                if changed is not None:
                    yield changed


def _changed_run(config: AcesoConfig, number: int, run: range, grow_tp: bool) -> ParallelStage | None:
    stage, space = config.stages[number], config.space
    sizes, tp, dp = space.problem.tables.micro_batches, list(stage.tp), list(stage.dp)
    for op in run:
        new_dp, odd = (dp[op] // 2, dp[op] % 2) if grow_tp else (dp[op] * 2, tp[op] % 2)
        new_tp = tp[op] * 2 if grow_tp else tp[op] // 2
        legal = not odd and new_tp <= space.most_tp and config.plan.micro_batch % new_dp == 0
        if not legal or config.plan.micro_batch // new_dp not in sizes:
            break
        tp[op], dp[op] = new_tp, new_dp
    changed = replace(stage, tp=tuple(tp), dp=tuple(dp))
    if changed == stage or not space.runnable(config.plan.cuts[number], changed, config.plan.micro_batch):
        return None
    return changed


def _retuned_variants(config: AcesoConfig, number: int) -> ParallelStage | None:
    """Every tunable operator in turn takes the other variant if that makes the stage faster and still fits."""
    stage, start = config.stages[number], config.plan.cuts[number]
    if stage.devices == 1:
        return None
    limit = config.space.problem.mesh.memory_mb
    best = stage
    cost = config.space.estimate(start, best, config.plan.micro_batch, _later(config, number))
    for op in range(stage.ops):
        if not config.space.problem.tables.chain.tunable[start + op]:
            continue
        for variant in range(config.space.problem.tables.variants):
            changed = replace(best, variant=(*best.variant[:op], variant, *best.variant[op + 1 :]))
            if variant == best.variant[op] or not config.space.runnable(start, changed, config.plan.micro_batch):
                continue
            other = config.space.estimate(start, changed, config.plan.micro_batch, _later(config, number))
            over = cost.memory_mb > limit
            if over or (other.time_us < cost.time_us and other.memory_mb < limit):
                best, cost = changed, other
    return best if best is not stage else None


def _later(config: AcesoConfig, number: int) -> int:
    return len(config.stages) - 1 - number
