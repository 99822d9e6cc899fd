"""Nodes, tenants and rules of a past: how they were when it begins, and what happened to them since."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from penstock.control.state.entries import (
    Absence,
    Configured,
    DeviceCame,
    DeviceLeft,
    NodeCame,
    NodeLeft,
    NodeReshaped,
    TenantConfigured,
)
from penstock.control.state.reducers import loss_of_node
from penstock.core import (
    Cluster,
    DeviceLost,
    DeviceRestored,
    DeviceSlot,
    Event,
    EventError,
    NodeChanged,
    NodeClosed,
    NodeJoined,
    NodeLost,
    TenantChanged,
)
from penstock.policies import policy_named
from penstock.scheduler import Scheduler
from penstock.simulate import PastRules

NODE_KINDS = tuple(
    kind.__name__ for kind in (Configured, NodeLeft, NodeCame, NodeReshaped, DeviceLeft, DeviceCame, TenantConfigured)
)


class NodePast:
    """What entries about nodes and rules tell, in order.

    A scheduler without jobs keeps the cluster, so that nodes mean here what they mean to the real one.
    """

    def __init__(self, configured: Configured) -> None:
        self.rules: list[PastRules] = []
        self.events: list[Event] = []
        self._absent: dict[str, Absence] = {}
        self._lost: set[DeviceSlot] = set()
        self._scheduler = Scheduler(Cluster(configured.nodes), policy_named("fifo"), stories=False)

    @property
    def cluster(self) -> Cluster:
        return self._scheduler.cluster

    def take(self, entry: Any) -> None:
        """The next entry; one that did not fit then does not fit now."""
        if isinstance(entry, Configured):
            self.rules.append(PastRules(at=entry.at, policy=entry.policy, slot=entry.slot, overhead=entry.overhead))
            return
        for event in self._events(entry):
            try:
                self._scheduler.apply(event)
            except EventError:
                continue
            self.events.append(event)
            self._note(entry)

    def begin(self, since: float) -> None:
        """The past that counts begins here: what was so before is so from the beginning."""
        self.rules = [replace(rules, at=since) for rules in self.rules[-1:]]
        self.events = [NodeLost(since, name) for name in self._absent]
        self.events += [TenantChanged(since, tenant) for tenant in self._scheduler.tenant_settings()]
        self.events += [DeviceLost(since, place.node, place.slot) for place in sorted(self._lost)]

    def _events(self, entry: Any) -> Iterable[Event]:
        match entry:
            case NodeLeft():
                yield loss_of_node(entry)
            case NodeCame() if self._absent.get(entry.node.name, entry.why) is entry.why:
                yield NodeJoined(entry.at, entry.node)
            case NodeReshaped():
                yield NodeChanged(entry.at, entry.node, entry.keeps)
                if self._absent.get(entry.node.name) is Absence.DRAINED:
                    yield NodeLost(entry.at, entry.node.name)
            case DeviceLeft():
                if entry.waits:
                    yield NodeClosed(entry.at, entry.node, slots=(entry.slot,))
                else:
                    yield DeviceLost(entry.at, entry.node, entry.slot)
            case TenantConfigured():
                yield TenantChanged(entry.at, entry.tenant)
            case DeviceCame():
                yield DeviceRestored(entry.at, entry.node, entry.slot)

    def _note(self, entry: Any) -> None:
        """Who is away."""
        match entry:
            case NodeLeft() if self._absent.get(entry.node) is not Absence.DRAINED:
                self._absent[entry.node] = entry.why
            case NodeCame():
                self._absent.pop(entry.node.name, None)
            case NodeReshaped() if self._absent.get(entry.node.name) is not Absence.DRAINED:
                self._absent.pop(entry.node.name, None)
            case DeviceLeft():
                self._lost.add(DeviceSlot(entry.node, entry.slot))
            case DeviceCame():
                self._lost.discard(DeviceSlot(entry.node, entry.slot))


def node_past(entries: Iterable[Any], since: float, until: float) -> tuple[Cluster, NodePast]:
    """The cluster at ``since``, and everything up to ``until``; the first entry is how the platform was set up."""
    found = [entry for entry in entries if entry.at <= until]
    told = NodePast(found[0])
    for entry in found:
        if entry.at <= since:
            told.take(entry)
    told.begin(since)
    first = told.cluster
    for entry in found:
        if entry.at > since:
            told.take(entry)
    return first, told
