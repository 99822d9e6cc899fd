"""What the table of bounds says of a stage, no choice of recomputed operators beats: all of them tried."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from penstock.core import ParallelStage
from penstock.parallel.cost_model import repaired_stage_cost, stage_cost
from penstock.parallel.devices import MB, Mesh
from penstock.parallel.search.anytime import search
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


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_quirks_only_ever_forget_memory(seed: int) -> None:
    """Repaired, a stage needs as much or more; more where its last operator has the largest buffers."""
    tables = _problem(seed, 3000.0).tables
    buffers = np.ones_like(tables.bwd_reserved_mb)
    buffers[-1] = 900.0
    last = replace(tables, bwd_reserved_mb=buffers)
    for again in product((False, True), repeat=OPS):
        stage = replace(ParallelStage.uniform(OPS, tp=1, dp=1), recompute=again)
        known, repaired = (cost(last, 0, stage, 1, later=1) for cost in (stage_cost, repaired_stage_cost))
        assert repaired.memory_mb > known.memory_mb
        assert repaired.time_us == pytest.approx(known.time_us)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_plans_of_the_search_fit_with_quirks_repaired(seed: int) -> None:
    problem = _problem(seed, 1400.0)
    found = search(problem, budget_s=60.0).best
    assert found is not None
    assert problem.evaluate_repaired(found.plan).fits(problem.mesh)
