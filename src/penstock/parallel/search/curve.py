"""Seconds per iteration for every number of devices: what an elastic scheduler asks for.

Stage times do not depend on how many devices there are in all, so the tables of every micro-batch are made once and
serve all device counts; only the cuts are chosen for each.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from penstock.core import ParallelPlan
from penstock.parallel.search.anytime import assembled
from penstock.parallel.search.exact import StageSolver
from penstock.parallel.search.problem import Problem
from penstock.parallel.search.stage_table import FREE_US, MOST_BYTES, Pipeline, StageTable

CUTS = 120


def best_plans(problem: Problem, counts: Iterable[int]) -> dict[int, ParallelPlan]:
    """A good plan for each number of devices in ``counts`` for which one fits; whole nodes, or part of one."""
    found: dict[int, list[Pipeline]] = {count: [] for count in counts}
    for micro_batch in problem.micro_batches:
        table = _table(problem, micro_batch)
        for count, pipelines in found.items():
            if table.usable:
                pipelines += table.best(lambda: False, problem.mesh.part(count))
    plans = {count: _plan(replace(problem, mesh=problem.mesh.part(count)), found[count]) for count in found}
    return {count: plan for count, plan in plans.items() if plan is not None}


def throughput_curve(problem: Problem, counts: Iterable[int]) -> dict[int, float]:
    """{devices: seconds per iteration}, without the numbers of devices on which nothing fits."""
    return {
        count: replace(problem, mesh=problem.mesh.part(count)).evaluate(plan).iteration_s
        for count, plan in best_plans(problem, counts).items()
    }


def _table(problem: Problem, micro_batch: int) -> StageTable:
    """Times of all stages however slow, between as many cuts as fit into memory."""
    cuts = CUTS
    while True:
        ops = np.unique(np.linspace(0, problem.ops, min(problem.ops + 1, cuts)).round().astype(np.int64))
        stages = min(problem.mesh.devices, len(ops) - 1)
        table = StageTable(problem, micro_batch, ops, FREE_US, stages, mixing=False)
        if not table.usable or table.bytes <= MOST_BYTES:
            return table
        cuts //= 2


def _plan(problem: Problem, pipelines: list[Pipeline]) -> ParallelPlan | None:
    """The fastest pipeline whose stages can be assembled."""
    solver = StageSolver(problem, mixing=False)
    for pipeline in sorted(pipelines, key=lambda one: one.iteration_us(problem.global_batch // one.micro_batch)):
        plan = assembled(solver, pipeline.micro_batch, pipeline.stages)
        if plan is not None and problem.evaluate(plan).fits(problem.mesh):
            return plan
    return None
