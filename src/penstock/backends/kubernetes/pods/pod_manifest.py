"""The pod of a part: a pure function of the part, its run's Secret and the settings.

Only fields that clusters from 1.20 to today share. A pod of ours runs as nobody special: no root, no further rights, no
account of the cluster; it goes to the node that placement chose and nowhere else, and asks there for what it uses, so
that the cluster's own accounting stays right.
"""

import math
from dataclasses import dataclass
from typing import Any

from penstock.backends.agent.parts import HOST_MODULE, Part
from penstock.backends.kubernetes.cluster_api import Manifest
from penstock.backends.kubernetes.labels import (
    INSTALLATION,
    JOB_ID,
    MANAGED_BY,
    NODE,
    PART,
    PENSTOCK,
    RUN,
    RUN_ID,
    SLOT,
    WORKER,
    object_name,
)
from penstock.backends.kubernetes.pods.device_claims import DeviceClaim
from penstock.backends.kubernetes.settings import KubernetesSettings
from penstock.core import ResourceLimits

CONTAINER = "worker"
SECRET_KEY = "secret"
SECRET_PLACE = "/run/penstock"
SPARE_GRACE_S = 5
"""What a pod has beyond its worker's grace: its host tells the last and leaves."""
_LOST_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_ASCEND = "huawei.com/"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOwner:
    """The Secret of a run: its pods are owned by it and go when it goes."""

    installation: str
    run_id: str
    namespace: str
    uid: str = ""

    @property
    def name(self) -> str:
        return f"penstock-{object_name(self.run_id)}-{object_name(self.installation)}"

    @property
    def labels(self) -> dict[str, str]:
        return {
            MANAGED_BY: PENSTOCK, INSTALLATION: object_name(self.installation), RUN: object_name(self.run_id)
        }  # fmt: skip

    @property
    def selector(self) -> str:
        """Of everything that is the run's."""
        return ",".join(f"{name}={value}" for name, value in self.labels.items())

    def pod_name(self, part: str) -> str:
        return f"{self.name}-{part}"

    def reference(self) -> Manifest:
        return {"apiVersion": "v1", "kind": "Secret", "name": self.name, "uid": self.uid}


def secret_manifest(owner: RunOwner, secret: str) -> Manifest:
    """What lets the hosts of a run in at their agent."""
    return {
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {
            "name": owner.name, "namespace": owner.namespace, "labels": owner.labels,
            "annotations": {RUN_ID: owner.run_id},
        },
        "stringData": {SECRET_KEY: secret},
    }  # fmt: skip


def pod_manifest(part: Part, owner: RunOwner, settings: KubernetesSettings) -> Manifest:
    claim = DeviceClaim.of(dict(part.worker.device_env))
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": owner.pod_name(part.name), "namespace": owner.namespace,
            "labels": {**owner.labels, WORKER: object_name(part.worker.id)},
            "annotations": _annotations(part),
            "ownerReferences": [owner.reference()],
        },
        "spec": _given(
            restartPolicy="Never",
            terminationGracePeriodSeconds=math.ceil(part.launch.grace_s) + SPARE_GRACE_S,
            automountServiceAccountToken=False,
            enableServiceLinks=False,
            affinity=_on_host(claim.host),
            tolerations=_tolerations(settings),
            priorityClassName=settings.priority_class,
            imagePullSecrets=[{"name": name} for name in settings.image_pull_secrets],
            securityContext=_pod_security(settings),
            containers=[_container(part, claim, settings)],
            volumes=_volumes(owner, settings),
        ),
    }  # fmt: skip


def _annotations(part: Part) -> dict[str, str]:
    worker, launch = part.worker, part.launch
    own = {RUN_ID: part.run_id, JOB_ID: launch.job_id, PART: part.name}
    return {**own, NODE: worker.node, SLOT: str(worker.slot)}


def _container(part: Part, claim: DeviceClaim, settings: KubernetesSettings) -> Manifest:
    return {
        "name": CONTAINER, "image": _image(part, claim, settings), "imagePullPolicy": settings.image_pull_policy,
        "command": [settings.python, "-P", "-m", HOST_MODULE], "env": _variables(part, claim),
        "resources": _resources(claim, settings, part.launch.limits),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
            {"name": "run-secret", "mountPath": SECRET_PLACE, "readOnly": True},
            {"name": "shared-memory", "mountPath": "/dev/shm"},
            *(_mount(one) for one in settings.volumes),
        ],
    }  # fmt: skip


def _image(part: Part, claim: DeviceClaim, settings: KubernetesSettings) -> str:
    container = part.launch.container
    return container.image if container is not None else settings.image_for(claim.kind)


def _mount(volume: Manifest) -> Manifest:
    return _given(
        name=volume["name"], mountPath=volume["mountPath"], readOnly=volume.get("readOnly"),
        subPath=volume.get("subPath"),
    )  # fmt: skip


def _variables(part: Part, claim: DeviceClaim) -> list[Manifest]:
    """Of the worker's host; what the worker itself sees, torchrun's variables among it, comes over the host's line."""
    plain = {**part.host_environment(), "PENSTOCK_SECRET_FILE": f"{SECRET_PLACE}/{SECRET_KEY}"}
    if claim.resource.startswith(_ASCEND):
        plain["HCCL_WHITELIST_DISABLE"] = "1"
    fields = {"PENSTOCK_POD": "metadata.name", "PENSTOCK_POD_IP": "status.podIP", "PENSTOCK_NODE": "spec.nodeName"}
    if claim.resource.startswith(_ASCEND):
        fields["HCCL_IF_IP"] = "status.podIP"
    return [
        *({"name": name, "value": value} for name, value in plain.items()),
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
    ]


def _resources(claim: DeviceClaim, settings: KubernetesSettings, limited: ResourceLimits) -> Manifest:
    """What the job file limits is asked for and not exceeded; else the settings say what comes with a device."""
    if claim.is_cpu:
        asked = {"cpu": f"{claim.amount:g}"}
    else:
        asked = {claim.resource: f"{claim.amount:g}"}
        if settings.cpus_per_device:
            asked["cpu"] = f"{settings.cpus_per_device:g}"
    if settings.memory_per_device:
        asked["memory"] = settings.memory_per_device
    if limited.memory_bytes is not None:
        asked["memory"] = str(limited.memory_bytes)
    if limited.cpus is not None:
        asked["cpu"] = f"{limited.cpus:g}"
    limits = {name: amount for name, amount in asked.items() if name != "cpu" or limited.cpus is not None}
    return _given(requests=asked, limits=limits)


def _on_host(host: str) -> Manifest:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [host]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def _tolerations(settings: KubernetesSettings) -> list[Manifest]:
    patience = round(settings.node_lost_after_s)
    lost = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": patience}
        for key in _LOST_NODE_TAINTS
    ]
    return [*settings.tolerations, *lost]


def _pod_security(settings: KubernetesSettings) -> Manifest:
    user = settings.run_as_user
    return {
        "runAsNonRoot": True, "runAsUser": user, "runAsGroup": user, "fsGroup": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip


def _volumes(owner: RunOwner, settings: KubernetesSettings) -> list[Manifest]:
    own = {"mountPath", "readOnly", "subPath"}
    return [
        {"name": "run-secret", "secret": {"secretName": owner.name, "defaultMode": 0o440}},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": settings.shared_memory}},
        *({key: value for key, value in one.items() if key not in own} for one in settings.volumes),
    ]


def _given(**values: Any) -> Manifest:
    """Without what is empty."""
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}
