"""A text of a mebibyte in any place of a job file, and in any script, is read or refused at once."""

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from penstock.core import PenstockError
from penstock.core.device_group import parse_device_group
from penstock.core.moments import resolve_moment, resolve_past
from penstock.core.units import parse_bytes, parse_deadline, parse_duration, parse_instant
from penstock.spec import parse_job
from penstock.spec.local_modules import imports_elastic, local_modules
from penstock.spec.model import JobFile
from tests.tools.processor_time import processor_seconds

MOST_S = 1.0
LENGTHS, LENGTHS_OF_SCRIPTS = (1 << 14, 1 << 20), (1 << 15, 1 << 18)
"""The short ones come first: what grows faster than the text fails there, in seconds and not in hours."""
LONGEST_MESSAGE = 2000
FILLERS = ("1", " ", "m", "(")
SCHEMA = JobFile.model_json_schema()
Place = tuple[str | int, ...]


def places(schema: Mapping[str, Any] = SCHEMA, path: Place = ()) -> Iterator[Place]:
    """Every place of a job file where text may stand, by the schema of its keys; ``""`` is any name."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    for form in (*schema.get("anyOf", ()), *schema.get("allOf", ())):
        yield from places(form, path)
    for name, inner in schema.get("properties", {}).items():
        yield from places(inner, (*path, name))
    if isinstance(others := schema.get("additionalProperties"), Mapping):
        yield from places(others, (*path, ""))
    if "items" in schema:
        yield from places(schema["items"], (*path, 0))
    yield path


PLACES = sorted(set(places()) - {()}, key=str)


def job_with(place: Place, value: Any, key: str = "8h") -> dict[str, Any]:
    for part in reversed(place):
        value = [value] if isinstance(part, int) else {part or key: value}
    return {"command": "true", "work": "1 steps", **value}


def test_the_schema_names_the_places_that_were_attacked() -> None:
    known = (
        "deadline grace hang_after checkpoint.every retries.backoff evaluate.every goal.deadline work environment.env."
    )
    assert {tuple(key.split(".")) for key in known.split()} <= set(PLACES)


def complaint(read: Callable[[Any], object], given: object, what: str) -> str:
    """What is said about something that cannot be used, in little time."""
    with processor_seconds(MOST_S, what):
        try:
            read(given)
        except PenstockError as problem:
            return str(problem)
    return ""


@pytest.mark.parametrize("filler", FILLERS)
def test_no_text_of_a_job_file_takes_long(filler: str) -> None:
    for length, place in product(LENGTHS, PLACES):
        text = "1" + filler * length + "!"
        given = [job_with(place, text)]
        given += [job_with(place, "1", text)] if "" in place else [job_with((*place, text), "1")]
        for values in given:
            said = complaint(parse_job, values, f"{place} of {filler!r}")
            assert len(said) < LONGEST_MESSAGE, f"{place}: a message of {len(said)} characters"


@pytest.mark.parametrize("filler", FILLERS)
@pytest.mark.parametrize(
    "read",
    [
        parse_duration, parse_bytes, parse_instant, parse_device_group, lambda text: parse_deadline(text, 0.0),
        lambda text: resolve_moment(text, None), lambda text: resolve_past(text, None),
    ],
    ids=["duration", "bytes", "instant", "device_group", "deadline", "moment", "past"],
)  # fmt: skip
def test_no_quantity_takes_long(read: Any, filler: str) -> None:
    for length in LENGTHS:
        assert len(complaint(read, "1" + filler * length + "!", filler)) < LONGEST_MESSAGE


@pytest.mark.parametrize(
    "line",
    ["from penstock import (", "from a import (", "import ", "from ", "from penstock import ", "from penstock.elastic"],
)
@pytest.mark.parametrize("filler", ["(", " ", "\t", "a", "a,", ",", "\n", "(\nfrom a import (", "."])
def test_no_script_takes_long(tmp_path: Path, line: str, filler: str) -> None:
    script = tmp_path / "train.py"
    for length in LENGTHS_OF_SCRIPTS:
        script.write_text(line + filler * (length // len(filler)))
        with processor_seconds(MOST_S, f"{line!r} and {filler!r}"):
            assert not imports_elastic(script)
            assert local_modules(script, tmp_path) == ()
