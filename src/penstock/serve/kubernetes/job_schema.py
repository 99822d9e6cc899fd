"""The custom resource by which ``kubectl apply -f job.yaml`` submits: its ``spec`` is the job file.

Kubernetes wants a schema with one type for every value and no references. Where a job file takes several ("10m" or 600)
a value is passed through unchecked, and so is a key that the schema does not know: the platform refuses both with a
better sentence than an API server could, in the object's status.
"""

from typing import Any

Schema = dict[str, Any]

GROUP = "penstock.dev"
VERSION = "v1alpha1"
KIND = "PenstockJob"
PLURAL = "penstockjobs"
FINALIZER = f"{GROUP}/cancel"

_KEPT = ("description", "pattern", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
_ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}


def structural(schema: Schema, definitions: Schema | None = None) -> Schema:
    """A JSON Schema as Kubernetes takes it."""
    known = schema.get("$defs", {}) if definitions is None else definitions
    if "$ref" in schema:
        return structural({**known[schema["$ref"].rpartition("/")[2]], **_without(schema, "$ref")}, known)
    options = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    if len(options) == 1:
        return structural({**options[0], **_without(schema, "anyOf")}, known)
    described = {key: schema[key] for key in ("description",) if key in schema}
    if options or not isinstance(schema.get("type"), str):
        return {**described, **_ANYTHING}
    return {**_plain(schema), **_inside(schema, known)}


def _plain(schema: Schema) -> Schema:
    found = {"type": schema["type"], **{key: schema[key] for key in _KEPT if key in schema}}
    if "exclusiveMinimum" in schema:
        found |= {"minimum": schema["exclusiveMinimum"], "exclusiveMinimum": True}
    return found


def _inside(schema: Schema, known: Schema) -> Schema:
    if schema["type"] == "array":
        return {"items": structural(schema.get("items") or {}, known)}
    if schema["type"] != "object":
        return {}
    if "properties" in schema:
        parts = {name: structural(one, known) for name, one in schema["properties"].items()}
        return {"properties": parts, **_ANYTHING}
    more = schema.get("additionalProperties")
    return {"additionalProperties": structural(more, known)} if isinstance(more, dict) else dict(_ANYTHING)


def _without(schema: Schema, key: str) -> Schema:
    return {name: value for name, value in schema.items() if name != key}


_TIME = {"type": "string", "format": "date-time", "nullable": True}
_TEXT = {"type": "string"}
STATUS: Schema = {
    "type": "object",
    "properties": {
        "job": {**_TEXT, "description": "The platform's id of the job."},
        "state": {**_TEXT, "description": "Where the job stands."},
        "reason": {**_TEXT, "description": "Why it stands there, or why it was refused."},
        "devices": {"type": "integer", "description": "Devices it holds now."},
        "observedGeneration": {"type": "integer", "description": "The spec that was submitted or refused."},
        "promise": {**_TIME, "description": "When it will be done at the latest."},
        "forecast": {**_TIME, "description": "When it will probably be done, as of now."},
        "quote": {
            "type": "object",
            "properties": {"verdict": _TEXT, "reason": _TEXT, "finishAt": _TIME, "counterOffer": _TIME},
        },
        "conditions": {
            "type": "array",
            "items": {
                "type": "object", "required": ["type", "status"],
                "properties": {
                    "type": _TEXT, "status": _TEXT, "reason": _TEXT, "message": _TEXT, "lastTransitionTime": _TIME
                },
            },
        },
    },
}  # fmt: skip

_COLUMNS = (
    ("State", "string", ".status.state"), ("Devices", "integer", ".status.devices"),
    ("Promise", "date", ".status.promise"), ("Forecast", "date", ".status.forecast"),
    ("Job", "string", ".status.job"), ("Age", "date", ".metadata.creationTimestamp"),
)  # fmt: skip


def job_resource(job_file: Schema) -> Schema:
    """The CustomResourceDefinition around the JSON Schema of a job file."""
    schema = {
        "type": "object", "required": ["spec"],
        "properties": {"spec": structural(job_file), "status": STATUS},
    }  # fmt: skip
    columns = [
        {"name": name, "type": kind if kind != "date" or "metadata" in path else "string", "jsonPath": path}
        for name, kind, path in _COLUMNS
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"kind": KIND, "plural": PLURAL, "singular": "penstockjob", "shortNames": ["pj"]},
            "versions": [{
                "name": VERSION, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}}, "additionalPrinterColumns": columns,
            }],
        },
    }  # fmt: skip
