"""What nodes of a cluster become: kinds, topology, devices, and the reason why one is not used."""

from typing import Any

import pytest

from penstock.backends.kubernetes.cluster_nodes import device_nodes, fault_of, kind_of, trimmed_node
from penstock.backends.kubernetes.settings import KubernetesSettings

SETTINGS = KubernetesSettings()


def manifest(
    allocatable: dict[str, str], labels: dict[str, str] | None = None, ready: str = "True", **spec: Any
) -> dict[str, Any]:
    condition = {"type": "Ready", "status": ready, "reason": "KubeletReady" if ready == "True" else "NodeStatusUnknown"}
    conditions = [{"type": "DiskPressure", "status": "False"}, condition]
    status = {"allocatable": allocatable, "conditions": conditions}
    return trimmed_node({"metadata": {"name": "host-1", "labels": labels or {}}, "spec": spec, "status": status})


@pytest.mark.parametrize(
    ("resource", "labels", "kind"),
    [
        ("nvidia.com/gpu", {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}, "A100"),
        ("nvidia.com/gpu", {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090"}, "RTX-4090"),
        ("nvidia.com/gpu", {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}, "T4"),
        ("nvidia.com/gpu", {}, "gpu"),
        ("nvidia.com/mig-1g.5gb", {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}, "A100-MIG-1g.5gb"),
        ("amd.com/gpu", {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, "MI300X"),
        ("huawei.com/Ascend910", {"accelerator": "huawei-Ascend910"}, "Ascend910"),
        ("huawei.com/Ascend910B", {"node.kubernetes.io/npu.chip.name": "910B3"}, "Ascend910B3"),
        ("huawei.com/Ascend910", {}, "Ascend910"),
        ("cpu", {"accelerator": "whatever"}, "cpu"),
    ],
)
def test_the_kind_is_the_model_people_know(resource: str, labels: dict[str, str], kind: str) -> None:
    assert kind_of(resource, labels) == kind


def test_a_node_with_accelerators() -> None:
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559",
        "topology.kubernetes.io/zone": "zone-b", "topology.kubernetes.io/rack": "r7",
    }  # fmt: skip
    (found,) = device_nodes(manifest({"cpu": "64", "nvidia.com/gpu": "8"}, labels), SETTINGS)
    node = found.node
    assert (node.name, node.device_count, node.kind, node.spine, node.rack) == ("host-1", 8, "H100", "zone-b", "r7")
    assert node.device_memory == 81559 * 2**20
    assert (found.host, found.resource, found.fault) == ("host-1", "nvidia.com/gpu", "")


def test_several_kinds_on_one_machine_are_several_nodes() -> None:
    found = device_nodes(manifest({"nvidia.com/gpu": "2", "huawei.com/Ascend910": "4"}), SETTINGS)
    assert {(one.node.name, one.node.device_count) for one in found} == {("host-1-gpu", 2), ("host-1-ascend910", 4)}
    assert {one.host for one in found} == {"host-1"}


def test_processors_are_slots_only_where_that_is_asked_for() -> None:
    without = manifest({"cpu": "7500m", "memory": "16Gi", "nvidia.com/gpu": "0"})
    assert device_nodes(without, SETTINGS) == ()
    (found,) = device_nodes(without, KubernetesSettings(cpu_slot_cores=2))
    assert (found.node.kind, found.node.device_count, found.per_device) == ("cpu", 3, 2)
    (with_gpu,) = device_nodes(manifest({"cpu": "8", "nvidia.com/gpu": "1"}), KubernetesSettings(cpu_slot_cores=2))
    assert with_gpu.resource == "nvidia.com/gpu"


def test_why_a_node_is_not_used() -> None:
    taint = {"key": "team", "value": "vision", "effect": "NoSchedule"}
    assert fault_of(manifest({}, unschedulable=True), SETTINGS) == "cordoned"
    assert fault_of(manifest({}, ready="Unknown"), SETTINGS) == "NotReady: NodeStatusUnknown"
    assert "team=vision:NoSchedule" in fault_of(manifest({}, taints=[taint]), SETTINGS)
    assert fault_of(manifest({}, taints=[{**taint, "effect": "PreferNoSchedule"}]), SETTINGS) == ""
    assert fault_of(manifest({}), SETTINGS) == ""


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "team", "operator": "Exists"}, True),
        ({"key": "team", "operator": "Equal", "value": "vision"}, True),
        ({"key": "team", "value": "speech"}, False),
        ({"key": "team", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"operator": "Exists"}, True),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_a_taint_that_is_tolerated_is_no_fault(toleration: dict[str, str], tolerated: bool) -> None:
    taint = {"key": "team", "value": "vision", "effect": "NoSchedule"}
    found = fault_of(manifest({}, taints=[taint]), KubernetesSettings(tolerations=(toleration,)))
    assert (found == "") is tolerated
