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
    NodeDraining,
    NodeJoined,
    NodeLost,
)
from penstock.scheduler.kinds import KindState

if TYPE_CHECKING:
    from penstock.scheduler.state import State


def _on_lost(state: "State", event: NodeLost) -> None:
    position = _position(state, event.node)
    if event.node not in state.down:
        state.down.add(event.node)
        kind = state.holdings.kinds[state.cluster.nodes[position].kind]
        is_known = event.at >= kind.gone_at(position)
        why = f"the lease of {event.node} ended" if is_known else f"{event.node} was lost"
        _vacate(state, position, why, event.at, is_known=is_known)


def _on_joined(state: "State", event: NodeJoined) -> None:
    position = state.cluster.position(event.node.name)
    if position is None:
        _append(state, event.node, event.until)
        return
    if state.cluster.nodes[position] != event.node:
        raise EventError(f"node {event.node.name!r} came back different from what it was")
    kind = state.holdings.kinds[event.node.kind]
    _stays_until(kind, position, event.until)
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
    _vacate(state, position, f"{event.node.name} came back with other devices", event.at)
    state.down.discard(event.node.name)
    state.cluster = state.cluster.without(position)
    state.holdings.kinds[before.kind].until.pop(position, None)
    state.holdings.resize(before.kind, state.cluster.capacity(before.kind))
    _append(state, event.node)


def _on_device_lost(state: "State", event: DeviceLost) -> None:
    position, kind = _device(state, event.node, event.slot)
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
    NodeDraining: _on_draining,
    NodeChanged: _on_changed,
    DeviceLost: _on_device_lost,
    DeviceRestored: _on_device_restored,
}
"""What each event about nodes and devices does to a state."""
