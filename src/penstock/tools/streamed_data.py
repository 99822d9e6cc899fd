"""Plain data in which iterators stand for long lists, so that a large whole is written without ever being in memory."""

import json
from collections.abc import Iterator, Mapping
from typing import Any


def settled(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same with lists where there were iterators."""
    return {name: _settled_value(value) for name, value in data.items()}


def _settled_value(value: Any) -> Any:
    return list(value) if isinstance(value, Iterator) else settled(value) if isinstance(value, dict) else value


def json_pieces(data: Mapping[str, Any]) -> Iterator[str]:
    """A mapping as JSON, piece by piece.

    >>> "".join(json_pieces({"some": iter([1, {}]), "none": iter([]), "nested": {"whole": [2, 3]}, "empty": {}}))
    '{"some":[1,{}],"none":[],"nested":{"whole":[2,3]},"empty":{}}'
    """
    before = "{"
    for name, value in data.items():
        yield f"{before}{_text(name)}:"
        before = ","
        if isinstance(value, Iterator):
            yield from _list_pieces(value)
        elif isinstance(value, dict):
            yield from json_pieces(value)
        else:
            yield _text(value)
    yield "}" if data else "{}"


def _list_pieces(values: Iterator[Any]) -> Iterator[str]:
    before = "["
    for value in values:
        yield before + _text(value)
        before = ","
    yield "]" if before == "," else "[]"


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
