"""The schema editors use agrees with what is accepted, and the guide shows every key."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.spec import EvaluatePart, json_schema, parse_job
from penstock.spec.documents import parse_yaml
from penstock.spec.parts import PreflightPart

GUIDE = Path(__file__).parents[2] / "docs" / "job-file.md"
TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}


def fits(value: Any, schema: dict[str, Any], root: dict[str, Any]) -> bool:
    """The part of JSON Schema that our schema uses."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    if "anyOf" in schema:
        return any(fits(value, form, root) for form in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    if not any(_has_type(value, name) for name in _names(schema["type"])):
        return False
    if isinstance(value, dict):
        known, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
        return set(schema.get("required", ())) <= set(value) and all(
            fits(item, known[key], root) if key in known else bool(rest) and fits(item, rest, root)
            for key, item in value.items()
        )
    if isinstance(value, list):
        return all(fits(item, schema["items"], root) for item in value)
    return _inside(value, schema)


def _names(kind: str | list[str]) -> list[str]:
    return [kind] if isinstance(kind, str) else kind


def _has_type(value: Any, name: str) -> bool:
    if name == "null" or isinstance(value, bool):
        return (value is None) if name == "null" else name == "boolean"
    return isinstance(value, TYPES[name])  # type: ignore[arg-type]


def _inside(value: Any, schema: dict[str, Any]) -> bool:
    if isinstance(value, str):
        return re.search(schema.get("pattern", ""), value) is not None
    return value is None or schema.get("minimum", value) <= value <= schema.get("maximum", value)


GOOD = {"command": "python train.py", "work": "100 steps"}


@pytest.mark.parametrize(
    "more",
    [
        {}, {"command": ["python", "x.py"]}, {"work": 10}, {"devices": 4}, {"devices": "1..8"}, {"devices": {"max": 3}},
        {"retries": 2}, {"retries": {"backoff": "1s"}}, {"goal": {"deadline": "6h", "strictness": "soft"}},
        {"deadline": "6h"}, {"best_effort": True}, {"kinds": ["cpu"]}, {"kinds": "cpu"}, {"priority": 100},
        {"environment": {"requirements": ["numpy"], "env": {"A": 1}}}, {"hang_after": "30m"}, {"hang_after": None},
        {"global_batch": "1_000"}, {"grace": 30}, {"environment": {"conda": "torch"}}, {"limits": {"memory": "8GB"}},
        {"environment": {"image": "pytorch/pytorch:2.8.0", "mounts": ["/data:/data:ro"], "setup": ["make"]}},
        {"environment": {"image": "a", "mounts": "/data", "setup": "make"}}, {"limits": {"cpus": 0.5, "memory": "1G"}},
        {"work": {"until": "val_acc >= 0.9", "at_most": 500}},
        {"work": {"until": "val_acc >= 0.9", "at_most": "5 steps"}},
        {"work": {"until": {"metric": "fid", "at_most": 9.5}, "at_most": 500, "if_unlikely": "stop"}},
        {"work": {"until": {"metric": "fid", "patience": "9 steps", "least_gain": 0.1, "direction": "falling"},
                  "at_most": 500}},
    ],
)  # fmt: skip
def test_what_is_accepted_fits_the_schema(more: dict[str, Any]) -> None:
    parse_job({**GOOD, **more})

    assert fits({**GOOD, **more}, json_schema(), json_schema())


@pytest.mark.parametrize(
    "more",
    [
        {"comand": "x"}, {"devices": {"maxi": 3}}, {"priority": 101}, {"goal": {"strictness": "firm"}}, {"name": "a b"},
        {"work": {"until": "val_acc >= 0.9"}}, {"work": {"until": {"at_least": 0.9}, "at_most": 500}},
        {"work": {"until": {"metric": "val_acc", "at_lest": 0.9}, "at_most": 500}},
    ],
)  # fmt: skip
def test_what_editors_can_see_is_wrong_does_not_fit(more: dict[str, Any]) -> None:
    assert not fits({**GOOD, **more}, json_schema(), json_schema())


def test_the_schema_is_json_and_describes_every_key() -> None:
    schema = json.loads(json.dumps(json_schema()))

    assert schema["required"] == ["work"]
    assert [key for key, field in schema["properties"].items() if not field.get("description")] == []


def test_the_guide_has_every_key_in_a_table() -> None:
    rows = re.findall(r"^\| `([a-z_.]+)` \|", GUIDE.read_text(), re.MULTILINE)
    schema = json_schema()
    nested = {
        "goal": "GoalPart", "environment": "EnvironmentPart", "checkpoint": "CheckpointPart", "limits": "LimitsPart",
        "watch": "WatchPart",
    }  # fmt: skip
    wanted = set(schema["properties"])
    wanted |= {f"{key}.{inner}" for key, part in nested.items() for inner in schema["$defs"][part]["properties"]}
    wanted |= {"devices.min", "devices.max", "retries.max", "retries.backoff"}
    wanted |= {f"evaluate.{inner}" for inner in EvaluatePart.model_fields}
    wanted |= {f"preflight.{inner}" for inner in PreflightPart.model_fields}
    wanted |= {"nodes.only", "nodes.avoid", "nodes.prefer"}

    assert set(rows) == wanted - {"environment", "checkpoint", "goal", "limits", "watch"}


def test_every_example_in_the_guide_is_accepted() -> None:
    examples = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)

    assert len(examples) >= 2
    for example in examples:
        parse_job(parse_yaml(example, "the guide").values)
        assert fits(yaml.safe_load(example), json_schema(), json_schema())
