"""``validate`` notices every kind of damage: each test breaks one thing by hand."""

from collections.abc import Callable

import pytest

from penstock.core import Deadline, InvariantError, JobSubmitted
from penstock.policies import Standing
from penstock.scheduler import JobState, Scheduler
from penstock.scheduler.holdings import Holdings
from tests.scheduler.build import job, scheduler


@pytest.fixture
def machine() -> Scheduler:
    """At time 0 "a" (row 0) runs on two of four devices and "b" (row 1) waits for all four."""
    machine = scheduler()
    machine.handle(JobSubmitted(0.0, job("a", requested=2)), JobSubmitted(0.0, job("b", requested=4)))
    machine.validate()
    return machine


def _forget_record(holdings: Holdings) -> None:
    del holdings.records[1]


def _swap_rows(holdings: Holdings) -> None:
    holdings.table.jobs.reverse()


def _renumber(holdings: Holdings) -> None:
    holdings.table.sequence[0] = 7


def _widen(holdings: Holdings) -> None:
    holdings.table.width[0] = 3


def _grant_without_devices(holdings: Holdings) -> None:
    holdings.table.width[1] = 4


def _stand_still(holdings: Holdings) -> None:
    holdings.table.rate[0] = 0.0


def _run_without_devices(holdings: Holdings) -> None:
    holdings.table.rate[1] = 4.0


def _ghost(holdings: Holdings) -> None:
    holdings.kinds["gpu"].occupancy.take(99, (3,))


def _idle_while_holding(holdings: Holdings) -> None:
    holdings.records[0].state = JobState.PENDING


def _run_without_holding(holdings: Holdings) -> None:
    holdings.records[1].state = JobState.RUNNING


def _finished_but_here(holdings: Holdings) -> None:
    holdings.records[1].state = JobState.FINISHED


def _lose_work(holdings: Holdings) -> None:
    holdings.table.remaining[0] -= 10.0


def _miscount_devices(holdings: Holdings) -> None:
    holdings.kinds["gpu"].occupancy.free_per_node[0] += 1


def _take_twice(holdings: Holdings) -> None:
    holdings.kinds["gpu"].occupancy._devices[1] = holdings.kinds["gpu"].occupancy.devices(0)


def _promise_the_impossible(holdings: Holdings) -> None:
    holdings.table.standing[1] = Standing.PROMISED
    holdings.records[1].job = holdings.table.jobs[1] = job("b", goal=Deadline(1.0))


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (_forget_record, "rows, keys and records do not correspond"),
        (_swap_rows, "row 0 does not belong to job 'a'"),
        (_renumber, "row 0 does not belong to job 'a'"),
        (_widen, "job 'a' is granted 3 devices but holds 2"),
        (_grant_without_devices, "job 'b' is granted 4 devices but holds 0"),
        (_stand_still, r"job 'a' runs at 0.0/s on 2 devices"),
        (_run_without_devices, r"job 'b' runs at 4.0/s on 0 devices"),
        (_ghost, "devices are held by jobs that are gone"),
        (_idle_while_holding, "job 'a' is pending with 2 devices"),
        (_run_without_holding, "job 'b' is running with 0 devices"),
        (_finished_but_here, "job 'b' is finished with 0 devices"),
        (_lose_work, "10 iterations of job 'a' are unaccounted for"),
        (_miscount_devices, "the totals are not the sums over the nodes"),
        (_take_twice, "a device is held twice"),
        (_promise_the_impossible, "the promised deadline of job 'b' can no longer be met"),
    ],
)
def test_damage_is_noticed(machine: Scheduler, break_it: Callable[[Holdings], None], message: str) -> None:
    break_it(machine._state.holdings)
    with pytest.raises(InvariantError, match=message):
        machine.validate()
