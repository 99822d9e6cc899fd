"""What entries about nodes and devices do to the state: those that left, came back or changed."""

from penstock.control.state.entries import (
    Absence,
    DeviceCame,
    DeviceLeft,
    NodeCame,
    NodeLeft,
    NodePassed,
    NodeReshaped,
    NodeUnfit,
)
from penstock.control.state.folded_state import FoldedState, Reducers
from penstock.core import (
    DeviceLost,
    DeviceRestored,
    DeviceSlot,
    NodeChanged,
    NodeClosed,
    NodeHealth,
    NodeJoined,
    NodeLost,
)


def loss_of_node(entry: NodeLeft) -> NodeLost | NodeClosed:
    """What the scheduler is told; the story of each job on the node says who drained it."""
    if entry.why is Absence.LOST:
        return NodeLost(entry.at, entry.node)
    by, because = f" by {entry.by}" if entry.by else "", f" ({entry.reason})" if entry.reason else ""
    why = f"node {entry.node} was drained{by}{because}"
    return NodeClosed(entry.at, entry.node, why) if entry.waits else NodeLost(entry.at, entry.node, why)


def _node_left(state: FoldedState, entry: NodeLeft) -> None:
    state.health.pop(entry.node, None)
    if entry.reason:
        state.drained_because[entry.node] = entry.reason
    was_drained = state.absent.get(entry.node) is Absence.DRAINED
    if entry.why is Absence.DRAINED and was_drained and (entry.waits or not state.is_emptying(entry.node)):
        return
    state.feed(loss_of_node(entry))
    if state.absent.get(entry.node) is not Absence.DRAINED:
        state.absent[entry.node] = entry.why


def _node_came(state: FoldedState, entry: NodeCame) -> None:
    if state.absent.get(entry.node.name, entry.why) is not entry.why:
        return
    state.feed(NodeJoined(entry.at, entry.node))
    if slots := tuple(place.slot for place in sorted(state.lost_devices, key=str) if place.node == entry.node.name):
        state.feed(NodeClosed(entry.at, entry.node.name, slots=slots))
    state.absent.pop(entry.node.name, None)
    state.drained_because.pop(entry.node.name, None)


def _node_passed(state: FoldedState, entry: NodePassed) -> None:
    """One that is gone meanwhile is checked again when it is back."""
    if entry.node not in state.absent:
        state.health[entry.node] = NodeHealth(at=entry.at, level=entry.level)


def _node_unfit(state: FoldedState, entry: NodeUnfit) -> None:
    """The job's other devices are its own still, and nothing is counted against it."""
    record = state.live(entry.job_id)
    record.unfit_nodes += 1
    nodes = record.job.nodes
    then = f"it goes on elsewhere; it runs {nodes}" if nodes.confines else "it goes on elsewhere"
    record.tell(entry.at, f"node {entry.node} failed its preflight and is drained ({entry.reason}); {then}")
    why = f"preflight: {entry.reason}"
    _node_left(state, NodeLeft(at=entry.at, node=entry.node, why=Absence.DRAINED, reason=why))


def _node_reshaped(state: FoldedState, entry: NodeReshaped) -> None:
    """Its devices are others; one that is drained stays so."""
    name = entry.node.name
    state.health.pop(name, None)
    before = state.scheduler.cluster.position(name)
    was_emptying = state.is_emptying(name)
    state.feed(NodeChanged(entry.at, entry.node, entry.keeps))
    state.renumber()
    if state.scheduler.cluster.position(name) != before:
        state.lost_devices = {place for place in state.lost_devices if place.node != name}
    if state.absent.get(name) is Absence.DRAINED:
        if not was_emptying:
            state.feed(NodeLost(entry.at, name))
    else:
        state.absent.pop(name, None)


def _device_left(state: FoldedState, entry: DeviceLeft) -> None:
    if entry.waits:
        state.feed(NodeClosed(entry.at, entry.node, f"device {entry.slot} of {entry.node} leaves", (entry.slot,)))
    else:
        state.feed(DeviceLost(entry.at, entry.node, entry.slot))
    state.lost_devices.add(DeviceSlot(entry.node, entry.slot))


def _device_came(state: FoldedState, entry: DeviceCame) -> None:
    state.feed(DeviceRestored(entry.at, entry.node, entry.slot))
    state.lost_devices.discard(DeviceSlot(entry.node, entry.slot))


NODE_REDUCERS: Reducers = {
    NodeLeft: _node_left,
    NodeCame: _node_came,
    NodeReshaped: _node_reshaped,
    NodePassed: _node_passed,
    NodeUnfit: _node_unfit,
    DeviceLeft: _device_left,
    DeviceCame: _device_came,
}
