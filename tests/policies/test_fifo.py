"""First come, first served: rigid, uninterrupted, and backfill that delays nobody in front."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core import Curve, JobFinished, JobSubmitted
from penstock.policies import KindView, policy_named
from tests.policies.views import Row, view
from tests.scheduler.build import grants, job, scheduler

FLAT = Curve.from_table({n: 1.0 + n / 1000 for n in range(1, 9)})
"""Roughly one iteration per second whatever the width, so work is run time."""


def widths(world: KindView) -> list[int]:
    return policy_named("fifo").allocate(world).widths.tolist()


def test_jobs_start_in_order_of_arrival_on_what_they_asked_for() -> None:
    assert widths(view(Row(requested=2), Row(requested=2), Row(requested=1))) == [2, 2, 0]


def test_arrival_counts_also_after_jobs_in_between_have_left() -> None:
    machine = scheduler()
    machine.handle(*(JobSubmitted(0.0, job(name, requested=4)) for name in "abcd"))
    assert grants(machine.handle(JobFinished(25.0, "a"))) == {"b": (0, 1, 2, 3)}
    assert grants(machine.handle(JobFinished(50.0, "b"))) == {"c": (0, 1, 2, 3)}


def test_a_running_job_is_never_interrupted() -> None:
    long, short = Row(requested=4, work=1e6, width=4, submitted=5.0), Row(requested=4, work=1.0)
    assert widths(view(long, short, now=9.0)) == [4, 0]


def test_a_short_job_overtakes_if_it_is_gone_before_the_first_in_line_can_start() -> None:
    runs, head = Row(requested=2, width=2, left=200.0, work=500.0), Row(requested=4)
    assert widths(view(runs, head, Row(requested=2, work=200.0))) == [2, 0, 2], "both end after 100 s"


def test_a_long_job_does_not_overtake_when_that_would_delay_the_first_in_line() -> None:
    runs, head = Row(requested=2, width=2, left=200.0, work=500.0), Row(requested=4)
    assert widths(view(runs, head, Row(requested=2, work=202.0))) == [2, 0, 0], "it would end a second too late"


def test_a_long_job_may_use_what_the_first_in_line_leaves_over_but_only_once() -> None:
    runs, head = Row(requested=2, width=2, left=200.0, work=500.0), Row(requested=3)
    long = Row(requested=1, work=1e6)
    assert widths(view(runs, head, long, long)) == [2, 0, 1, 0]


def test_the_reservation_counts_jobs_that_start_in_this_very_decision() -> None:
    first, head = Row(requested=2, work=200.0), Row(requested=4)
    assert widths(view(first, head, Row(requested=1, work=1e6))) == [2, 0, 0], "the head could start after 100 s"
    assert widths(view(first, head, Row(requested=1, work=100.0))) == [2, 0, 1], "this one is gone by then"


def test_a_head_too_wide_for_the_nodes_left_keeps_nobody_waiting() -> None:
    world = view(Row(requested=4), Row(requested=2, work=1e6), capacity=4)
    assert widths(world) == [4, 0]
    assert widths(replace(world, capacity=3)) == [0, 2]


rows = st.builds(
    lambda requested, seconds, holds: Row(requested=requested, work=seconds, width=requested * holds, curve=FLAT),
    st.integers(1, 8), st.floats(1.0, 1000.0), st.booleans(),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(rows, min_size=1, max_size=10), st.integers(8, 12))
def test_backfill_never_delays_the_first_in_line(crowd: list[Row], capacity: int) -> None:
    held, running = 0, []
    for row in crowd:
        fits = row.width and held + row.width <= capacity
        running.append(row if fits or not row.width else Row(requested=row.requested, work=row.work, curve=FLAT))
        held += row.width if fits else 0
    world = view(*running, capacity=capacity)
    given_to = policy_named("fifo").allocate(world).widths
    assert given_to.sum() <= capacity
    assert (given_to[world.width > 0] == world.width[world.width > 0]).all()
    waiting = [i for i in range(len(world)) if given_to[i] == 0]
    if not waiting:
        return
    head, seconds = waiting[0], world.rigid_seconds
    ahead = [i for i in range(len(world)) if given_to[i] and (world.width[i] or i < head)]
    starts_at = _earliest(ahead, given_to, seconds, capacity, int(world.requested[head]))
    holding_then = sum(int(given_to[i]) for i in range(len(world)) if given_to[i] and seconds[i] > starts_at)
    assert holding_then + world.requested[head] <= capacity


def _earliest(ahead: list[int], given_to: np.ndarray, seconds: np.ndarray, capacity: int, wanted: int) -> float:
    """When the first in line could start if only those before it ran."""
    for at in sorted(seconds[i] for i in ahead):
        if capacity - sum(int(given_to[i]) for i in ahead if seconds[i] > at) >= wanted:
            return float(at)
    raise AssertionError("every demand fits an empty cluster")


def test_the_first_in_line_starts_when_it_was_reserved_to() -> None:
    machine = scheduler()
    machine.handle(JobSubmitted(0.0, job("a", 200.0, requested=2)))
    machine.handle(JobSubmitted(10.0, job("head", 100.0, requested=4)))
    assert grants(machine.handle(JobSubmitted(20.0, job("filler", 80.0, requested=1)))) == {"filler": (2,)}
    assert grants(machine.handle(JobSubmitted(21.0, job("too-long", 80.0, requested=1)))) == {}
    said = machine.handle(JobFinished(100.0, "a"), JobFinished(100.0, "filler"))
    assert grants(said) == {"head": (0, 1, 2, 3)}
