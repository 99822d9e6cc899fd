"""What entries about nodes and devices do to the state: those that left, came back or changed."""

from penstock.control.state.entries import Absence, DeviceCame, DeviceLeft, NodeCame, NodeLeft, NodeReshaped
from penstock.control.state.folded_state import FoldedState, Reducers
from penstock.core import DeviceLost, DeviceRestored, DeviceSlot, NodeChanged, NodeJoined, NodeLost


def _node_left(state: FoldedState, entry: NodeLeft) -> None:
    if entry.reason:
        state.drained_because[entry.node] = entry.reason
    if entry.why is state.absent.get(entry.node) is Absence.DRAINED:
        return
    state.feed(NodeLost(entry.at, entry.node))
    if state.absent.get(entry.node) is not Absence.DRAINED:
        state.absent[entry.node] = entry.why


def _node_came(state: FoldedState, entry: NodeCame) -> None:
    if state.absent.get(entry.node.name, entry.why) is not entry.why:
        return
    state.feed(NodeJoined(entry.at, entry.node))
    state.absent.pop(entry.node.name, None)
    state.drained_because.pop(entry.node.name, None)


def _node_reshaped(state: FoldedState, entry: NodeReshaped) -> None:
    """Its devices are others; one that is drained stays so."""
    name = entry.node.name
    before = state.scheduler.cluster.position(name)
    state.feed(NodeChanged(entry.at, entry.node))
    if state.scheduler.cluster.position(name) != before:
        state.lost_devices = {place for place in state.lost_devices if place.node != name}
    if state.absent.get(name) is Absence.DRAINED:
        state.feed(NodeLost(entry.at, name))
    else:
        state.absent.pop(name, None)


def _device_left(state: FoldedState, entry: DeviceLeft) -> None:
    state.feed(DeviceLost(entry.at, entry.node, entry.slot))
    state.lost_devices.add(DeviceSlot(entry.node, entry.slot))


def _device_came(state: FoldedState, entry: DeviceCame) -> None:
    state.feed(DeviceRestored(entry.at, entry.node, entry.slot))
    state.lost_devices.discard(DeviceSlot(entry.node, entry.slot))


NODE_REDUCERS: Reducers = {
    NodeLeft: _node_left,
    NodeCame: _node_came,
    NodeReshaped: _node_reshaped,
    DeviceLeft: _device_left,
    DeviceCame: _device_came,
}
