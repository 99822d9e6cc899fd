"""Every promise is kept: in worlds that broke some before, in odd ones, and in many drawn at random."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core import Cluster, Curve, Deadline, Job, NodeLost, Overhead, Scaling, Work
from penstock.placement import placement_named
from penstock.policies import COST_CLASSES, ArrivalStatistics, DeadlinePolicy, policy_named
from penstock.scheduler import ExpectedCosts
from penstock.simulate import Profiles, costs_named, generate, simulate
from penstock.simulate.traces import interval_for_load, jobs_of
from tests.policies.views import Row, whole_view


def recipe(count: int, load: float, seed: int, devices: int = 64) -> list[Job]:
    profiles = Profiles.builtin()
    made = generate(count, seed=seed, profiles=profiles, mean_interval_s=interval_for_load(load, devices))
    return list(jobs_of(made, profiles))


def broken(jobs: list[Job], cluster: str, overhead: str, placement: str | None = None) -> tuple[int, int]:
    """How many promises were given and broken; every invariant is checked after every decision."""
    where = Cluster.parse(cluster)
    result = simulate(
        jobs, where, policy_named("deadline"), slot=60.0, costs=costs_named(overhead, where, 60.0),
        placement=placement_named(placement) if placement else None, validate=True,
    )  # fmt: skip
    return result.summary.promises, result.summary.broken


@pytest.mark.parametrize("seed", [2, 3, 34])
def test_a_generated_trace(seed: int) -> None:
    promises, late = broken(recipe(500, 1.5, seed), "8x8", "measured")
    assert (promises > 480, late) == (True, 0)


def test_three_times_the_load() -> None:
    promises, late = broken(recipe(400, 3.0, 10), "8x8", "none")
    assert (promises > 380, late) == (True, 0)


def test_everybody_at_once() -> None:
    jobs = [_moved(job, 0.0) for job in recipe(1000, 2.0, 0, 128)]
    promises, late = broken(jobs, "16x8", "none")
    assert (promises > 600, late) == (True, 0)


@pytest.mark.parametrize("placement", ["buddy", "best-fit", "first-fit"])
def test_odd_widths_that_are_slower_when_spread(placement: str) -> None:
    promises, late = broken(odd_jobs(200, random.Random(5), 64), "8x8", "measured", placement)
    assert (promises > 150, late) == (True, 0)


def test_bursts_of_mixed_widths() -> None:
    rng, at, jobs = random.Random(1), 0.0, list[Job]()
    for index, job in enumerate(odd_jobs(200, rng, 64)):
        at += rng.expovariate(1 / 3000) if index % 20 == 0 else 0.0
        jobs.append(_moved(job, at))
    promises, late = broken(jobs, "8x8", "measured")
    assert (promises > 100, late) == (True, 0)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10_000), nodes=st.integers(1, 4), size=st.sampled_from([1, 3, 4, 8]),
    slot=st.sampled_from([0.0, 7.0, 60.0]), change=st.sampled_from([0.0, 4.2, 30.0]), load=st.floats(0.3, 4.0),
)  # fmt: skip
def test_worlds_drawn_at_random(seed: int, nodes: int, size: int, slot: float, change: float, load: float) -> None:
    rng = random.Random(seed)
    cluster = Cluster.parse(f"{nodes}x{size}")
    jobs = odd_jobs(40, rng, cluster.device_count * load, widest=cluster.device_count)
    costs = ExpectedCosts(Overhead(change_s=change, worst_s=change))
    result = simulate(jobs, cluster, policy_named("deadline"), slot=slot, costs=costs, validate=True)
    assert result.summary.broken == 0


def test_who_lost_a_node_is_the_most_urgent_there_is() -> None:
    """It cannot be in time any more, and ends as early as it can all the same, before anybody new is promised that."""
    cluster = Cluster.parse("2x1")
    wide = Curve.from_table({1: 1.0, 2: 2.0})
    jobs = [
        Job(id="hit", work=Work(200.0), curve=wide, goal=Deadline(110.0), submitted_at=0.0, requested=2),
        Job(id="new", work=Work(100.0), curve=wide, goal=Deadline(230.0), submitted_at=20.0, requested=1),
    ]
    result = simulate(jobs, cluster, policy_named("deadline:at_once=9"), slot=0.0, faults=[NodeLost(10.0, "node-1")])
    ends = {each.id: each.finished_at for each in result.outcomes}
    assert ends["hit"] == pytest.approx(210.0), "what it did since its last checkpoint is lost"
    assert not ends["new"] < ends["hit"]


def test_a_costly_job_is_told_why_it_waits() -> None:
    rows = [Row(work=1000.0, due=5000.0, standing=0)]
    view = whole_view(*rows, capacity=1, arrivals=ArrivalStatistics(np.ones(COST_CLASSES)))
    (quote,) = DeadlinePolicy(at_once=0.0).admit(view, np.array([0]))
    assert quote is not None
    assert quote.verdict == "deferred"
    assert "cheaper jobs are promised first" in quote.reason
    assert math.isfinite(quote.answer_by)


def odd_jobs(count: int, rng: random.Random, load: float, widest: int = 11) -> list[Job]:
    """Gangs of any width, elastic or not, slower when they are spread."""
    jobs, at = [], 0.0
    choices = [width for width in (1, 2, 3, 5, 6, 7, 11) if width <= widest]
    for index in range(count):
        at += rng.expovariate(load / 40_000)
        widths = sorted(rng.sample(choices, rng.randint(1, min(4, len(choices)))))
        rates = [width**0.8 for width in widths]
        spread = tuple((width, nodes, 0.6 * rate) for width, rate in zip(widths, rates, strict=True)
                       for nodes in range(2, width + 1))  # fmt: skip
        scaling = Scaling(counts=tuple(widths), rates=tuple(rates), spread=spread)
        work = 60.0 * 10 ** rng.uniform(0.5, 3.0)
        due = at + work / rates[0] * rng.uniform(0.8, 3.0)
        jobs.append(Job(id=f"odd-{index}", work=Work(work), curve=Curve((("*", scaling),)), goal=Deadline(due),
                        submitted_at=at, requested=widths[0]))  # fmt: skip
    return jobs


def _moved(job: Job, at: float) -> Job:
    return replace(job, submitted_at=at, goal=Deadline(at + job.deadline - job.submitted_at))
