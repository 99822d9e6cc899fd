"""Nodes and devices that come, go and come back different: what that does to the jobs on them.

Device indices never change their meaning: new devices get new indices, and lost ones keep theirs in case they return.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.core import (
    DeviceLost,
    DeviceRestored,
    EventError,
    Node,
    NodeChanged,
    NodeClosed,
    NodeDraining,
    NodeJoined,
    NodeLost,
    Suspend,
)
from penstock.placement import slots_of
from penstock.scheduler.kinds import KindState

if TYPE_CHECKING:
    from penstock.scheduler.state import State


def _on_lost(state: "State", event: NodeLost) -> None:
    position = _position(state, event.node)
    if event.node not in state.down:
        if _is_closed(state, position):
            _open(state, position)
        state.down.add(event.node)
        is_known = event.at >= state.holdings.kinds[state.cluster.nodes[position].kind].gone_at(position)
        why = f"the lease of {event.node} ended" if is_known else event.why or f"{event.node} was lost"
        _vacate(state, position, why, event.at, is_known=is_known)


def _on_closed(state: "State", event: NodeClosed) -> None:
    """Free devices go out of use at once, the others when their jobs end."""
    position = _position(state, event.node)
    node, closed = state.cluster.nodes[position], state.holdings.closed.get(position, 0)
    mask = sum(1 << slot for slot in set(event.slots)) & _whole(node) if event.slots else _whole(node)
    if event.node in state.down or not mask & ~closed:
        return
    kind, why = state.holdings.kinds[node.kind], event.why or f"{event.node} is closed"
    for key, held in sorted(kind.occupancy.holders(position).items()):
        record = state.holdings.records[key]
        if not held & mask & ~closed:
            continue
        if record.job.resumable:
            state.holdings.let_go(record, event.at)
            state.outbox.append(Suspend(record.job.id, f"{why}; it saves its state and leaves"))
            record.tell(event.at, f"{why}; it saves its state and leaves")
        else:
            record.tell(event.at, f"{why}; it cannot resume, so it stays there until it ends")
    state.holdings.closed[position] = closed | mask
    state.excuse(kind.kind, why)
    kind.dirty = True


def retire_closed(state: "State") -> None:
    """Take closed devices that became free out of use; a node that is closed and empty is down."""
    holdings = state.holdings
    for position, mask in list(holdings.closed.items()):
        node = state.cluster.nodes[position]
        occupancy = holdings.kinds[node.kind].occupancy
        for slot in slots_of(occupancy.mask(position) & mask):
            occupancy.lose_device(position, slot)
            holdings.retired[position] = holdings.retired.get(position, 0) | 1 << slot
        if mask == _whole(node) and not occupancy.holders(position):
            _open(state, position)
            state.down.add(node.name)
            occupancy.lose_node(position)


def _open(state: "State", position: int) -> None:
    """Forget that a node is closed; its devices that were taken out of use for that work again."""
    occupancy = state.holdings.kinds[state.cluster.nodes[position].kind].occupancy
    state.holdings.closed.pop(position, None)
    for slot in slots_of(state.holdings.retired.pop(position, 0)):
        occupancy.restore_device(position, slot)


def _open_device(state: "State", position: int, slot: int) -> None:
    """The same for one device, of which something else is known now."""
    for masks in (state.holdings.closed, state.holdings.retired):
        if position in masks and masks[position] & 1 << slot:
            masks[position] &= ~(1 << slot)


def _is_closed(state: "State", position: int) -> bool:
    return state.holdings.closed.get(position) == _whole(state.cluster.nodes[position])


def _whole(node: Node) -> int:
    return (1 << node.device_count) - 1


def _on_joined(state: "State", event: NodeJoined) -> None:
    position = state.cluster.position(event.node.name)
    if position is None:
        _append(state, event.node, event.until)
        return
    if state.cluster.nodes[position] != event.node:
        raise EventError(f"node {event.node.name!r} came back different from what it was")
    kind = state.holdings.kinds[event.node.kind]
    _stays_until(kind, position, event.until)
    if _is_closed(state, position):
        _open(state, position)
        kind.dirty = True
    if event.node.name in state.down:
        state.down.discard(event.node.name)
        kind.occupancy.restore_node(position)
        kind.dirty = True


def _on_draining(state: "State", event: NodeDraining) -> None:
    position = _position(state, event.node)
    kind = state.holdings.kinds[state.cluster.nodes[position].kind]
    _stays_until(kind, position, event.until)
    state.excuse(kind.kind, f"{event.node} is drained")


def _on_changed(state: "State", event: NodeChanged) -> None:
    position = state.cluster.position(event.node.name)
    if position is None:
        _append(state, event.node)
        return
    before, is_closed = state.cluster.nodes[position], _is_closed(state, position)
    if (before.device_count, before.kind) == (event.node.device_count, event.node.kind):
        state.cluster = state.cluster.relabelled(position, event.node)
        if not is_closed:
            _on_joined(state, NodeJoined(event.at, event.node))
        return
    kept = _taken_off(state, position, event.node) if event.keeps and event.node.name not in state.down else {}
    state.holdings.closed.pop(position, None)
    state.holdings.retired.pop(position, None)
    _vacate(state, position, f"{event.node.name} came back with other devices", event.at)
    state.down.discard(event.node.name)
    state.cluster = state.cluster.without(position)
    state.holdings.kinds[before.kind].until.pop(position, None)
    state.holdings.resize(before.kind, state.cluster.capacity(before.kind))
    _append(state, event.node)
    here, occupancy = len(state.cluster.nodes) - 1, state.holdings.kinds[event.node.kind].occupancy
    for key, parts in kept.items():
        occupancy.assign(key, {here if node == position else node: mask for node, mask in parts.items()})
    if is_closed:
        state.holdings.closed[here] = _whole(event.node)


def _taken_off(state: "State", position: int, node: Node) -> dict[int, dict[int, int]]:
    """What jobs hold that need nothing of a node but devices that it still has; they are put back afterwards."""
    if state.cluster.nodes[position].kind != node.kind:
        return {}
    occupancy = state.holdings.kinds[node.kind].occupancy
    keys = [key for key, held in occupancy.holders(position).items() if not held & ~_whole(node)]
    kept = {key: dict(occupancy.parts(key)) for key in keys}
    for key in keys:
        occupancy.release(key)
    return kept


def _on_device_lost(state: "State", event: DeviceLost) -> None:
    position, kind = _device(state, event.node, event.slot)
    _open_device(state, position, event.slot)
    if kind.occupancy.broken(position) >> event.slot & 1:
        return
    why = f"device {event.slot} of {event.node} was lost"
    key = kind.occupancy.lose_device(position, event.slot)
    if key is not None:
        state.stop_gang(state.holdings.records[key], event.at, why)
    state.excuse(kind.kind, why)
    kind.dirty = True


def _on_device_restored(state: "State", event: DeviceRestored) -> None:
    position, kind = _device(state, event.node, event.slot)
    _open_device(state, position, event.slot)
    kind.occupancy.restore_device(position, event.slot)
    kind.dirty = True


def _vacate(state: "State", position: int, why: str, at: float, *, is_known: bool = False) -> None:
    """Every gang with a device on this node stops; an end that was known to come excuses no promise."""
    kind = state.holdings.kinds[state.cluster.nodes[position].kind]
    for key in kind.occupancy.lose_node(position):
        record = state.holdings.records[key]
        state.stop_gang(record, at, why)
        if is_known:
            record.ended_lease = record.ended_lease or why
    if not is_known:
        state.excuse(kind.kind, why)
    kind.dirty = True


def _append(state: "State", node: Node, until: float = math.inf) -> None:
    state.cluster = state.cluster.with_node(node)
    for known in state.holdings.kinds.values():
        known.occupancy.add_node(state.cluster)
    if node.kind in state.holdings.kinds:
        state.holdings.resize(node.kind, state.cluster.capacity(node.kind))
    else:
        state.holdings.add_kind(state.cluster, node.kind, state.slot)
    _stays_until(state.holdings.kinds[node.kind], len(state.cluster.nodes) - 1, until)


def _stays_until(kind: KindState, position: int, until: float) -> None:
    """Until when a node is known to be there; policies that plan ahead want to know."""
    if kind.until.get(position, math.inf) == until:
        return
    kind.until[position] = until
    if math.isinf(until):
        del kind.until[position]
    kind.dirty = True


def _device(state: "State", node: str, slot: int) -> tuple[int, KindState]:
    position = _position(state, node)
    known = state.cluster.nodes[position]
    if not 0 <= slot < known.device_count:
        raise EventError(f"no device {slot} in {node}; it has {known.device_count}")
    return position, state.holdings.kinds[known.kind]


def _position(state: "State", node: str) -> int:
    position = state.cluster.position(node)
    if position is None:
        raise EventError(f"no node {node!r} in this cluster")
    return position


NODE_EVENTS: dict[type, Callable[[Any, Any], None]] = {
    NodeLost: _on_lost,
    NodeJoined: _on_joined,
    NodeClosed: _on_closed,
    NodeDraining: _on_draining,
    NodeChanged: _on_changed,
    DeviceLost: _on_device_lost,
    DeviceRestored: _on_device_restored,
}
"""What each event about nodes and devices does to a state."""
