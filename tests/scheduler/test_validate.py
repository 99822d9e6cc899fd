"""``validate`` notices every kind of damage: each test breaks one thing by hand."""

from collections.abc import Callable

import pytest

from penstock.core import Deadline, InvariantError, JobSubmitted
from penstock.policies import Standing
from penstock.scheduler import JobState, Scheduler
from penstock.scheduler.pool import Pool
from tests.scheduler.build import job, scheduler


@pytest.fixture
def machine() -> Scheduler:
    """At time 0 "a" (row 0) runs on two of four devices and "b" (row 1) waits for all four."""
    machine = scheduler()
    machine.handle(JobSubmitted(0.0, job("a", requested=2)), JobSubmitted(0.0, job("b", requested=4)))
    machine.validate()
    return machine


def _forget_record(pool: Pool) -> None:
    del pool.records[1]


def _swap_rows(pool: Pool) -> None:
    pool.table.jobs.reverse()


def _renumber(pool: Pool) -> None:
    pool.table.sequence[0] = 7


def _widen(pool: Pool) -> None:
    pool.table.width[0] = 3


def _grant_without_devices(pool: Pool) -> None:
    pool.table.width[1] = 4


def _stand_still(pool: Pool) -> None:
    pool.table.rate[0] = 0.0


def _run_without_devices(pool: Pool) -> None:
    pool.table.rate[1] = 4.0


def _ghost(pool: Pool) -> None:
    pool.occupancy.take(99, (3,))


def _idle_while_holding(pool: Pool) -> None:
    pool.records[0].state = JobState.PENDING


def _run_without_holding(pool: Pool) -> None:
    pool.records[1].state = JobState.RUNNING


def _finished_but_here(pool: Pool) -> None:
    pool.records[1].state = JobState.FINISHED


def _lose_work(pool: Pool) -> None:
    pool.table.remaining[0] -= 10.0


def _miscount_devices(pool: Pool) -> None:
    pool.occupancy.free_per_node[0] += 1


def _take_twice(pool: Pool) -> None:
    pool.occupancy._devices[1] = pool.occupancy.devices(0)


def _promise_the_impossible(pool: Pool) -> None:
    pool.table.standing[1] = Standing.PROMISED
    pool.records[1].job = pool.table.jobs[1] = job("b", goal=Deadline(1.0))


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
def test_damage_is_noticed(machine: Scheduler, break_it: Callable[[Pool], None], message: str) -> None:
    break_it(machine._state.pools["gpu"])
    with pytest.raises(InvariantError, match=message):
        machine.validate()
