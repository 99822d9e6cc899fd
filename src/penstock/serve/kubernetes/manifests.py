"""Everything of an installation in a cluster, as plain manifests that ``kustomize`` can change.

The server's rights are what it uses and no more: pods and their Secrets in its own namespace, jobs there, and a look at
nodes and pods of the whole cluster, because what others hold is not free. Workers have no account at all.
"""

from dataclasses import dataclass
from typing import Any

from penstock.serve.kubernetes.job_schema import GROUP, PLURAL

Manifest = dict[str, Any]

NAME = "penstock"
PORT = 8080
USER = 10001
"""Whom the server runs as: not whom jobs run as, so that they cannot read what it keeps."""
SAVING_S, ENDING_S = 120, 60
"""How long runs may take to save when the server's pod is to go, and what the server needs besides."""
DATA = "/var/lib/penstock"
SHARED = "/shared"
_SERVER = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "server"}
_WORKERS = {"app.kubernetes.io/managed-by": NAME}
_DATABASE = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "database"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What may differ from one to the next. ``storage_class`` empty takes the cluster's default one."""

    namespace: str = NAME
    image: str = "penstock:latest"
    cpu_slot_cores: float = 0.0
    postgres: bool = False
    postgres_password: str = ""
    postgres_image: str = "postgres:16"
    storage_class: str = ""
    shared_storage: str = "100Gi"


