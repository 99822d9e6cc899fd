"""An installation applied to a real API server, and what its account may and may not do there."""

import subprocess
from pathlib import Path
from typing import Any

from penstock.serve import Installation, apply_installation, write_installation
from tests.tools.kubernetes import ControlPlane
from tests.tools.needs import engine


def may(plane: ControlPlane, verb: str, resource: str, namespace: str, group: str = "") -> bool:
    """Whether the server of the installation "deployed" may do something."""
    resource, _, part = resource.partition("/")
    asked = {"verb": verb, "resource": resource, "subresource": part, "namespace": namespace, "group": group}
    spec = {"user": "system:serviceaccount:deployed:penstock", "resourceAttributes": asked}
    said: dict[str, Any] = plane.rest().post(
        "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"kind": "SubjectAccessReview", "spec": spec}
    )
    return bool(said["status"]["allowed"])


def test_an_installation_is_applied_and_applied_again(control_plane: ControlPlane) -> None:
    wanted = Installation(namespace="deployed", postgres=True)
    kubeconfig = str(control_plane.kubeconfig)
    applied = apply_installation(wanted, kubeconfig=kubeconfig)
    assert "CustomResourceDefinition/penstockjobs.penstock.dev" in applied
    secret = "/api/v1/namespaces/deployed/secrets/penstock-database"
    before = control_plane.rest().get(secret)["data"]
    assert apply_installation(wanted, kubeconfig=kubeconfig) == applied
    assert control_plane.rest().get(secret)["data"] == before
    for verb, resource, namespace, group in [
        ("create", "pods", "deployed", ""), ("delete", "secrets", "deployed", ""), ("watch", "pods", "", ""),
        ("get", "nodes", "", ""), ("patch", "penstockjobs/status", "deployed", "penstock.dev"),
    ]:  # fmt: skip
        assert may(control_plane, verb, resource, namespace, group), (verb, resource)
    for verb, resource, namespace in [
        ("create", "pods", "default"), ("get", "secrets", "default"), ("create", "deployments", "deployed"),
        ("patch", "nodes", ""), ("create", "pods/exec", "deployed"), ("create", "clusterroles", ""),
    ]:  # fmt: skip
        assert not may(control_plane, verb, resource, namespace), (verb, resource)


def test_what_was_written_is_taken_by_kubectl(control_plane: ControlPlane, tmp_path: Path) -> None:
    kubectl = engine("kubectl", how="apt-get install kubernetes-client (Debian 12) or kubectl (Debian 13)")
    write_installation(Installation(namespace="written"), tmp_path)
    kubeconfig = f"--kubeconfig={control_plane.kubeconfig}"
    done = subprocess.run(
        [kubectl, kubeconfig, "apply", "-k", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "deployment.apps/penstock created" in done.stdout
