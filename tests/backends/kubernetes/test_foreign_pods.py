"""What other people's pods hold is not ours to grant."""

from typing import Any

from penstock.backends.kubernetes.cluster_nodes import DeviceNode
from penstock.backends.kubernetes.foreign_pods import ForeignPods, trimmed_pod
from penstock.backends.kubernetes.labels import INSTALLATION, NODE, SLOT
from penstock.core import DeviceSlot, Node

GPUS = DeviceNode(node=Node(name="a", device_count=4), host="a", resource="nvidia.com/gpu", allocatable=4)
CORES = DeviceNode(
    node=Node(name="a", device_count=4, kind="cpu"), host="a", resource="cpu", per_device=2, allocatable=8.5
)


def pod(requests: dict[str, str], *, host: str = "a", ours: tuple[str, int] | None = None) -> dict[str, Any]:
    about: dict[str, Any] = {"name": "x", "labels": {}, "annotations": {}}
    if ours:
        about["labels"][INSTALLATION] = "mine"
        about["annotations"] |= {NODE: ours[0], SLOT: str(ours[1])}
    containers = [{"resources": {"requests": requests, "limits": {}}}, {}]
    return trimmed_pod({"metadata": about, "spec": {"nodeName": host, "containers": containers}})


def slots(held: dict[DeviceSlot, str]) -> dict[int, str]:
    return {place.slot: why for place, why in held.items()}


def test_foreign_devices_are_the_last_ones_and_ours_are_never_taken() -> None:
    pods = {"x/other": pod({"nvidia.com/gpu": "2"}), "ours/w0": pod({"nvidia.com/gpu": "1"}, ours=("a", 3))}
    held = ForeignPods("mine").held([GPUS], pods)
    assert slots(held) == {2: "held by pod x/other", 1: "held by pod x/other"}


def test_a_pod_keeps_its_slots_while_others_come_and_go() -> None:
    foreign = ForeignPods("mine")
    first = {"x/b": pod({"nvidia.com/gpu": "1"})}
    assert slots(foreign.held([GPUS], first)) == {3: "held by pod x/b"}
    assert slots(foreign.held([GPUS], {"x/a": pod({"nvidia.com/gpu": "1"}), **first})) == {
        3: "held by pod x/b", 2: "held by pod x/a"
    }  # fmt: skip
    assert slots(foreign.held([GPUS], {"x/a": pod({"nvidia.com/gpu": "1"})})) == {2: "held by pod x/a"}
    assert foreign.held([GPUS], {}) == {}


def test_pods_elsewhere_and_without_devices_hold_nothing() -> None:
    pods = {"x/far": pod({"nvidia.com/gpu": "2"}, host="b"), "x/web": pod({"cpu": "3"})}
    assert ForeignPods("mine").held([GPUS], pods) == {}


def test_processor_cores_add_up_to_slots() -> None:
    small = {f"x/{i}": pod({"cpu": "100m"}) for i in range(5)}
    assert ForeignPods("mine").held([CORES], small) == {}
    assert len(ForeignPods("mine").held([CORES], {**small, "x/big": pod({"cpu": "3"})})) == 2
    ours = {"ours/w0": pod({"cpu": "2"}, ours=("a", 0))}
    held = slots(ForeignPods("mine").held([CORES], {**ours, "x/big": pod({"cpu": "7"})}))
    assert held == dict.fromkeys((1, 2, 3), "held by pod x/big")


def test_a_limit_counts_where_no_request_is_given_and_initial_containers_count_alone() -> None:
    containers = [{"resources": {"limits": {"nvidia.com/gpu": "1", "memory": "1Gi"}}}]
    first = [{"resources": {"limits": {"nvidia.com/gpu": "3"}}}]
    spec = {"nodeName": "a", "containers": containers, "initContainers": first}
    assert trimmed_pod({"metadata": {}, "spec": spec}) == {"host": "a", "requests": {"nvidia.com/gpu": 3.0}}
