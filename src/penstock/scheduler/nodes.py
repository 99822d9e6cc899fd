"""Nodes and devices that come, go and come back different: what that does to the jobs on them.

Device indices never change their meaning: new devices get new indices, and lost ones keep theirs in case they return.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.core import (
    DeviceLost,
    DeviceRestored,
    EventError,
    Node,
    NodeChanged,
    NodeJoined,
    NodeLost,
)
from penstock.scheduler.pool import Pool

if TYPE_CHECKING:
    from penstock.scheduler.state import State


def _on_lost(state: "State", event: NodeLost) -> None:
    position = _position(state, event.node)
    if event.node not in state.down:
        state.down.add(event.node)
        _vacate(state, position, f"{event.node} was lost", event.at)


def _on_joined(state: "State", event: NodeJoined) -> None:
    position = state.cluster.position(event.node.name)
    if position is None:
        _append(state, event.node)
        return
    if state.cluster.nodes[position] != event.node:
        raise EventError(f"node {event.node.name!r} came back different from what it was")
    if event.node.name in state.down:
        state.down.discard(event.node.name)
        pool = state.pools[event.node.kind]
        pool.occupancy.restore_node(position)
        pool.dirty = True


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
    state.pools[before.kind].resize(state.cluster.capacity(before.kind))
    _append(state, event.node)


def _on_device_lost(state: "State", event: DeviceLost) -> None:
    position, pool = _device(state, event.node, event.slot)
    if pool.occupancy.broken(position) >> event.slot & 1:
        return
    why = f"device {event.slot} of {event.node} was lost"
    key = pool.occupancy.lose_device(position, event.slot)
    if key is not None:
        state.stop_gang(pool.records[key], event.at, why)
    state.excuse(pool, why)
    pool.dirty = True


def _on_device_restored(state: "State", event: DeviceRestored) -> None:
    position, pool = _device(state, event.node, event.slot)
    pool.occupancy.restore_device(position, event.slot)
    pool.dirty = True


def _vacate(state: "State", position: int, why: str, at: float) -> None:
    """Every gang with a device on this node stops."""
    pool = state.pools[state.cluster.nodes[position].kind]
    for key in pool.occupancy.lose_node(position):
        state.stop_gang(pool.records[key], at, why)
    state.excuse(pool, why)
    pool.dirty = True


def _append(state: "State", node: Node) -> None:
    state.cluster = state.cluster.with_node(node)
    for pool in state.pools.values():
        pool.occupancy.add_node(state.cluster)
    if node.kind in state.pools:
        state.pools[node.kind].resize(state.cluster.capacity(node.kind))
    else:
        state.pools[node.kind] = Pool(state.cluster, node.kind, state.slot)


def _device(state: "State", node: str, slot: int) -> tuple[int, Pool]:
    position = _position(state, node)
    known = state.cluster.nodes[position]
    if not 0 <= slot < known.device_count:
        raise EventError(f"no device {slot} in {node}; it has {known.device_count}")
    return position, state.pools[known.kind]


def _position(state: "State", node: str) -> int:
    position = state.cluster.position(node)
    if position is None:
        raise EventError(f"no node {node!r} in this cluster")
    return position


NODE_EVENTS: dict[type, Callable[[Any, Any], None]] = {
    NodeLost: _on_lost,
    NodeJoined: _on_joined,
    NodeChanged: _on_changed,
    DeviceLost: _on_device_lost,
    DeviceRestored: _on_device_restored,
}
"""What each event about nodes and devices does to a state."""
