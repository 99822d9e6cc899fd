"""An installation as plain manifests: what is in it, with how few rights, and what kustomize finds."""

import tomllib
from pathlib import Path
from typing import Any

import yaml

from penstock.backends import KubernetesSettings
from penstock.serve import Installation, write_installation
from penstock.serve.kubernetes.job_schema import job_resource, structural
from penstock.serve.kubernetes.manifests import manifests
from penstock.spec import json_schema


def objects(wanted: Installation) -> dict[tuple[str, str], dict[str, Any]]:
    found = [one for each in manifests(wanted, job_resource(json_schema())).values() for one in each]
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def test_the_configuration_in_the_cluster_is_one_that_the_server_reads() -> None:
    config = objects(Installation(namespace="training", image="ours:1", cpu_slot_cores=2))["ConfigMap", "penstock"]
    read = tomllib.loads(config["data"]["penstock.toml"])
    settings = KubernetesSettings.of(read["backend_settings"])
    assert (read["backend"], settings.namespace, settings.image) == ("kubernetes", "training", "ours:1")
    assert [volume["mountPath"] for volume in settings.volumes] == ["/shared", "/var/lib/penstock/checkpoints"]


def test_the_server_may_do_what_it_does_and_workers_nothing() -> None:
    found = objects(Installation())
    rules = {
        resource: set(rule["verbs"])
        for kind in ("Role", "ClusterRole")
        for (one, _), manifest in found.items() if one == kind
        for rule in manifest["rules"] for resource in rule["resources"] if kind == "ClusterRole"
    }  # fmt: skip
    assert rules == {"nodes": {"get", "list", "watch"}, "pods": {"list", "watch"}}
    own = {rule["resources"][0]: set(rule["verbs"]) for rule in found["Role", "penstock"]["rules"]}
    assert own["pods"] == {"get", "list", "watch", "create", "delete"}
    assert "*" not in str(found["Role", "penstock"])
    server = found["Deployment", "penstock"]["spec"]["template"]["spec"]
    assert server["securityContext"]["runAsNonRoot"] is True
    assert server["securityContext"]["runAsUser"] != KubernetesSettings().run_as_user


def test_postgres_is_there_by_choice_with_a_password_of_its_own(tmp_path: Path) -> None:
    assert not any(kind == "StatefulSet" for kind, _ in objects(Installation()))
    for name in ("one", "two"):
        write_installation(Installation(postgres=True), tmp_path / name)
    texts = [(tmp_path / name / "postgres.yaml").read_text() for name in ("one", "two")]
    assert texts[0] != texts[1]
    assert (tmp_path / "one" / "postgres.yaml").stat().st_mode & 0o077 == 0
    assert "database_password_file" in (tmp_path / "one" / "config.yaml").read_text()


def test_files_for_kustomize(tmp_path: Path) -> None:
    written = write_installation(Installation(), tmp_path / "out")
    listed = yaml.safe_load((tmp_path / "out" / "kustomization.yaml").read_text())["resources"]
    assert {path.name for path in written} == {*listed, "kustomization.yaml", "Dockerfile"}
    for name in listed:
        assert all(one["kind"] for one in yaml.safe_load_all((tmp_path / "out" / name).read_text()))


def test_a_schema_without_references_and_with_one_type_for_each_value() -> None:
    given = {
        "$defs": {"Part": {"type": "object", "properties": {"n": {"type": "integer", "exclusiveMinimum": 0}}}},
        "type": "object",
        "properties": {
            "part": {"anyOf": [{"$ref": "#/$defs/Part"}, {"type": "null"}], "description": "a part"},
            "either": {"anyOf": [{"type": "string"}, {"type": "number"}]},
            "env": {"type": "object", "additionalProperties": {"type": ["string", "number"]}},
            "names": {"type": "array", "items": {"type": "string", "title": "Name"}},
        },
    }  # fmt: skip
    anything = {"x-kubernetes-preserve-unknown-fields": True}
    assert structural(given) == {
        "type": "object", **anything,
        "properties": {
            "part": {
                "type": "object", "description": "a part", **anything,
                "properties": {"n": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}},
            },
            "either": anything,
            "env": {"type": "object", "additionalProperties": anything},
            "names": {"type": "array", "items": {"type": "string"}},
        },
    }  # fmt: skip


def test_the_whole_job_file_becomes_a_schema() -> None:
    text = str(structural(json_schema()))
    assert "$ref" not in text
    assert "anyOf" not in text
    assert "deadline" in text
