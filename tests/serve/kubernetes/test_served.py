"""A server on a cluster: what `kubectl apply` submits runs as pods, and the object says what became of it."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.backends.testing import until
from penstock.client import Client, ensure_server
from penstock.serve import Installation, apply_installation
from tests.control.serving import end_everything_on
from tests.tools.kubernetes import ControlPlane, Testbed, opened_testbed

GROUP = "/apis/penstock.dev/v1alpha1/namespaces"


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    apply_installation(Installation(namespace="deployed"), kubeconfig=str(control_plane.kubeconfig))
    with opened_testbed(control_plane, tmp_path_factory.mktemp("site"), [{"nvidia.com/gpu": "2"}] * 2) as testbed:
        yield testbed


@pytest.fixture(scope="module")
def client(cluster: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Of a server that uses the cluster."""
    data = tmp_path_factory.mktemp("data")
    (data / "penstock.toml").write_text(cluster.server_settings())
    try:
        with ensure_server(data) as client:
            yield client
    finally:
        end_everything_on(data)


def path(testbed: Testbed, name: str = "") -> str:
    return f"{GROUP}/{testbed.namespace}/penstockjobs" + (f"/{name}" if name else "")


def apply(testbed: Testbed, name: str, **spec: Any) -> None:
    body = {"apiVersion": "penstock.dev/v1alpha1", "kind": "PenstockJob", "metadata": {"name": name}, "spec": spec}
    testbed.rest.post(path(testbed), body)


def status(testbed: Testbed, name: str) -> dict[str, Any]:
    found: dict[str, Any] = testbed.rest.get(path(testbed, name)).get("status") or {}
    return found


def conditions(testbed: Testbed, name: str) -> dict[str, dict[str, Any]]:
    return {one["type"]: one for one in status(testbed, name).get("conditions", ())}


def test_an_object_becomes_a_job_and_tells_its_story(client: Client, cluster: Testbed) -> None:
    apply(cluster, "brief", command=["sh", "-c", "echo done on $PENSTOCK_DEVICE_KIND"], work="1 steps", devices=2)
    until(lambda: status(cluster, "brief").get("state") == "finished", "the job's end")
    told = status(cluster, "brief")
    job = client.job(told["job"])
    assert job.name == "brief"
    assert told["quote"]["verdict"] == "best effort"
    assert {one["type"]: one["status"] for one in told["conditions"]} == {"Accepted": "True", "Complete": "True"}
    assert "done on gpu" in client.logs(told["job"]).text
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{cluster.namespace}/leases"
    assert cluster.rest.get(f"{leases}/penstock")["spec"]["holderIdentity"].startswith(socket.gethostname())


def test_a_changed_spec_is_answered_with_what_to_do_and_changes_are_told_as_events(
    client: Client, cluster: Testbed
) -> None:
    apply(cluster, "edited", command=["sleep", "600"], work="1 steps", devices=1)
    until(lambda: status(cluster, "edited").get("devices") == 1, "a running job")
    cluster.rest.patch(path(cluster, "edited"), {"spec": {"devices": 2}})
    until(lambda: "AsSubmitted" in conditions(cluster, "edited"), "the condition")
    assert "delete the object and apply it again" in conditions(cluster, "edited")["AsSubmitted"]["message"]
    assert len(client.job(status(cluster, "edited")["job"]).devices) == 1
    cluster.rest.delete(path(cluster, "edited"))
    until(lambda: cluster.rest.find(path(cluster, "edited")) is None, "the object to be gone")
    events = cluster.rest.get(f"/api/v1/namespaces/{cluster.namespace}/events")["items"]
    told = {one["reason"] for one in events if one["involvedObject"]["name"] == "edited"}
    assert "Running" in told


def test_deleting_the_object_cancels_the_job_and_leaves_nothing(client: Client, cluster: Testbed) -> None:
    apply(cluster, "long", command=["sleep", "600"], work="1 steps", devices=3)
    until(lambda: status(cluster, "long").get("devices") == 3, "a running job")
    until(lambda: len(cluster.pods()) == 3, "its pods")
    job = status(cluster, "long")["job"]
    cluster.rest.delete(path(cluster, "long"))
    until(lambda: cluster.rest.find(path(cluster, "long")) is None, "the object to be gone")
    until(lambda: cluster.pods() == [], "its pods to be gone")
    until(lambda: client.job(job).state == "cancelled", "the job to be cancelled")


def test_what_cannot_be_is_refused_in_the_objects_status(client: Client, cluster: Testbed) -> None:
    apply(cluster, "wrong", comand=["true"])
    until(lambda: status(cluster, "wrong").get("state") == "refused", "the refusal")
    assert "command" in status(cluster, "wrong")["reason"]
    right = {"comand": None, "command": ["true"], "work": "1 steps", "devices": 1}
    cluster.rest.patch(path(cluster, "wrong"), {"spec": right})
    until(lambda: status(cluster, "wrong").get("state") == "finished", "the corrected one to be run")


def test_whose_job_it_is_is_not_for_the_object_to_say(client: Client, cluster: Testbed) -> None:
    labelled = {"name": "theirs", "labels": {"penstock.dev/tenant": "somebody"}}
    spec = {"command": ["true"], "work": "1 steps"}
    body = {"apiVersion": "penstock.dev/v1alpha1", "kind": "PenstockJob", "metadata": labelled, "spec": spec}
    cluster.rest.post(path(cluster), body)
    until(lambda: status(cluster, "theirs").get("state") == "refused", "the refusal")
    assert "tenant 'somebody'" in status(cluster, "theirs")["reason"]


def test_nodes_tell_why_they_are_not_used(client: Client, cluster: Testbed) -> None:
    node = cluster.nodes[0]
    cluster.rest.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    try:
        until(lambda: {one.name: one.unusable for one in client.nodes()}[node] == ["cordoned"], "the reason")
    finally:
        cluster.rest.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": False}})
