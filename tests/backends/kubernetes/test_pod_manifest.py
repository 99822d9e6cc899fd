"""A pod is a pure function of its part: what it asks for, where it goes, as whom it runs, what it may know."""

import json
from dataclasses import replace
from typing import Any

import pytest

from penstock.backends.agent.parts import Part
from penstock.backends.kubernetes.cluster_nodes import DeviceNode
from penstock.backends.kubernetes.pods.device_claims import DeviceClaim
from penstock.backends.kubernetes.pods.pod_manifest import RunOwner, pod_manifest, secret_manifest
from penstock.backends.kubernetes.settings import KubernetesSettings
from penstock.core import AgentAddress, Container, Launch, Node, ResourceLimits, Worker

OWNER = RunOwner(installation="ab12", run_id="run-1", namespace="training", uid="uid-of-the-secret")
GPU = DeviceClaim(host="host-3", resource="nvidia.com/gpu", kind="A100")


def part(claim: DeviceClaim = GPU) -> Part:
    worker = Worker(id="w0", rank=0, node="host-3", slot=2, device_env=claim.variables())
    launch = Launch(run_id="run-1", job_id="job-1", command=("python3", "train.py"), workers=(worker,), grace_s=20.0)
    agent = AgentAddress(host="10.0.0.5", port=4711)
    return Part(name="w0-0", worker=worker, launch=launch, agent=agent, secret="not to be seen")


def built(claim: DeviceClaim = GPU, **settings: Any) -> dict[str, Any]:
    return pod_manifest(part(claim), OWNER, KubernetesSettings(**settings))


def variables(pod: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in pod["spec"]["containers"][0]["env"]}


def test_a_pod_goes_with_its_run_to_the_chosen_node_and_asks_for_its_device() -> None:
    pod = built()
    assert pod["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Secret", "name": OWNER.name, "uid": "uid-of-the-secret"}
    ]
    (term,) = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["host-3"]}]}
    one = {"nvidia.com/gpu": "1"}
    assert pod["spec"]["containers"][0]["resources"] == {"requests": one, "limits": one}
    assert pod["spec"]["terminationGracePeriodSeconds"] == 25
    assert pod["spec"]["restartPolicy"] == "Never"


def test_the_pod_of_a_worker_without_a_device_asks_for_a_core_of_the_same_machine() -> None:
    node = DeviceNode(
        node=Node(name="host-3", device_count=8, kind="A100"), host="host-3", resource="nvidia.com/gpu", per_device=1.0
    )
    pod = built(DeviceClaim.core_beside(node), images={"A100": "train:a100"}, cpus_per_device=12)
    assert pod["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}}
    assert pod["spec"]["containers"][0]["image"] == "train:a100"
    assert "host-3" in json.dumps(pod["spec"]["affinity"])


def test_the_secret_is_in_the_secret_alone() -> None:
    assert "not to be seen" not in json.dumps(built())
    assert secret_manifest(OWNER, "not to be seen")["stringData"] == {"secret": "not to be seen"}
    assert variables(built())["PENSTOCK_SECRET_FILE"] == "/run/penstock/secret"


def test_a_pod_has_no_rights() -> None:
    spec = built()["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}
    }  # fmt: skip


def test_settings_reach_the_pod() -> None:
    data = {"name": "data", "mountPath": "/data", "readOnly": True, "persistentVolumeClaim": {"claimName": "data"}}
    pod = built(
        image="ours:1", images={"A100": "ours:cuda"}, image_pull_secrets=("registry",), priority_class="low",
        volumes=(data,), tolerations=({"key": "gpu", "operator": "Exists"},), memory_per_device="64Gi",
        cpus_per_device=6, shared_memory="32Gi", node_lost_after_s=12,
    )["spec"]  # fmt: skip
    container = pod["containers"][0]
    assert container["image"] == "ours:cuda"
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["priorityClassName"] == "low"
    assert {"name": "data", "mountPath": "/data", "readOnly": True} in container["volumeMounts"]
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "data"}} in pod["volumes"]
    assert pod["tolerations"][0] == {"key": "gpu", "operator": "Exists"}
    assert {one.get("tolerationSeconds") for one in pod["tolerations"][1:]} == {12}
    assert container["resources"]["requests"] == {"nvidia.com/gpu": "1", "cpu": "6", "memory": "64Gi"}
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "1", "memory": "64Gi"}
    shared = next(one for one in pod["volumes"] if one["name"] == "shared-memory")
    assert shared["emptyDir"] == {"medium": "Memory", "sizeLimit": "32Gi"}


def test_a_slot_of_processor_cores_is_a_request_without_a_limit() -> None:
    cores = DeviceClaim(host="host-3", resource="cpu", kind="cpu", amount=2.0)
    assert built(cores)["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "2"}}
    assert dict(cores.variables())["OMP_NUM_THREADS"] == "2"


def test_an_npu_gets_what_its_collectives_need() -> None:
    seen = variables(built(DeviceClaim(host="host-3", resource="huawei.com/Ascend910", kind="Ascend910")))
    assert seen["HCCL_WHITELIST_DISABLE"] == "1"
    assert seen["HCCL_IF_IP"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert "HCCL_IF_IP" not in variables(built())


@pytest.mark.parametrize("run_id", ["run-1", "Run_7.of-MANY", "x" * 128])
def test_any_run_has_names_that_a_cluster_takes(run_id: str) -> None:
    owner = RunOwner(installation="ab12", run_id=run_id, namespace="training")
    name = owner.pod_name("w0-0")
    assert len(name) <= 253
    assert all(letter.isalnum() or letter == "-" for letter in name)
    assert name == name.lower()
    assert all(len(value) <= 63 for value in owner.labels.values())


def test_a_job_brings_its_own_image_and_limits() -> None:
    launch = replace(
        part().launch, container=Container(image="theirs:2"), limits=ResourceLimits(memory_bytes=2**30, cpus=3)
    )
    pod = pod_manifest(replace(part(), launch=launch), OWNER, KubernetesSettings(images={"A100": "ours:cuda"}))
    container = pod["spec"]["containers"][0]
    assert container["image"] == "theirs:2"
    assert container["resources"] == {
        "requests": {"nvidia.com/gpu": "1", "memory": str(2**30), "cpu": "3"},
        "limits": {"nvidia.com/gpu": "1", "memory": str(2**30), "cpu": "3"},
    }
