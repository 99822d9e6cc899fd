"""A text of 256 KiB in any place of any request, and in whatever a job or an engine writes, costs little time."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from penstock.backends.agent.environment import Script, wants_torch
from penstock.backends.agent.metrics.metric_recorder import read_metrics
from penstock.backends.agent.missing_packages import absence_hint
from penstock.backends.agent.progress import complaint, parse_file, parse_line, parse_metrics
from penstock.backends.agent.watch.stack_summary import read_spy
from penstock.backends.slurm.nodes import _accelerators
from penstock.cli.jobs.notebook import _ADDRESS
from penstock.cli.terminal.control_characters import PlainStream
from penstock.control.api import create_app
from penstock.control.platform.failure_line import failure_line
from penstock.control.state.store import Role
from penstock.web.failure_excerpt import failure_excerpt
from penstock.web.log_levels import levelled
from tests.control.build import Platform
from tests.tools.processor_time import processor_seconds

MOST_S = 1.0
LENGTH, LENGTH_OF_ADDRESSES = 1 << 18, 1 << 14
FILLERS = "1 m("
Place = tuple[str | int, ...]


def places(schema: Mapping[str, Any], parts: Mapping[str, Any], path: Place = ()) -> Iterator[Place]:
    """Every place of a body where text may stand; ``""`` is any name."""
    if "$ref" in schema:
        schema = parts[schema["$ref"].rpartition("/")[2]]
    for form in (*schema.get("anyOf", ()), *schema.get("allOf", ())):
        yield from places(form, parts, path)
    for name, inner in schema.get("properties", {}).items():
        yield from places(inner, parts, (*path, name))
    if schema.get("additionalProperties"):
        yield (*path, "")
    if "items" in schema:
        yield from places(schema["items"], parts, (*path, 0))
    if schema.get("type") in ("string", None) and path:
        yield path


def body_with(place: Place, text: str) -> Any:
    value: Any = text
    for part in reversed(place):
        value = [value] if isinstance(part, int) else {part or "key": value}
    return value


def requests(description: Mapping[str, Any], text: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Requests with the text in one place each, of every operation."""
    parts, short = description["components"]["schemas"], repeated(LENGTH_OF_ADDRESSES)
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            for parameter in operation.get("parameters", ()):
                name, given = parameter["name"], short
                if parameter["in"] == "path":
                    yield method, path.replace(f"{{{name}}}", given.replace(" ", "%20")), {}
                elif not path.endswith("/stream"):
                    place = "params" if parameter["in"] == "query" else "headers"
                    yield method, path, {place: {name: given}}
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            for place in sorted(set(places(body, parts)), key=str):
                yield method, path, {"json": body_with(place, text)}


def repeated(length: int) -> str:
    """Digits, blanks, letters and parentheses, each in a row."""
    return "1" + "".join(filler * (length // len(FILLERS)) for filler in FILLERS) + "!"


def test_no_text_of_a_request_takes_long(world: Platform) -> None:
    secret, _ = world.journal.store.tokens.create(name="ada", role=Role.ADMIN, tenant="default", now=1.0)
    app, text = create_app(world.platform, world.metrics), repeated(LENGTH)
    job = world.submit()
    with TestClient(app, headers={"Authorization": f"Bearer {secret}"}, raise_server_exceptions=False) as http:
        count = 0
        for method, path, given in requests(app.openapi(), text):
            path = path.format(job_id=job, array="a", token_id="t", name="node-0", tenant="blue", session="s")
            with processor_seconds(MOST_S, f"{method} {path[:80]} {str(given)[:80]}"):
                answer = http.request(method, path, **given)
            assert answer.status_code < 500, f"{method} {path[:80]} {str(given)[:80]}: {answer.text[:200]}"
            assert len(answer.content) < 1 << 16
            count += 1
    assert count > 100


def script(text: str, folder: Path) -> object:
    (folder / "train.py").write_text(text)
    return wants_torch(Script("python3", ("train.py",)), str(folder))


def metrics_file(text: str, folder: Path) -> object:
    (folder / "metrics").write_text(text)
    return read_metrics(folder / "metrics")


READERS: dict[str, Callable[[str, Path], object]] = {
    "script": script,
    "metrics": metrics_file,
    "progress line": lambda text, _: (complaint(text), parse_line(text), parse_metrics(text)),
    "progress file": lambda text, _: parse_file(text),
    "stacks": lambda text, _: read_spy(text),
    "last words": lambda text, _: failure_line("exit", ["Traceback (most recent call last):", text]),
    "absence": lambda text, _: absence_hint([text], "python3", {}, None),
    "excerpt": lambda text, _: failure_excerpt(["Traceback (most recent call last):", text]),
    "levels": lambda text, _: list(levelled([text])),
    "terminal": lambda text, _: PlainStream().feed(text),
    "notebook": lambda text, _: _ADDRESS.search(text),
    "slurm": lambda text, _: _accelerators(text),
}
BEGINNINGS = (
    "",
    "penstock: step=",
    '{"step": ',
    "Thread 1 (",
    "Process ",
    " f (",
    "\x9d",
    "http://",
    "import ",
    "[rank",
)
WRITTEN = ("1", " ", "m", "(", "\n", "[", " (", ":", ",", "\x9d", "\x9b", "http://", '{"', "penstock: ", "=")


@pytest.mark.parametrize("reader", READERS)
def test_nothing_that_a_job_or_an_engine_writes_takes_long(tmp_path: Path, reader: str) -> None:
    for beginning in BEGINNINGS:
        for filler in WRITTEN:
            text = beginning + filler * (LENGTH_OF_ADDRESSES // len(filler)) + "!"
            with processor_seconds(MOST_S, f"{reader}: {beginning!r} and {filler!r}"):
                READERS[reader](text, tmp_path)
