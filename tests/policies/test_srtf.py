"""Shortest remaining time first."""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core import JobFinished, JobSubmitted
from penstock.policies import KindView, policy_named
from tests.policies.views import Row, view
from tests.scheduler.build import job, scheduler


def widths(world: KindView) -> list[int]:
    return policy_named("srtf").allocate(world).widths.tolist()


def test_remaining_time_at_the_requested_width_decides() -> None:
    wide, narrow = Row(work=300.0, requested=4), Row(work=100.0, requested=1)
    assert widths(view(wide, narrow)) == [4, 0], "75 s on four beat 100 s on one"


def test_in_order_of_device_time_a_wide_gang_counts_by_its_width() -> None:
    wide, narrow = Row(work=300.0, requested=4), Row(work=100.0, requested=1)
    by_device_time = policy_named("srtf:order=device-time")
    assert by_device_time.allocate(view(wide, narrow)).widths.tolist() == [0, 1], "100 device-seconds beat 4 x 75"


def test_what_is_left_counts_not_what_there_was() -> None:
    assert widths(view(Row(work=1000.0, left=10.0, requested=4), Row(work=80.0, requested=4))) == [4, 0]


def test_equal_jobs_go_by_arrival() -> None:
    assert widths(view(Row(requested=4), Row(requested=4))) == [4, 0]


def test_a_job_that_does_not_fit_is_overtaken_by_the_next_that_does() -> None:
    assert widths(view(Row(work=10.0, requested=3), Row(work=80.0, requested=4), Row(work=50.0, requested=1))) == [
        3,
        0,
        1,
    ]


def test_long_jobs_are_preempted() -> None:
    machine = scheduler(policy="srtf")
    machine.handle(JobSubmitted(0.0, job("long", 400.0, requested=4)))
    machine.handle(JobSubmitted(10.0, job("short", 40.0, requested=4, submitted_at=10.0)))
    assert (machine.devices_of("long"), len(machine.devices_of("short"))) == ((), 4)
    machine.handle(JobFinished(20.0, "short"))
    assert machine.next_finish_at() == 20 + 360 / 4


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(1.0, 1e4), min_size=1, max_size=12))
def test_no_waiting_job_of_equal_width_is_shorter_than_one_that_runs(seconds: list[float]) -> None:
    given_to = widths(view(*(Row(work=work) for work in seconds)))
    running = [work for work, width in zip(seconds, given_to, strict=True) if width]
    waiting = [work for work, width in zip(seconds, given_to, strict=True) if not width]
    assert len(running) == min(4, len(seconds))
    assert not waiting or max(running) <= min(waiting)
