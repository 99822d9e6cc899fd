"""Which nodes and devices there are: what the backend says, compared with what the state believes.

Differences become entries, one per node or device, so that a node that left, came back, came back with other devices or
lost one of them is something that happened, with a time, and not a new configuration.
"""

import logging
import math
from collections.abc import Iterator, Mapping

from penstock.backends import Backend
from penstock.control.state.entries import Absence, DeviceCame, DeviceLeft, Entry, NodeCame, NodeLeft, NodeReshaped
from penstock.control.state.journal import Journal
from penstock.control.state.platform_state import PlatformState
from penstock.core import DeviceSlot, Node

_log = logging.getLogger(__name__)


class NodeWatch:
    """Asks the backend every ``every_s`` seconds."""

    def __init__(self, journal: Journal, backend: Backend, *, every_s: float) -> None:
        self._journal = journal
        self._backend = backend
        self._every_s = every_s
        self._looked_at = -math.inf

    def look(self) -> None:
        """Record what has changed, if it is time to look again."""
        now = self._journal.now()
        if now - self._looked_at < self._every_s:
            return
        self._looked_at = now
        nodes = {node.name: node for node in self._backend.nodes()}
        unusable = self._backend.unusable()
        with self._journal.reading() as state:
            self._record(_node_changes(state, nodes, now))
            self._record(_device_changes(state, nodes, unusable, now))

    def _record(self, changes: Iterator[Entry]) -> None:
        """All at once: where a thousand nodes come or go together, one decision follows and not thousands."""
        if entries := list(changes):
            self._journal.record(*entries)


def _node_changes(state: PlatformState, nodes: Mapping[str, Node], now: float) -> Iterator[Entry]:
    known = {node.name: node for _, node in state.scheduler.cluster.present()}
    for name in sorted(known.keys() - nodes.keys() - (state.absent.keys() - state.scheduler.emptying)):
        yield NodeLeft(at=now, node=name)
    for name, node in nodes.items():
        if name in known and known[name] != node:
            yield from _reshaped(state, known[name], node, now)
        elif name not in known or state.absent.get(name) is Absence.LOST:
            yield NodeCame(at=now, node=node)


def _reshaped(state: PlatformState, known: Node, node: Node, now: float) -> Iterator[Entry]:
    """A node has other devices; as long as jobs hold some that it does not have any more, these leave one by one.

    Devices of another kind have nothing in common: all those before leave.
    """
    kept = node.device_count if known.kind == node.kind else 0
    held = {
        place.slot: record.submission.name for record in state.engaged.values() if record.grant is not None
        for place in record.places if place.node == node.name and place.slot >= kept
    }  # fmt: skip
    if not held:
        yield NodeReshaped(at=now, node=node, keeps=True)
        return
    there = f"{node.name} has {node.device_count} x {node.kind}, no longer {known.device_count} x {known.kind}"
    for slot in range(kept, known.device_count):
        if DeviceSlot(node.name, slot) not in state.lost_devices:
            if slot in held:
                _log.warning("%s: device %d leaves when job %s ends or moves", there, slot, held[slot])
            yield DeviceLeft(at=now, node=node.name, slot=slot, why=there, waits=True)


def _device_changes(
    state: PlatformState, nodes: Mapping[str, Node], unusable: Mapping[DeviceSlot, str], now: float
) -> Iterator[Entry]:
    """Of nodes that are there; devices of a node that is gone are gone with it."""
    for place, why in unusable.items():
        if place not in state.lost_devices and place.node in nodes:
            yield DeviceLeft(at=now, node=place.node, slot=place.slot, why=why)
    for place in sorted(state.lost_devices - unusable.keys(), key=str):
        if place.node in nodes and place.slot < nodes[place.node].device_count:
            yield DeviceCame(at=now, node=place.node, slot=place.slot)
