"""Which operators Aceso recomputes: whole groups of equally named ones, the largest activations first.

Ours is a knapsack (:mod:`penstock.parallel.search.stages.uniform`); this is the original's greedy, which every one of
its primitives runs again for each stage it touches.
"""

from dataclasses import replace

import numpy as np

from penstock.core import ParallelStage
from penstock.parallel.cost_model import stage_cost
from penstock.parallel.operators import CostTables


def with_recompute(
    tables: CostTables, start: int, stage: ParallelStage, micro_batch: int, later: int, limit_mb: float
) -> ParallelStage:
    """``stage`` with the operators recomputed that the greedy picks until it fits, or until it gives up."""
    flags = np.zeros(stage.ops, bool)
    current = replace(stage, recompute=(False,) * stage.ops)
    cost = stage_cost(tables, start, current, micro_batch, later=later)
    if cost.memory_mb <= limit_mb:
        return current
    groups = _groups(tables, start, stage, micro_batch, later)
    while cost.memory_mb > limit_mb:
        picked = _next(tables, start, groups, stage.ops, cost.memory_mb - limit_mb)
        if picked is None:
            break
        for op in picked:
            flags[op : op + 2] = True
        current = replace(stage, recompute=tuple(flags.tolist()))
        cost = stage_cost(tables, start, current, micro_batch, later=later)
    return current


def _groups(
    tables: CostTables, start: int, stage: ParallelStage, micro_batch: int, later: int
) -> dict[int, list[tuple[int, float]]]:
    """Operators by kind, with what each keeps over all micro-batches in flight."""
    groups: dict[int, list[tuple[int, float]]] = {}
    for op, kind in enumerate(tables.chain.ops[start : start + stage.ops].tolist()):
        batch = tables.micro_batches.index(micro_batch // stage.dp[op])
        degree = tables.tp_degrees.index(stage.tp[op])
        size = float(tables.activation_mb[kind, batch, degree, stage.variant[op]]) * (later + 1)
        groups.setdefault(kind, []).append((op, size))
    return groups


def _next(
    tables: CostTables, start: int, groups: dict[int, list[tuple[int, float]]], ops: int, excess_mb: float
) -> list[int] | None:
    """The next operators to recompute; their group, and the one of their successors, are used up."""
    kinds = tables.chain.kinds
    open_groups = {kind: group for kind, group in groups.items() if group and kinds[kind].seeds_recompute}
    total = {kind: sum(size for _, size in group) for kind, group in open_groups.items()}
    largest = max(total, key=lambda kind: total[kind], default=None)
    if largest is None or total[largest] <= 0:
        return None
    group, groups[largest] = groups[largest], []
    behind = group[0][0] + 1
    if behind >= ops:
        return None
    groups[int(tables.chain.ops[start + behind])] = []
    if total[largest] < excess_mb:
        return [op for op, _ in group]
    picked, saved = [], 0.0
    for op, size in group:
        if saved > excess_mb:
            break
        picked.append(op)
        saved += size
    return picked
