"""What a cluster's nodes say of themselves, as nodes of ours: devices, kinds, topology, and why one cannot be used.

A machine with several kinds of devices is one node for each of them. Product labels name the kind; zones are spines and
racks are racks.
"""

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.backends.kubernetes.cluster_api import Manifest
from penstock.backends.kubernetes.labels import DEVICE_MEMORY, PRODUCT, RACK, ZONE
from penstock.backends.kubernetes.quantities import parse_quantity
from penstock.backends.kubernetes.settings import KubernetesSettings
from penstock.core import Node

CPU = "cpu"
ACCELERATORS = ("nvidia.com/gpu", "nvidia.com/mig-*", "huawei.com/Ascend910*", "huawei.com/npu", "amd.com/gpu")
_NOT_TOLERATED = ("NoSchedule", "NoExecute")
_OF_NODE_STATE = "node.kubernetes.io/"
_VENDOR_WORDS = frozenset({"nvidia", "tesla", "geforce", "quadro", "amd", "instinct", "huawei", "radeon"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNode:
    """A node of ours: ``count`` devices that pods ask for as ``resource`` on the machine ``host``."""

    node: Node
    host: str
    resource: str
    per_device: float = 1.0
    allocatable: float = 0.0
    fault: str = ""
    """Why none of its devices can be used, in the cluster's words."""


def trimmed_node(found: Manifest) -> Manifest:
    """What is kept of a node's manifest: most of it is a list of images."""
    status, spec = found["status"], found["spec"]
    ready = next((one for one in status.get("conditions", ()) if one["type"] == "Ready"), None)
    return {
        "name": found["metadata"]["name"], "labels": found["metadata"].get("labels") or {},
        "allocatable": status.get("allocatable") or {}, "taints": spec.get("taints") or [],
        "unschedulable": bool(spec.get("unschedulable")),
        "ready": {name: ready.get(name, "") for name in ("status", "reason", "message")} if ready else None,
    }  # fmt: skip


def device_nodes(found: Mapping[str, object], settings: KubernetesSettings) -> tuple[DeviceNode, ...]:
    """All nodes of a trimmed manifest."""
    about: Manifest = dict(found)
    offers = list(_offers(about["allocatable"], settings))
    return tuple(_device_node(about, one, len(offers) > 1, settings) for one in offers)


def fault_of(found: Mapping[str, object], settings: KubernetesSettings) -> str:
    """Why a node is not to be used: not ready, cordoned, or tainted; empty if it is fine."""
    about: Manifest = dict(found)
    ready = about["ready"]
    if ready is None or ready["status"] != "True":
        said = (ready["reason"], ready["message"]) if ready else ("it never reported",)
        words = ": ".join(word for word in said if word)
        return f"NotReady: {words}" if words else "NotReady"
    if about["unschedulable"]:
        return "cordoned"
    for taint in about["taints"]:
        if taint["effect"] in _NOT_TOLERATED and not _tolerated(taint, settings.tolerations):
            return f"tainted {_taint_text(taint)}, which no toleration of the settings matches"
    return ""


def _offers(allocatable: Mapping[str, str], settings: KubernetesSettings) -> Iterator[tuple[str, int, float]]:
    """Resource, number of devices, and how much of the resource each of them is."""
    found = False
    for resource, amount in sorted(allocatable.items()):
        if any(fnmatch.fnmatchcase(resource, pattern) for pattern in ACCELERATORS) and int(parse_quantity(amount)):
            found = True
            yield resource, int(parse_quantity(amount)), 1.0
    cores = settings.cpu_slot_cores
    if not found and cores and (slots := int(parse_quantity(allocatable.get(CPU, "0")) / cores)):
        yield CPU, slots, cores


def _device_node(
    about: Manifest, offer: tuple[str, int, float], several: bool, settings: KubernetesSettings
) -> DeviceNode:
    resource, count, per_device = offer
    labels: Mapping[str, str] = about["labels"]
    kind = kind_of(resource, labels)
    host: str = about["name"]
    spine = _first(labels, ZONE) or "zone-0"
    return DeviceNode(
        node=Node(
            name=f"{host}-{kind.lower()}" if several else host, device_count=count, kind=kind,
            rack=_first(labels, RACK) or f"{spine}-rack-0", spine=spine,
            device_memory=int(labels.get(DEVICE_MEMORY, "0")) * 2**20 if resource != CPU else 0,
        ),
        host=host, resource=resource, per_device=per_device,
        allocatable=parse_quantity(about["allocatable"][resource]), fault=fault_of(about, settings),
    )  # fmt: skip


def kind_of(resource: str, labels: Mapping[str, str]) -> str:
    """The model by which people call a device.

    >>> kind_of("nvidia.com/gpu", {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"})
    'A100'
    >>> kind_of("huawei.com/Ascend910", {}), kind_of("nvidia.com/gpu", {})
    ('Ascend910', 'gpu')
    """
    if resource == CPU:
        return CPU
    product = _first(labels, PRODUCT)
    words = [word for word in re.split(r"[-_ ]", product) if word and word.lower() not in _VENDOR_WORDS]
    if not words:
        return resource.partition("/")[2]
    named = "-".join(words[:2]) if words[0].upper() in ("RTX", "GTX") else words[0]
    partition = resource.partition("/mig-")[2]
    model = named if any(letter.isupper() for letter in named) else named.upper()
    if resource.startswith("huawei.com/") and model[:1].isdigit():
        model = f"Ascend{model}"
    return f"{model}-MIG-{partition}" if partition else model


def _first(labels: Mapping[str, str], names: Sequence[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def _tolerated(taint: Manifest, tolerations: Sequence[Manifest]) -> bool:
    return any(_matches(one, taint) for one in tolerations)


def _matches(toleration: Manifest, taint: Manifest) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != taint["key"]:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")


def _taint_text(taint: Manifest) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"
