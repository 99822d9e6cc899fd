"""What a caller can rely on: early plans, interruption, legality, honest refusals, curves for all device counts."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
from bench.aceso import search as aceso

from penstock.core import PlanError
from penstock.parallel.devices import MB, Mesh
from penstock.parallel.search import anytime
from penstock.parallel.search.problem import FoundPlan, Problem
from tests.parallel.toys import toy_tables


@pytest.fixture
def problem() -> Problem:
    return Problem(toy_tables(5, 12), Mesh(nodes=2, per_node=2, memory_bytes=4000.0 * MB), 16)


@pytest.mark.parametrize("searching", [anytime.search, aceso.search])
def test_plans_fit_and_only_get_better(problem: Problem, searching: object) -> None:
    seen: list[FoundPlan] = []
    result = searching(problem, 30.0, seen.append)  # type: ignore[operator]
    assert seen
    assert seen == result.curve
    assert all(one.cost.fits(problem.mesh) for one in seen)
    assert all(problem.evaluate(one.plan).iteration_s == one.iteration_s for one in seen)
    assert all(after.iteration_s < before.iteration_s for before, after in itertools.pairwise(seen))


def test_ours_is_not_worse_than_aceso(problem: Problem) -> None:
    ours, theirs = anytime.search(problem, 60.0).best, aceso.search(problem, 60.0).best
    assert ours is not None
    assert theirs is not None
    assert ours.iteration_s <= theirs.iteration_s * (1 + 1e-9)


def test_an_interrupted_search_returns_its_best(problem: Problem) -> None:
    def interrupt(_: FoundPlan) -> None:
        raise KeyboardInterrupt

    result = anytime.search(problem, 60.0, interrupt)
    assert result.best is not None
    assert len(result.curve) == 1


def test_no_time_means_no_plan_but_no_error(problem: Problem) -> None:
    assert anytime.search(problem, 0.0).best is None


@pytest.mark.parametrize("budget", [3, 30, 300])
def test_the_clock_is_asked_often_and_the_bound_holds_whenever_it_stops(problem: Problem, budget: int) -> None:
    """A clock that ticks when it is asked: what is done between two looks is small, and nothing is half done."""
    ticks = itertools.count()
    result = anytime.search(problem, float(budget), clock=lambda: float(next(ticks)))
    assert result.finished_s is not None
    assert result.finished_s <= budget + 60
    best = anytime.search(problem, 60.0).best
    assert best is not None
    assert result.bound_s <= best.iteration_s * (1 + 1e-6)


def test_stages_stay_inside_nodes(problem: Problem) -> None:
    best = anytime.search(problem, 60.0).best
    assert best is not None
    ends = np.cumsum([stage.devices for stage in best.plan.stages])
    assert problem.mesh.per_node in ends


def test_where_nothing_fits_there_is_no_plan() -> None:
    short = Problem(toy_tables(5, 12), Mesh(per_node=2, memory_bytes=700.0 * MB), 16)
    assert anytime.search(short, 30.0).best is None


def test_a_batch_no_measured_size_divides() -> None:
    tables = toy_tables(1, 4)
    with pytest.raises(PlanError, match="global batch of 0"):
        Problem(tables, Mesh(per_node=2, memory_bytes=1000.0 * MB), 0)


def test_uncompiled_loops_find_the_same_plan() -> None:
    program = (
        "from penstock.parallel.devices import MB, Mesh; from penstock.parallel.search.anytime import search\n"
        "from penstock.parallel.search.problem import Problem; from tests.parallel.toys import toy_tables\n"
        "best = search(Problem(toy_tables(3, 5), Mesh(per_node=2, memory_bytes=2000.0 * MB), 4), 300.0).best\n"
        "print(best.plan.to_mapping(), round(best.iteration_s, 9))"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PENSTOCK_JIT": jit}, capture_output=True, text=True,
            check=True,
        ).stdout
        for jit in ("0", "1")
    }  # fmt: skip
    assert len(answers) == 1
    assert "stages" in answers.pop()
