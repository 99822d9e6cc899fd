"""The scheduler's state as versioned plain data, and back, bit for bit.

The data says what is the case (jobs, who holds what, columns of numbers), not how it is kept in memory, so a later
version can read it. Numbers that follow from others (widths worth using, free devices per node) are derived again.
"""

import math
from collections.abc import Mapping
from typing import Any

from penstock.core import Cluster, CodecError, EventError, InputError, Job, Node, Quote, Tenant, build, plain
from penstock.placement import slots_of
from penstock.policies import Floats, Ints, Offer
from penstock.scheduler.arrivals import Arrivals
from penstock.scheduler.holdings import Holdings
from penstock.scheduler.kinds import KindState
from penstock.scheduler.recording import steps_of
from penstock.scheduler.records import JobState, Record, Service
from penstock.scheduler.state import State
from penstock.scheduler.story import Entry, Story
from penstock.scheduler.table import JobTable
from penstock.tools import settled

VERSION = 1
"""Of the data; a version reads what the versions before it wrote."""

_COLUMNS = (
    "standing", "remaining", "width", "rate", "resumes_at", "as_of", "finish_at", "executed", "attained",
    "stint_since", "waited_before", "unsaved_s", "progressed", "corrected", "trained_at", "deserved",
    "allowance", "waited_s", "suspensions",
)  # fmt: skip
"""What cannot be derived from the job."""


def to_data(state: State) -> dict[str, Any]:
    """Everything that the state is made of, once its outbox is empty. O(jobs + nodes)."""
    return settled(still_data(state))


def still_data(state: State) -> dict[str, Any]:
    """The same with an iterator for what there is one of for each job: what comes out of it is as it is now, whatever
    happens to the state meanwhile, and is made only when it is asked for."""
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
        "closed": {str(position): mask for position, mask in state.holdings.closed.items()},
        "retired_devices": {str(position): mask for position, mask in state.holdings.retired.items()},
        "broken": list(state.broken),
        "records": map(_record, [_still_record(record) for record in state.records.values()]),
        "kinds": [_kind(kind) for kind in state.holdings.kinds.values()],
        "tenants": [
            {"tenant": plain(tenant), "past": past, "removed": tenant.name in state.holdings.tenants.removed}
            for tenant, past in zip(state.holdings.tenants.known, state.holdings.tenants.past, strict=True)
        ],
        "arrivals": state.holdings.arrivals.to_data(),
        "offers": [{"job": plain(offer.job), "quote": plain(offer.quote)} for offer in state.holdings.offers],
        "fairness": state.holdings.tenants.account.to_data(),
        "table": _table(state.holdings),
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
    _fill_kinds(state, data["kinds"])
    holdings = state.holdings
    holdings.closed = {int(position): mask for position, mask in data.get("closed", {}).items()}
    holdings.retired = {int(position): mask for position, mask in data.get("retired_devices", {}).items()}
    for each in data["tenants"]:
        tenant = build(Tenant, each["tenant"])
        state.holdings.tenants.restore(tenant, each["past"], removed=each.get("removed", False))
    if "arrivals" in data:
        state.holdings.arrivals = Arrivals.from_data(data["arrivals"])
    state.holdings.offers = [
        Offer(build(Job, each["job"]), build(Quote, each["quote"])) for each in data.get("offers", ())
    ]
    if "fairness" in data:
        state.holdings.tenants.account.restore(data["fairness"])
    _fill_table(state.holdings, data["table"], {record.key: record for record in records})
    return state


def _still_record(record: Record) -> Record:
    still = record.copy()
    if record.story is not None:
        still.story = Story(record.story.job_id, record.story.entries.copy())
    return still


def _record(record: Record) -> dict[str, Any]:
    return {
        "job": plain(record.job),
        "key": record.key,
        "kind": record.kind,
        "state": record.state.value,
        "quote": plain(record.quote),
        "has_run": record.has_run,
        "excuse": record.excuse,
        "ended_lease": record.ended_lease,
        "paused": plain(record.paused),
        "amended": record.amended,
        "story": None if record.story is None else [[entry.at, entry.text] for entry in record.story.entries],
    }


