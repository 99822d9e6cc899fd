"""What must be true of the scheduler's state after every event."""

import numpy as np

from penstock.core import InvariantError
from penstock.policies import Standing
from penstock.scheduler.holdings import Holdings
from penstock.scheduler.records import JobState

_RELATIVE = 1e-6


def check_holdings(holdings: Holdings, now: float, *, promises_bind: bool) -> None:
    """Raise :class:`InvariantError` with the first contradiction found."""
    for state in holdings.kinds.values():
        state.occupancy.validate()
    _check_rows(holdings)
    _check_grants(holdings)
    _check_places(holdings)
    _check_states(holdings)
    _check_work(holdings)
    if promises_bind:
        _check_promises(holdings, now)


def _check_rows(holdings: Holdings) -> None:
    table = holdings.table
    if sorted(table.row_of.values()) != list(range(len(table))) or set(table.row_of) != set(holdings.records):
        raise InvariantError("rows, keys and records do not correspond")
    for key, row in table.row_of.items():
        record = holdings.records[key]
        fits = table.jobs[row] is record.job and int(table.sequence[row]) == key
        if not fits or int(table.bound[row]) != holdings.position(record.kind):
            raise InvariantError(f"row {row} does not belong to job {holdings.records[key].job.id!r}")


def _check_grants(holdings: Holdings) -> None:
    """Nobody holds a device that is not there, and every gang is whole or absent."""
    table = holdings.table
    for key, row in table.row_of.items():
        held, width = len(holdings.devices(holdings.records[key])), int(table.width[row])
        if held != width:
            raise InvariantError(f"job {table.jobs[row].id!r} is granted {width} devices but holds {held}")
        if (table.rate[row] > 0) != (width > 0):
            raise InvariantError(f"job {table.jobs[row].id!r} runs at {table.rate[row]}/s on {width} devices")
    for kind, state in holdings.kinds.items():
        holders = set(state.occupancy.keys())
        if holders - set(table.row_of):
            raise InvariantError("devices are held by jobs that are gone")
        if any(holdings.records[key].kind != kind for key in holders):
            raise InvariantError(f"{kind} devices are held by jobs bound to another kind")
        if sum(int(table.width[table.row_of[key]]) for key in holders) > state.occupancy.capacity:
            raise InvariantError("more devices are granted than work")


def _check_places(holdings: Holdings) -> None:
    """A job that may run on certain nodes only holds no device of any other."""
    cluster = holdings.cluster
    for key, choice in holdings.confined.items():
        record = holdings.records[key]
        for device in holdings.devices(record):
            node = cluster.nodes[cluster.node_of(device)]
            if not choice.allows(node.name):
                raise InvariantError(f"job {record.job.id!r} runs {choice}, but holds device {device} of {node.name}")


def _check_states(holdings: Holdings) -> None:
    """Running jobs hold devices and others do not; only one that still asks may do either. Others have no row."""
    for key, row in holdings.table.row_of.items():
        record, width = holdings.records[key], int(holdings.table.width[row])
        fits = record.state is JobState.ASKING or (record.state is JobState.RUNNING) == (width > 0)
        if not record.has_row or not fits:
            raise InvariantError(f"job {record.job.id!r} is {record.state} with {width} devices")


def _check_work(holdings: Holdings) -> None:
    """What was asked for = what is left + what was done, but for reported corrections."""
    table, count = holdings.table, len(holdings.table)
    asked = np.array([job.work.iterations for job in table.jobs])
    balance = asked - table.remaining[:count] - table.progressed[:count] + table.corrected[:count]
    wrong = np.abs(balance) > _RELATIVE * np.maximum(asked, 1.0)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InvariantError(f"{balance[row]:g} iterations of job {table.jobs[row].id!r} are unaccounted for")


def _check_promises(holdings: Holdings, now: float) -> None:
    """A promised hard deadline stays reachable unless something outside the policy intervened."""
    table = holdings.table
    for key, row in table.row_of.items():
        record = holdings.records[key]
        if table.standing[row] != Standing.PROMISED or record.excuse:
            continue
        if now + table.remaining_at(row, now, now) / table.top_rate(row) > record.job.deadline * (1 + 1e-12) + 1e-3:
            raise InvariantError(f"the promised deadline of job {record.job.id!r} can no longer be met")
