"""The search finds what trying everything finds, and its bound is one."""

import itertools

import numpy as np
import pytest

from penstock.parallel.devices import MB, Mesh
from penstock.parallel.search.anytime import search
from penstock.parallel.search.bound import loose_bound_s, micro_batch_bound_s
from penstock.parallel.search.problem import Problem
from penstock.parallel.search.stages.table import never
from tests.parallel.toys import every_plan, toy_tables

OPS = 4


def _best_by_trying(problem: Problem) -> float:
    costs = (problem.evaluate(plan) for plan in every_plan(problem))
    return min((cost.iteration_s for cost in costs if cost.fits(problem.mesh)), default=np.inf)


@pytest.mark.parametrize("mixes", [True, False])
@pytest.mark.parametrize("memory_mb", [1200.0, 1600.0, 2600.0, 5000.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_best_plan_is_found_and_the_bound_lies_below_it(seed: int, memory_mb: float, mixes: bool) -> None:
    problem = Problem(toy_tables(seed, OPS, mixes=mixes), Mesh(per_node=2, memory_bytes=memory_mb * MB), 8)
    optimum = _best_by_trying(problem)
    result = search(problem, budget_s=60.0)
    if not np.isfinite(optimum):
        assert result.best is None
        return
    assert result.best is not None
    assert result.best.cost.fits(problem.mesh)
    assert result.best.iteration_s <= optimum * 1.001
    assert 0 < result.bound_s <= optimum * (1 + 1e-6)


@pytest.mark.parametrize("mixes", [True, False])
@pytest.mark.parametrize("memory_mb", [1600.0, 5000.0])
def test_a_bound_from_few_cuts_lies_below_the_tight_one_and_the_best_plan(memory_mb: float, mixes: bool) -> None:
    problem = Problem(toy_tables(2, OPS, mixes=mixes), Mesh(per_node=2, memory_bytes=memory_mb * MB), 8)
    optimum = _best_by_trying(problem)
    tight = min(micro_batch_bound_s(problem, size, 2 * optimum, never) for size in problem.micro_batches)
    loose = [
        min(loose_bound_s(problem, size, 2 * optimum, never, cuts) for size in problem.micro_batches)
        for cuts in (2, 3, 4, 5)
    ]
    assert max(loose) <= tight * (1 + 1e-6) <= optimum * (1 + 1e-5)
    assert loose[-1] > 0.2 * optimum


def test_limits_of_the_cases_differ() -> None:
    """Some of the memory limits above bind and some do not, or the test would prove little."""
    found = [
        search(Problem(toy_tables(1, OPS), Mesh(per_node=2, memory_bytes=memory * MB), 8), 60.0).best
        for memory in (1200.0, 1600.0, 5000.0)
    ]
    times = {round(one.iteration_s, 6) if one else None for one in found}
    assert len(times) > 1


@pytest.mark.parametrize("seed", range(3))
def test_more_memory_is_never_slower(seed: int) -> None:
    tables = toy_tables(seed, 9)
    times = []
    for memory in (2000.0, 3000.0, 5000.0, 20000.0):
        best = search(Problem(tables, Mesh(per_node=4, memory_bytes=memory * MB), 16), 60.0).best
        times.append(best.iteration_s if best else np.inf)
    assert np.isfinite(times[-1])
    assert all(after <= before * 1.002 for before, after in itertools.pairwise(times))
