"""What the table of bounds says of a stage, no choice of recomputed operators beats: all of them tried."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from penstock.core import ParallelStage
from penstock.parallel.cost_model import stage_cost
from penstock.parallel.devices import MB, Mesh
from penstock.parallel.search.problem import Problem
from penstock.parallel.search.stages.table import StageTable
from tests.parallel.toys import toy_tables

OPS, STAGES, DEVICES = 7, 3, 2


def _problem(seed: int, memory_mb: float) -> Problem:
    """Operators of which some share a buffer, so that Aceso's quirks are in reach."""
    tables = toy_tables(seed, OPS, mixes=False)
    scale = np.random.default_rng(seed).choice([0.0, 1.0, 1.0, 1.5], OPS)
    return Problem(replace(tables, activation_scale=scale), Mesh(per_node=4, memory_bytes=memory_mb * MB), 8)


def _least_us(problem: Problem, start: int, stop: int, devices: int, micro_batch: int, later: int) -> float:
    least = np.inf
    for split in problem.splits(micro_batch, devices):
        for again in product((False, True), repeat=stop - start):
            stage = replace(ParallelStage.uniform(stop - start, tp=split.tp, dp=split.dp), recompute=again)
            cost = stage_cost(problem.tables, start, stage, micro_batch, later=later)
            if cost.memory_mb <= problem.mesh.memory_mb:
                least = min(least, cost.time_us)
    return least


@pytest.mark.parametrize("memory_mb", [1400.0, 2000.0, 3000.0])
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("relaxed", [False, True])
def test_no_stage_beats_its_bound(seed: int, memory_mb: float, relaxed: bool) -> None:
    problem = _problem(seed, memory_mb)
    table = StageTable(problem, 2, np.arange(OPS + 1), 1e9, STAGES, bounding=True, relaxed=relaxed)
    times, _ = table._filled
    binding = 0
    for place, devices in enumerate(table._columns):
        for later, start in product(range(STAGES), range(OPS)):
            for stop in range(start + 1, OPS + 1):
                least = _least_us(problem, start, stop, devices, 2, later)
                bound = float(times[place, later, stop, stop - start - 1])
                assert bound <= least * (1 + 1e-5)
                binding += np.isfinite(bound) and bound > 0.999 * least
    assert binding > 20, "bounds that are never met would say little"
