"""The scheduler's state as versioned plain data, and back, bit for bit.

The data says what is the case (jobs, who holds what, columns of numbers), not how it is kept in memory, so a later
version can read it. Numbers that follow from others (widths worth using, free devices per node) are derived again.
"""

import math
from collections.abc import Mapping
from typing import Any

from penstock.core import Cluster, CodecError, EventError, InputError, Job, Node, Quote, build, plain
from penstock.placement import slots_of
from penstock.policies import Floats, Ints
from penstock.scheduler.pool import Pool
from penstock.scheduler.recording import steps_of
from penstock.scheduler.records import JobState, Record, Service
from penstock.scheduler.state import State
from penstock.scheduler.story import Entry, Story

VERSION = 1
"""Of the data; a version reads what the versions before it wrote."""

_COLUMNS = (
    "standing", "remaining", "width", "rate", "resumes_at", "as_of", "finish_at", "executed", "attained",
    "stint_since", "waited_before", "unsaved_s", "progressed", "corrected", "trained_at", "sized_for",
)  # fmt: skip
"""What cannot be derived from the job."""


def to_data(state: State) -> dict[str, Any]:
    """Everything that the state is made of, once its outbox is empty. O(jobs + nodes)."""
    if state.outbox:
        raise EventError(f"{len(state.outbox)} instructions wait to be collected; collect them first")
    return {
        "version": VERSION,
        "now": plain(state.now),
        "slot": state.slot,
        "stories": state.stories,
        "promises_bind": state.promises_bind,
        "sequence": state.sequence,
        "nodes": [plain(node) for node in state.cluster.nodes],
        "retired": sorted(state.cluster.retired),
        "down": sorted(state.down),
        "broken": list(state.broken),
        "records": [_record(record) for record in state.records.values()],
        "pools": [_pool(pool) for pool in state.pools.values()],
    }


def from_data(data: Mapping[str, Any]) -> State:
    """The state that :func:`to_data` was given."""
    if data.get("version") != VERSION:
        raise CodecError(f"state of version {data.get('version')!r}; this version of Penstock reads {VERSION}")
    try:
        return _build_state(data)
    except (KeyError, TypeError, ValueError, IndexError, InputError) as error:
        raise CodecError(f"not the state of a scheduler: {error!r}") from error


def _build_state(data: Mapping[str, Any]) -> State:
    nodes = tuple(build(Node, node) for node in data["nodes"])
    cluster = Cluster(nodes, frozenset(data["retired"]))
    state = State(cluster, data["slot"], stories=data["stories"], promises_bind=data["promises_bind"])
    state.now = float(data["now"])
    state.sequence = data["sequence"]
    state.down = set(data["down"])
    state.broken = list(data["broken"])
    records = [_build_record(each) for each in data["records"]]
    state.records = {record.job.id: record for record in records}
    by_key = {record.key: record for record in records}
    state.pools = {each["kind"]: _build_pool(each, state, by_key) for each in data["pools"]}
    return state


def _record(record: Record) -> dict[str, Any]:
    return {
        "job": plain(record.job),
        "key": record.key,
        "kind": record.kind,
        "state": record.state.value,
        "quote": plain(record.quote),
        "has_run": record.has_run,
        "excuse": record.excuse,
        "paused": plain(record.paused),
        "story": None if record.story is None else [[entry.at, entry.text] for entry in record.story.entries],
    }


def _build_record(data: Mapping[str, Any]) -> Record:
    job = build(Job, data["job"])
    told = data["story"]
    return Record(
        job, data["key"], data["kind"], JobState(data["state"]),
        None if data["quote"] is None else build(Quote, data["quote"]), data["has_run"], data["excuse"],
        None if data["paused"] is None else build(Service, data["paused"]),
        None if told is None else Story(job.id, [Entry(at, text) for at, text in told]),
    )  # fmt: skip


def _pool(pool: Pool) -> dict[str, Any]:
    table, used = pool.table, slice(len(pool.table))
    holders, positions = pool.occupancy.keys(), range(len(pool.occupancy.size_per_node))
    return {
        "kind": pool.kind,
        "size": pool.size,
        "dirty": pool.dirty,
        "last_round": plain(pool.last_round),
        "wake_at": plain(pool.wake_at),
        "interval": pool.interval,
        "keys": table.sequence[used].tolist(),
        "columns": {name: _numbers(getattr(table, name)[used]) for name in _COLUMNS},
        "plans": [plain(steps_of(table.plan_at[row], table.plan_width[row])) for row in range(len(table))],
        "devices": {str(key): list(pool.occupancy.devices(key)) for key in holders},
        "failed_devices": {str(at): mask for at in positions if (mask := pool.occupancy.broken(at))},
    }


def _numbers(column: Floats | Ints) -> list[float | int | str]:
    return [value if math.isfinite(value) else str(value) for value in column.tolist()]


def _build_pool(data: Mapping[str, Any], state: State, records: Mapping[int, Record]) -> Pool:
    pool = Pool(state.cluster, data["kind"], state.slot)
    pool.size, pool.dirty = data["size"], data["dirty"]
    pool.last_round, pool.wake_at, pool.interval = float(data["last_round"]), float(data["wake_at"]), data["interval"]
    _fill_table(pool, data, [records[key] for key in data["keys"]])
    _fill_occupancy(pool, data, state)
    return pool


def _fill_table(pool: Pool, data: Mapping[str, Any], records: list[Record]) -> None:
    table, columns = pool.table, data["columns"]
    for record, sized_for in zip(records, columns["sized_for"], strict=True):
        pool.records[record.key] = record
        table.add(record.job, record.key, 0.0, sized_for)
    for name in _COLUMNS:
        column = getattr(table, name)
        column[: len(records)] = [column.dtype.type(value) for value in columns[name]]
    for row, steps in enumerate(data["plans"]):
        for step, (at, width) in enumerate(steps):
            table.plan_at[row, step], table.plan_width[row, step] = float(at), width


def _fill_occupancy(pool: Pool, data: Mapping[str, Any], state: State) -> None:
    for position, node in state.cluster.present():
        if node.kind == pool.kind and node.name in state.down:
            pool.occupancy.lose_node(position)
    for position, mask in data["failed_devices"].items():
        for slot in slots_of(mask):
            pool.occupancy.lose_device(int(position), slot)
    for key, devices in data["devices"].items():
        pool.occupancy.take(int(key), devices)
