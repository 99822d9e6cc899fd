"""Devices that other people's pods hold: they are not ours to grant.

Kubernetes counts devices and does not number them, so which slot of ours a foreign pod holds is our choice: the last
ones of the node that no worker of ours is on, and the same ones for as long as the pod lives.
"""

import math
from collections.abc import Iterable, Mapping

from penstock.backends.kubernetes.cluster_api import Manifest
from penstock.backends.kubernetes.cluster_nodes import CPU, DeviceNode
from penstock.backends.kubernetes.labels import INSTALLATION, NODE, SLOT
from penstock.backends.kubernetes.quantities import parse_quantity
from penstock.core import DeviceSlot

LIVING = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""The field selector of pods that hold something."""


def trimmed_pod(found: Manifest) -> Manifest:
    """What is kept of a pod: where it is, what it asks for, and which worker of ours it is."""
    about, spec = found["metadata"], found["spec"]
    said = {**(about.get("labels") or {}), **(about.get("annotations") or {})}
    ours = {name: said[name] for name in (INSTALLATION, NODE, SLOT) if name in said}
    return {"host": spec.get("nodeName", ""), "requests": _requests(spec), **({"ours": ours} if ours else {})}


def _requests(spec: Manifest) -> dict[str, float]:
    """What a pod is charged for: its containers together, or an initial one that asks for more."""
    together: dict[str, float] = {}
    for container in spec["containers"]:
        for resource, amount in _asked(container).items():
            together[resource] = together.get(resource, 0.0) + amount
    for container in spec.get("initContainers") or ():
        for resource, amount in _asked(container).items():
            together[resource] = max(together.get(resource, 0.0), amount)
    return {resource: amount for resource, amount in together.items() if amount}


def _asked(container: Manifest) -> dict[str, float]:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: parse_quantity(amount) for name, amount in asked.items() if name == CPU or "/" in name}


class ForeignPods:
    """Remembers which slots it gave to whom."""

    def __init__(self, installation: str) -> None:
        self._installation = installation
        self._held: dict[DeviceSlot, str] = {}

    def held(self, nodes: Iterable[DeviceNode], pods: Mapping[str, Manifest]) -> dict[DeviceSlot, str]:
        """Every slot that is held by somebody else, with the name of a pod that does."""
        ours = self._ours(pods)
        by_host: dict[str, list[tuple[str, Manifest]]] = {}
        for name, pod in pods.items():
            if not self._is_ours(pod):
                by_host.setdefault(pod["host"], []).append((name, pod))
        found: dict[DeviceSlot, str] = {}
        for one in nodes:
            found |= self._held_on(one, by_host.get(one.host, ()), ours)
        self._held = found
        return {place: f"held by pod {name}" for place, name in found.items()}

    def _held_on(
        self, one: DeviceNode, pods: Iterable[tuple[str, Manifest]], ours: frozenset[DeviceSlot]
    ) -> dict[DeviceSlot, str]:
        counts = _counts(one, pods)
        if not counts:
            return {}
        slots = [DeviceSlot(one.node.name, slot) for slot in range(one.node.device_count)]
        free = [place for place in reversed(slots) if place not in ours]
        found: dict[DeviceSlot, str] = {}
        for name, count in counts:
            before = [place for place in free if self._held.get(place) == name and place not in found]
            others = [place for place in free if place not in self._held and place not in found]
            rest = [place for place in free if place not in found and place not in before and place not in others]
            found |= dict.fromkeys((before + others + rest)[:count], name)
        return found

    def _ours(self, pods: Mapping[str, Manifest]) -> frozenset[DeviceSlot]:
        marks = [pod["ours"] for pod in pods.values() if self._is_ours(pod)]
        return frozenset(DeviceSlot(one[NODE], int(one[SLOT])) for one in marks if NODE in one and SLOT in one)

    def _is_ours(self, pod: Manifest) -> bool:
        marks: dict[str, str] = pod.get("ours") or {}
        return marks.get(INSTALLATION) == self._installation


def _counts(one: DeviceNode, pods: Iterable[tuple[str, Manifest]]) -> list[tuple[str, int]]:
    """How many devices of a node each pod takes; processor cores of many pods add up to slots."""
    asking = [(name, pod["requests"].get(one.resource, 0.0)) for name, pod in sorted(pods, key=lambda pair: pair[0])]
    asking = [(name, amount) for name, amount in asking if amount]
    if one.resource != CPU:
        return [(name, math.ceil(amount)) for name, amount in asking]
    room = int((one.allocatable - sum(amount for _, amount in asking)) / one.per_device + 1e-9)
    taken = one.node.device_count - max(0, room)
    largest = sorted(asking, key=lambda pair: -pair[1])
    return [(largest[0][0], taken)] if largest and taken > 0 else []
