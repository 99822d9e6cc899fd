"""The tests' own kubelet behaves as one, as far as anybody looks: what later tests say rests on this."""

import sys
from typing import Any

from penstock.backends.testing import until
from tests.tools.kubernetes import Testbed

CAREFUL = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), sys.exit(7)))
print('here', flush=True)
time.sleep(600)
"""


def run_pod(testbed: Testbed, name: str, code: str, **spec: Any) -> None:
    limits = spec.pop("limits", {})
    container = {
        "name": "main", "image": spec.pop("image", "python"), "command": [sys.executable, "-c", code],
        "env": spec.pop("env", []), "resources": {"limits": limits},
    }  # fmt: skip
    body = {"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [container], **spec}}
    testbed.rest.post(f"/api/v1/namespaces/{testbed.namespace}/pods", body)


def pod(testbed: Testbed, name: str) -> dict[str, Any]:
    return testbed.rest.find(testbed.pod_path(name)) or {}


def phase(testbed: Testbed, name: str) -> str:
    return str(pod(testbed, name).get("status", {}).get("phase"))


def state(testbed: Testbed, name: str) -> dict[str, Any]:
    found: dict[str, Any] = pod(testbed, name)["status"]["containerStatuses"][0]["state"]
    return found


def test_pods_run_with_devices_variables_and_secrets_and_end_with_their_code(testbed: Testbed) -> None:
    secrets = f"/api/v1/namespaces/{testbed.namespace}/secrets"
    testbed.rest.post(secrets, {"metadata": {"name": "s"}, "stringData": {"key": "hidden"}})
    code = (
        "import os, sys; e = os.environ; print(e['A'], e['B'], e['C'], len(e['NVIDIA_VISIBLE_DEVICES'].split(',')),"
        " open(e['FILE']).read()); sys.exit(3)"
    )
    variables = [
        {"name": "A", "value": "plain"}, {"name": "B", "value": "$(A)-again"}, {"name": "FILE", "value": "/s/key"},
        {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]  # fmt: skip
    container = {
        "name": "main", "image": "python", "command": [sys.executable, "-c", code], "env": variables,
        "resources": {"limits": {"nvidia.com/gpu": "2"}}, "volumeMounts": [{"name": "s", "mountPath": "/s"}],
    }  # fmt: skip
    spec = {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "s", "secret": {"secretName": "s"}}],
    }
    testbed.rest.post(f"/api/v1/namespaces/{testbed.namespace}/pods", {"metadata": {"name": "p"}, "spec": spec})
    until(lambda: phase(testbed, "p") == "Failed", "the pod's end")
    assert state(testbed, "p")["terminated"]["exitCode"] == 3
    assert testbed.rest.text(f"{testbed.pod_path('p')}/log") == "plain plain-again p 2 hidden\n"


def test_a_deleted_pod_has_its_grace_and_the_next_one_its_device(testbed: Testbed) -> None:
    run_pod(testbed, "p", CAREFUL, limits={"nvidia.com/gpu": "2"}, nodeName=testbed.nodes[0])
    until(lambda: phase(testbed, "p") == "Running", "a running pod")
    until(lambda: "here" in testbed.rest.text(f"{testbed.pod_path('p')}/log"), "its output")
    testbed.rest.delete(testbed.pod_path("p"), gracePeriodSeconds=20)
    until(lambda: not pod(testbed, "p"), "the pod to be gone")
    run_pod(testbed, "q", "pass", limits={"nvidia.com/gpu": "2"}, nodeName=testbed.nodes[0])
    until(lambda: phase(testbed, "q") == "Succeeded", "the next pod")


def test_what_does_not_fit_or_cannot_be_pulled_waits_with_words(testbed: Testbed) -> None:
    run_pod(testbed, "big", "pass", limits={"nvidia.com/gpu": "3"})
    run_pod(testbed, "odd", "pass", image="no-such/image:1")
    until(lambda: "conditions" in pod(testbed, "big")["status"], "the scheduler's word")
    assert pod(testbed, "big")["status"]["conditions"][0]["reason"] == "Unschedulable"
    until(lambda: pod(testbed, "odd")["status"].get("containerStatuses"), "the kubelet's word")
    assert state(testbed, "odd")["waiting"]["reason"] == "ErrImagePull"


def test_too_much_memory_ends_a_container_and_a_policy_starts_it_again(testbed: Testbed) -> None:
    run_pod(testbed, "fat", "x = bytearray(2**28); import time; time.sleep(60)", limits={"memory": "100Mi"})
    run_pod(testbed, "often", "import sys; sys.exit(1)", restartPolicy="OnFailure")
    until(lambda: phase(testbed, "fat") == "Failed", "the pod's end")
    terminated = state(testbed, "fat")["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (137, "OOMKilled")
    until(lambda: pod(testbed, "often")["status"]["containerStatuses"][0]["restartCount"] >= 2, "restarts")


def test_a_silent_node_is_given_up_and_comes_back(testbed: Testbed) -> None:
    node = testbed.nodes[1]

    def ready() -> str:
        conditions = testbed.rest.get(f"/api/v1/nodes/{node}")["status"]["conditions"]
        return str(next(one["status"] for one in conditions if one["type"] == "Ready"))

    until(lambda: ready() == "True", "a ready node")
    testbed.kubelet.silence(node)
    until(lambda: ready() == "Unknown", "the cluster to give the node up")
    testbed.kubelet.speak(node)
    until(lambda: ready() == "True", "the node to be back")