def manifests(wanted: Installation, job_resource: Manifest) -> dict[str, list[Manifest]]:
    """By the name of the file they belong into, in the order in which they are applied."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": wanted.namespace}}
    return {
        "namespace.yaml": [namespace],
        "custom-resource.yaml": [job_resource],
        "rights.yaml": _rights(wanted),
        "storage.yaml": _storage(wanted),
        "config.yaml": [_config(wanted)],
        **({"postgres.yaml": _postgres(wanted)} if wanted.postgres else {}),
        "server.yaml": [_server(wanted), _service(wanted, _SERVER, NAME, PORT)],
        "network.yaml": _network(wanted),
    }


def kustomization(wanted: Installation, files: list[str]) -> Manifest:
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "namespace": wanted.namespace,
        "resources": files,
    }  # fmt: skip


def _about(wanted: Installation, name: str, labels: dict[str, str] | None = None) -> Manifest:
    return {"name": name, "namespace": wanted.namespace, "labels": labels or {"app.kubernetes.io/name": NAME}}


def _rights(wanted: Installation) -> list[Manifest]:
    own = [
        _rule("", "pods", "get", "list", "watch", "create", "delete"),
        _rule("", "secrets", "get", "list", "create", "patch", "delete"),
        _rule(GROUP, PLURAL, "get", "list", "watch", "patch"),
        _rule(GROUP, f"{PLURAL}/status", "patch"),
        _rule("", "events", "create"),
        _rule("coordination.k8s.io", "leases", "get", "create", "patch"),
    ]
    everywhere = [_rule("", "nodes", "get", "list", "watch"), _rule("", "pods", "list", "watch")]
    cluster_name = f"{NAME}-{wanted.namespace}"
    api = "rbac.authorization.k8s.io/v1"
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": wanted.namespace}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _about(wanted, NAME)},
        {"apiVersion": api, "kind": "Role", "metadata": _about(wanted, NAME), "rules": own},
        {
            "apiVersion": api, "kind": "RoleBinding", "metadata": _about(wanted, NAME), "subjects": [account],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
        },
        {"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": cluster_name}, "rules": everywhere},
        {
            "apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": cluster_name}, "subjects": [account],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": cluster_name},
        },
    ]  # fmt: skip


def _rule(group: str, resource: str, *verbs: str) -> Manifest:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


def _storage(wanted: Installation) -> list[Manifest]:
    claims = [_claim(wanted, "penstock-data", "ReadWriteOnce", "10Gi")]
    return [*claims, _claim(wanted, "penstock-shared", "ReadWriteMany", wanted.shared_storage)]


def _claim(wanted: Installation, name: str, access: str, size: str) -> Manifest:
    spec: Manifest = {"accessModes": [access], "resources": {"requests": {"storage": size}}}
    if wanted.storage_class:
        spec["storageClassName"] = wanted.storage_class
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": _about(wanted, name), "spec": spec}


def _config(wanted: Installation) -> Manifest:
    claim = 'persistentVolumeClaim = { claimName = "penstock-shared" }'
    lines = [
        'backend = "kubernetes"', 'host = "0.0.0.0"', f"port = {PORT}", "exposed = true", f'data_dir = "{DATA}"',
        f'save_on_stop = "{SAVING_S}s"',
        *(
            [f'database = "postgresql+psycopg://{NAME}@{NAME}-database/{NAME}"',
             'database_password_file = "/run/penstock-database/password"']
            if wanted.postgres else []
        ),
        "", "[backend_settings]", f'namespace = "{wanted.namespace}"', f'image = "{wanted.image}"',
        f"cpu_slot_cores = {wanted.cpu_slot_cores:g}",
        f'cache_dir = "{SHARED}/environments"',
        "volumes = [",
        f'  {{ name = "shared", mountPath = "{SHARED}", {claim} }},',
        f'  {{ name = "checkpoints", mountPath = "{DATA}/checkpoints", subPath = "checkpoints", {claim} }},',
        "]", "",
    ]  # fmt: skip
    return {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": _about(wanted, NAME),
        "data": {"penstock.toml": "\n".join(lines)},
    }  # fmt: skip


def _server(wanted: Installation) -> Manifest:
    mounts = [
        {"name": "config", "mountPath": "/etc/penstock"}, {"name": "data", "mountPath": DATA},
        {"name": "shared", "mountPath": SHARED},
        {"name": "shared", "mountPath": f"{DATA}/checkpoints", "subPath": "checkpoints"},
    ]  # fmt: skip
    volumes: list[Manifest] = [
        {"name": "config", "configMap": {"name": NAME}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "penstock-data"}},
        {"name": "shared", "persistentVolumeClaim": {"claimName": "penstock-shared"}},
    ]
    if wanted.postgres:
        mounts.append({"name": "database", "mountPath": "/run/penstock-database"})
        volumes.append({"name": "database", "secret": {"secretName": f"{NAME}-database", "defaultMode": 0o440}})
    container = {
        "name": "server", "image": wanted.image, "args": ["serve", "--config", "/etc/penstock/penstock.toml"],
        "command": ["penstock"], "ports": [{"containerPort": PORT, "name": "http"}],
        "env": [{"name": "PENSTOCK_DATA_DIR", "value": DATA}],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "failureThreshold": 6},
        "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": mounts,
    }  # fmt: skip
    pod = {
        "serviceAccountName": NAME, "containers": [container], "volumes": volumes,
        "terminationGracePeriodSeconds": SAVING_S + ENDING_S,
        "securityContext": {"runAsNonRoot": True, "runAsUser": USER, "runAsGroup": 1000, "fsGroup": 1000},
    }  # fmt: skip
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": _about(wanted, NAME, _SERVER),
        "spec": {
            "replicas": 1, "strategy": {"type": "Recreate"}, "selector": {"matchLabels": _SERVER},
            "template": {"metadata": {"labels": _SERVER}, "spec": pod},
        },
    }  # fmt: skip


def _service(wanted: Installation, labels: dict[str, str], name: str, port: int) -> Manifest:
    return {
        "apiVersion": "v1", "kind": "Service", "metadata": _about(wanted, name, labels),
        "spec": {"selector": labels, "ports": [{"port": port, "targetPort": port, "protocol": "TCP"}]},
    }  # fmt: skip


def _network(wanted: Installation) -> list[Manifest]:
    """Workers hear each other and their agents; agents, which live beside the server, hear workers on any port."""
    server, workers = {"podSelector": {"matchLabels": _SERVER}}, {"podSelector": {"matchLabels": _WORKERS}}
    api = {"ports": [{"port": PORT, "protocol": "TCP"}]}
    policies = [
        _policy(wanted, "penstock-workers", _WORKERS, [{"from": [workers, server]}]),
        _policy(wanted, "penstock-server", _SERVER, [api, {"from": [workers]}]),
    ]
    if wanted.postgres:
        policies.append(_policy(wanted, "penstock-database", _DATABASE, [{"from": [server]}]))
    return policies


def _policy(wanted: Installation, name: str, labels: dict[str, str], ingress: list[Manifest]) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": _about(wanted, name),
        "spec": {"podSelector": {"matchLabels": labels}, "policyTypes": ["Ingress"], "ingress": ingress},
    }  # fmt: skip


def _postgres(wanted: Installation) -> list[Manifest]:
    name = f"{NAME}-database"
    password = {"secretKeyRef": {"name": name, "key": "password"}}
    container = {
        "name": "postgres", "image": wanted.postgres_image, "ports": [{"containerPort": 5432}],
        "env": [
            {"name": "POSTGRES_USER", "value": NAME}, {"name": "POSTGRES_DB", "value": NAME},
            {"name": "POSTGRES_PASSWORD", "valueFrom": password},
            {"name": "PGDATA", "value": "/var/lib/postgresql/data/pgdata"},
        ],
        "volumeMounts": [{"name": "data", "mountPath": "/var/lib/postgresql/data"}],
    }  # fmt: skip
    claim = _claim(wanted, "data", "ReadWriteOnce", "10Gi")
    template = {"metadata": {"name": "data"}, "spec": claim["spec"]}
    return [
        {
            "apiVersion": "v1", "kind": "Secret", "metadata": _about(wanted, name), "type": "Opaque",
            "stringData": {"password": wanted.postgres_password},
        },
        {
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": _about(wanted, name, _DATABASE),
            "spec": {
                "serviceName": name, "replicas": 1, "selector": {"matchLabels": _DATABASE},
                "template": {"metadata": {"labels": _DATABASE}, "spec": {"containers": [container]}},
                "volumeClaimTemplates": [template],
            },
        },
        _service(wanted, _DATABASE, name, 5432),
    ]  # fmt: skip
