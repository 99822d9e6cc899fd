"""An installation written to a directory, or applied to a cluster at once."""

import secrets
from dataclasses import replace
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

import yaml

from penstock.core import InputError
from penstock.serve.kubernetes.job_schema import job_resource
from penstock.serve.kubernetes.manifests import Installation, Manifest, kustomization, manifests
from penstock.tools import write_atomically

_PLURALS = {"NetworkPolicy": "networkpolicies"}
_CLUSTER_WIDE = frozenset({"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"})


def _with_password(wanted: Installation) -> Installation:
    if wanted.postgres and not wanted.postgres_password:
        return replace(wanted, postgres_password=secrets.token_urlsafe(24))
    return wanted


def _all(wanted: Installation) -> dict[str, list[Manifest]]:
    from penstock.spec import json_schema

    return manifests(_with_password(wanted), job_resource(json_schema()))


def write_installation(wanted: Installation, directory: Path) -> list[Path]:
    """One file for each subject, a kustomization and a Dockerfile; returns what was written."""
    files = _all(wanted)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, objects in files.items():
            mode = 0o600 if any(one["kind"] == "Secret" for one in objects) else 0o644
            write_atomically(directory / name, _documents(objects), mode=mode)
        write_atomically(directory / "kustomization.yaml", _documents([kustomization(wanted, list(files))]))
        write_atomically(directory / "Dockerfile", dockerfile())
    except OSError as error:
        raise InputError(f"{directory} cannot be written: {error.strerror}", "a directory of yours") from None
    return [directory / name for name in (*files, "kustomization.yaml", "Dockerfile")]


def apply_installation(wanted: Installation, *, context: str = "", kubeconfig: str = "") -> list[str]:
    """Create what is missing and change what differs; returns the names of all objects."""
    from penstock.backends import ClusterApi

    api = ClusterApi(context=context, kubeconfig=kubeconfig)
    applied = []
    for objects in _all(wanted).values():
        for one in objects:
            path = path_of(one)
            if one["kind"] != "Secret" or api.find(path) is None:
                api.apply(path, one)
            applied.append(f"{one['kind']}/{one['metadata']['name']}")
    return applied


def dockerfile() -> str:
    return (package_files("penstock.serve.kubernetes") / "Dockerfile").read_text(encoding="utf-8")


def path_of(manifest: dict[str, Any]) -> str:
    """Where an object lies in the API."""
    version, kind, about = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    place = "" if kind in _CLUSTER_WIDE else f"/namespaces/{about['namespace']}"
    return f"{base}{place}/{_PLURALS.get(kind, kind.lower() + 's')}/{about['name']}"


def _documents(objects: list[Manifest]) -> str:
    return yaml.safe_dump_all(objects, sort_keys=False)