def _build_record(data: Mapping[str, Any]) -> Record:
    job = build(Job, data["job"])
    told = data["story"]
    return Record(
        job, data["key"], data["kind"], JobState(data["state"]),
        None if data["quote"] is None else build(Quote, data["quote"]), data["has_run"], data["excuse"],
        data.get("ended_lease", ""),
        None if data["paused"] is None else build(Service, data["paused"]),
        data.get("amended", False),
        None if told is None else Story(job.id, [Entry(at, text) for at, text in told]),
    )  # fmt: skip


def _kind(state: KindState) -> dict[str, Any]:
    occupancy = state.occupancy
    holders, positions = occupancy.keys(), range(len(occupancy.size_per_node))
    return {
        "kind": state.kind,
        "size": state.size,
        "dirty": state.dirty,
        "last_round": plain(state.last_round),
        "wake_at": plain(state.wake_at),
        "interval": state.interval,
        "until": {str(position): until for position, until in state.until.items()},
        "devices": {str(key): list(occupancy.devices(key)) for key in holders},
        "failed_devices": {str(at): mask for at in positions if (mask := occupancy.broken(at))},
    }


def _table(holdings: Holdings) -> dict[str, Any]:
    table, used = holdings.table, slice(len(holdings.table))
    return {
        "keys": table.sequence[used].tolist(),
        "columns": {name: _numbers(getattr(table, name)[used]) for name in _COLUMNS},
        "sized_for": [options.sized_for[used].tolist() for options in table.options],
        "plans": map(_steps, table.plan_at[used].copy(), table.plan_width[used].copy()),
        "plan_kinds": table.plan_kind[used].tolist(),
    }


def _steps(at: Floats, width: Ints) -> Any:
    return plain(steps_of(at, width))


def _numbers(column: Floats | Ints) -> list[float | int | str]:
    return [value if math.isfinite(value) else str(value) for value in column.tolist()]


def _fill_kinds(state: State, data: list[Mapping[str, Any]]) -> None:
    """Kinds in their order: positions in the table are positions in it, also of kinds that are gone."""
    holdings = state.holdings = Holdings(state.cluster, state.slot)
    holdings.kinds = {each["kind"]: KindState(state.cluster, each["kind"], state.slot) for each in data}
    holdings.table = JobTable(tuple(holdings.kinds))
    for each in data:
        kind = holdings.kinds[each["kind"]]
        kind.size, kind.dirty, kind.interval = each["size"], each["dirty"], each["interval"]
        kind.last_round, kind.wake_at = float(each["last_round"]), float(each["wake_at"])
        kind.until = {int(position): until for position, until in each["until"].items()}
        _fill_occupancy(kind, each, state)


def _fill_occupancy(kind: KindState, data: Mapping[str, Any], state: State) -> None:
    for position, node in state.cluster.present():
        if node.kind == kind.kind and node.name in state.down:
            kind.occupancy.lose_node(position)
    for position, mask in data["failed_devices"].items():
        for slot in slots_of(mask):
            kind.occupancy.lose_device(int(position), slot)
    for key, devices in data["devices"].items():
        kind.occupancy.take(int(key), devices)


def _fill_table(holdings: Holdings, data: Mapping[str, Any], records: Mapping[int, Record]) -> None:
    table = holdings.table
    for record, sizes in zip((records[key] for key in data["keys"]), zip(*data["sized_for"], strict=True), strict=True):
        holdings.records[record.key] = record
        holdings.confine(record)
        bound, tenant = holdings.position(record.kind), holdings.tenants.position(record.job.tenant)
        row = table.add(record.job, record.key, 0.0, bound=bound, tenant=tenant, sizes=sizes)
        table.priority[row] = holdings.tenants.priority(tenant, record.job.priority)
    for name in data["columns"].keys() & set(_COLUMNS):
        column = getattr(table, name)
        column[: len(table)] = [column.dtype.type(value) for value in data["columns"][name]]
    for row in range(len(table)):
        holdings.count_row(row)
    for row, steps in enumerate(data["plans"]):
        for step, (at, width) in enumerate(steps):
            table.plan_at[row, step], table.plan_width[row, step] = float(at), width
    table.plan_kind[: len(table)] = data.get("plan_kinds", table.bound[: len(table)])
