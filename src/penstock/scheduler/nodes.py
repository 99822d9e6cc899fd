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
        _open(state, position)
        state.down.add(event.node)
        _vacate(state, position, event.why or f"{event.node} was lost", event.at)


def _on_closed(state: "State", event: NodeClosed) -> None:
    """Free devices go out of use at once, the others when their jobs end."""
    position = _position(state, event.node)
    if event.node in state.down or position in state.holdings.closed:
        return
    kind, why = state.holdings.kinds[state.cluster.nodes[position].kind], event.why or f"{event.node} is closed"
    for key in sorted(kind.occupancy.holders(position)):
        record = state.holdings.records[key]
        if record.job.resumable:
            state.holdings.let_go(record, event.at)
            state.outbox.append(Suspend(record.job.id, f"{why}; it saves its state and goes on elsewhere"))
            record.tell(event.at, f"{why}; it saves its state and goes on elsewhere")
        else:
            record.tell(event.at, f"{why}; it cannot resume, so it stays there until it ends")
    state.holdings.closed[position] = 0
    state.excuse(kind.kind, why)
    kind.dirty = True


def retire_closed(state: "State") -> None:
    """Take what became free on closed nodes out of use; a node that is empty is down."""
    for position in list(state.holdings.closed):
        node = state.cluster.nodes[position]
        kind = state.holdings.kinds[node.kind]
        for slot in slots_of(kind.occupancy.mask(position)):
            kind.occupancy.lose_device(position, slot)
            state.holdings.closed[position] |= 1 << slot
        if not kind.occupancy.holders(position):
            _open(state, position)
            state.down.add(node.name)
            kind.occupancy.lose_node(position)


def _open(state: "State", position: int) -> None:
    """Forget that a node is closed; its devices that were taken out of use for that work again."""
    occupancy = state.holdings.kinds[state.cluster.nodes[position].kind].occupancy
    for slot in slots_of(state.holdings.closed.pop(position, 0)):
        occupancy.restore_device(position, slot)


def _on_joined(state: "State", event: NodeJoined) -> None:
    position = state.cluster.position(event.node.name)
    if position is None:
        _append(state, event.node, event.until)
        return
    if state.cluster.nodes[position] != event.node:
        raise EventError(f"node {event.node.name!r} came back different from what it was")
    kind = state.holdings.kinds[event.node.kind]
    _stays_until(kind, position, event.until)
    if position in state.holdings.closed:
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
    before = state.cluster.nodes[position]
    if (before.device_count, before.kind) == (event.node.device_count, event.node.kind):
        state.cluster = state.cluster.relabelled(position, event.node)
        _on_joined(state, NodeJoined(event.at, event.node))
        return
    _open(state, position)
    _vacate(state, position, f"{event.node.name} came back with other devices", event.at)
    state.down.discard(event.node.name)
    state.cluster = state.cluster.without(position)
    state.holdings.kinds[before.kind].until.pop(position, None)
    state.holdings.resize(before.kind, state.cluster.capacity(before.kind))
    _append(state, event.node)


def _on_device_lost(state: "State", event: DeviceLost) -> None:
    position, kind = _device(state, event.node, event.slot)
    if position in state.holdings.closed:
        state.holdings.closed[position] &= ~(1 << event.slot)
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
    kind.occupancy.restore_device(position, event.slot)
    kind.dirty = True


def _vacate(state: "State", position: int, why: str, at: float) -> None:
    """Every gang with a device on this node stops."""
    kind = state.holdings.kinds[state.cluster.nodes[position].kind]
    for key in kind.occupancy.lose_node(position):
        state.stop_gang(state.holdings.records[key], at, why)
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
