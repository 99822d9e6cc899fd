"""Why no plan fits, by how much, and what would help."""

from dataclasses import replace

import numpy as np

from penstock.core import PlanError
from penstock.parallel.search.problem import Problem
from penstock.parallel.search.stage_table import FREE_US, StageTable

CUTS = 40
STEP = 1.02
MOST_TIMES = 64


def explain(problem: Problem) -> PlanError:
    """The error for a problem without a plan: how much memory is missing, and other ways out."""
    need = least_memory_mb(problem)
    limit = problem.mesh.memory_mb
    given = f"{problem.tables.chain.model} on {problem.mesh.devices} devices of {limit:.0f} MB"
    if need is None:
        return PlanError(
            f"{given}: no split of its operators was measured for micro-batches of this batch size",
            "another batch size or number of devices",
        )
    more = _enough_nodes(problem)
    ways = [f"{need:.0f} MB per device"] + ([f"{more} devices"] if more else [])
    return PlanError(
        f"{given} does not fit even with everything recomputed: it lacks {need - limit:.0f} MB per device",
        " or ".join(ways),
        "A smaller model or lower-precision optimizer state would help too.",
    )


def least_memory_mb(problem: Problem) -> float | None:
    """About the least memory per device with which a plan is found, to 2 percent; None if memory is not the reason."""
    low, high = problem.mesh.memory_mb, problem.mesh.memory_mb
    while not fits(_with_memory(problem, high)):
        low, high = high, high * 2
        if high > MOST_TIMES * problem.mesh.memory_mb:
            return None
    while high > low * STEP:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if fits(_with_memory(problem, middle)) else (middle, high)
    return high


def fits(problem: Problem) -> bool:
    """Whether a plan is found at all, whatever it takes."""
    cuts = np.unique(np.linspace(0, problem.ops, min(problem.ops + 1, CUTS)).round().astype(np.int64))
    stages = min(problem.mesh.devices, len(cuts) - 1)
    for micro_batch in problem.micro_batches:
        table = StageTable(problem, micro_batch, cuts, FREE_US, stages, mixing=False, buckets=64)
        if table.usable and table.within(FREE_US, problem.mesh) is not None:
            return True
    return False


def _with_memory(problem: Problem, memory_mb: float) -> Problem:
    return replace(problem, mesh=replace(problem.mesh, memory_mb=memory_mb))


def _enough_nodes(problem: Problem) -> int | None:
    """The least number of devices, by doubling nodes, that is enough."""
    for factor in (2, 4, 8):
        nodes = problem.mesh.nodes * factor
        if fits(replace(problem, mesh=replace(problem.mesh, nodes=nodes))):
            return nodes * problem.mesh.per_node
    return None
