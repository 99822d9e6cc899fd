"""What must be true of the scheduler's state after every event."""

import numpy as np

from penstock.core import InvariantError
from penstock.policies import Standing
from penstock.scheduler.pool import Pool
from penstock.scheduler.records import FINAL, JobState

_RELATIVE = 1e-6


def check_pool(pool: Pool, now: float, *, promises_bind: bool) -> None:
    """Raise :class:`InvariantError` with the first contradiction found."""
    pool.occupancy.validate()
    _check_rows(pool)
    _check_grants(pool)
    _check_states(pool)
    _check_work(pool)
    if promises_bind:
        _check_promises(pool, now)


def _check_rows(pool: Pool) -> None:
    table = pool.table
    if sorted(table.row_of.values()) != list(range(len(table))) or set(table.row_of) != set(pool.records):
        raise InvariantError("rows, keys and records do not correspond")
    for key, row in table.row_of.items():
        if table.jobs[row] is not pool.records[key].job or int(table.sequence[row]) != key:
            raise InvariantError(f"row {row} does not belong to job {pool.records[key].job.id!r}")


def _check_grants(pool: Pool) -> None:
    """Nobody holds a device that is not there, and every gang is whole or absent."""
    table = pool.table
    for key, row in table.row_of.items():
        held, width = len(pool.occupancy.devices(key)), int(table.width[row])
        if held != width:
            raise InvariantError(f"job {table.jobs[row].id!r} is granted {width} devices but holds {held}")
        if (table.rate[row] > 0) != (width > 0):
            raise InvariantError(f"job {table.jobs[row].id!r} runs at {table.rate[row]}/s on {width} devices")
    if set(pool.occupancy.keys()) - set(table.row_of):
        raise InvariantError("devices are held by jobs that are gone")
    if int(table.width[: len(table)].sum()) > pool.occupancy.capacity:
        raise InvariantError("more devices are granted than work")


def _check_states(pool: Pool) -> None:
    """Running jobs hold devices and others do not; only one that still asks may do either."""
    for key, row in pool.table.row_of.items():
        record, width = pool.records[key], int(pool.table.width[row])
        fits = record.state is JobState.ASKING or (record.state is JobState.RUNNING) == (width > 0)
        if record.state in FINAL or not fits:
            raise InvariantError(f"job {record.job.id!r} is {record.state} with {width} devices")


def _check_work(pool: Pool) -> None:
    """What was asked for = what is left + what was done, but for reported corrections."""
    table, count = pool.table, len(pool.table)
    asked = np.array([job.work.iterations for job in table.jobs])
    balance = asked - table.remaining[:count] - table.progressed[:count] + table.corrected[:count]
    wrong = np.abs(balance) > _RELATIVE * np.maximum(asked, 1.0)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InvariantError(f"{balance[row]:g} iterations of job {table.jobs[row].id!r} are unaccounted for")


def _check_promises(pool: Pool, now: float) -> None:
    """A promised hard deadline stays reachable unless something outside the policy intervened."""
    table = pool.table
    for key, row in table.row_of.items():
        record = pool.records[key]
        if table.standing[row] != Standing.PROMISED or record.excuse:
            continue
        fastest = float(table.rates[row, table.depth[row] - 1])
        if now + table.remaining_at(row, now, now) / fastest > record.job.deadline * (1 + 1e-12) + 1e-3:
            raise InvariantError(f"the promised deadline of job {record.job.id!r} can no longer be met")
