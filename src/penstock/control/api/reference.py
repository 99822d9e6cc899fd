"""``/docs``: the API described on one plain page, made here from the same schema as /openapi.json.

The framework's own pages load their scripts from elsewhere, on the origin on which people are signed in. This one
loads nothing and runs nothing.
"""

import html
from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

router = APIRouter(include_in_schema=False)
_METHODS = ("get", "post", "put", "delete")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "summary{cursor:pointer;padding:.25rem 0}code,pre{font:13px/1.4 ui-monospace,monospace}"
    "td,th{text-align:left;vertical-align:top;padding:.1rem 1rem .1rem 0}b{display:inline-block;min-width:4.5rem}"
)


@router.get("/docs", response_class=HTMLResponse)
def docs(request: Request) -> HTMLResponse:
    page = reference_page(request.app.openapi())
    return HTMLResponse(page, headers={"content-security-policy": _POLICY})


def reference_page(schema: dict[str, Any]) -> str:
    """A page about every operation of a schema."""
    schemas = schema.get("components", {}).get("schemas", {})
    operations = "".join(_operation(*found, schemas) for found in _operations(schema))
    title = html.escape(f"{schema['info']['title']} API {schema['info']['version']}")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"</head><body><h1>{title}</h1><p>Every request under /v1 shows a token: <code>Authorization: Bearer TOKEN"
        '</code>. The schema for programs is at <a href="/openapi.json">/openapi.json</a>.</p>'
        f"{operations}</body></html>"
    )


def _operations(schema: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in schema["paths"].items():
        for method in _METHODS:
            if method in methods:
                yield method, path, methods[method]


def _operation(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    about = html.escape(operation.get("description") or operation.get("summary", ""))
    return (
        f"<details><summary><b>{method.upper()}</b> <code>{html.escape(path)}</code></summary><p>{about}</p>"
        f"{_parameters(operation)}{_body(operation, schemas)}{_answers(operation, schemas)}</details>"
    )


def _parameters(operation: dict[str, Any]) -> str:
    rows = [
        (f"{found['name']} ({found['in']})", _kind(found.get("schema", {})), found.get("description", ""))
        for found in operation.get("parameters", ())
    ]
    return _table("Parameters", rows)


def _body(operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return _table("Body", _fields(content.get("schema", {}), schemas))


def _answers(operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    parts = []
    for status, answer in operation.get("responses", {}).items():
        schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
        if status.startswith("2"):
            parts.append(_table(f"Answer {status}: {_kind(schema)}", _fields(schema, schemas)))
    return "".join(parts)


def _fields(schema: dict[str, Any], schemas: dict[str, Any]) -> list[tuple[str, str, str]]:
    known = schemas.get(_kind(schema).removeprefix("list of "), {})
    return [(name, _kind(field), field.get("description", "")) for name, field in known.get("properties", {}).items()]


def _kind(schema: dict[str, Any]) -> str:
    """What a value is, in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(one) for one in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("format") or schema.get("type") or schema.get("title") or "anything")


def _table(title: str, rows: list[tuple[str, str, str]]) -> str:
    if not rows:
        return ""
    cells = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<h4>{html.escape(title)}</h4><table>{cells}</table>"
