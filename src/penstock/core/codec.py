"""Values as JSON and back, for the log and for the wire.

Derived from the type annotations of the dataclasses themselves, so a new field or event needs no second description.
Rules that keep old logs readable: a new field has a default, a field never changes its meaning, and a name is never
used twice. What a newer version wrote is refused rather than half understood.

A parallel plan is written run by run (its own ``to_mapping``): its operators are many and mostly alike.

JSON has no infinity: such numbers are written as the strings "inf", "-inf" and "nan".
"""

import math
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from operator import attrgetter
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from penstock.core.decisions import Decision
from penstock.core.errors import CodecError
from penstock.core.events import Event
from penstock.core.instructions import Instruction
from penstock.core.jobs import Goal
from penstock.core.parallel_plan import ParallelPlan

CODEC_VERSION = 2
"""Of what is written. Lines of version 1 are of logs without decisions."""

_SPOKEN: dict[str, type] = {
    kind.__name__: kind for kind in (*get_args(Event), *get_args(Instruction), *get_args(Goal), Decision)
}


def register(*kinds: type) -> None:
    """Let dataclasses of another module be told apart by name."""
    for kind in kinds:
        if _SPOKEN.setdefault(kind.__name__, kind) is not kind:
            raise CodecError(f"two types called {kind.__name__!r}")


def encode(value: object) -> dict[str, Any]:
    """A named value with its type and the version of this format."""
    name = type(value).__name__
    if _SPOKEN.get(name) is not type(value):
        raise CodecError(f"{name} has no name in the log; register it")
    return {"v": CODEC_VERSION, "type": name, **_plain_fields(value)}


def decode(data: Mapping[str, Any]) -> Any:
    """The value that :func:`encode` was given."""
    if data.get("v") not in range(1, CODEC_VERSION + 1):
        raise CodecError(f"format version {data.get('v')!r}; this version of Penstock reads up to {CODEC_VERSION}")
    kind = _SPOKEN.get(str(data.get("type")))
    if kind is None:
        raise CodecError(f"unknown type {data.get('type')!r}")
    return _build(kind, {key: value for key, value in data.items() if key not in ("v", "type")})


def plain(value: object) -> Any:
    """Any of our values as JSON, without type and version."""
    return _plain(value)


def build(kind: type, data: Mapping[str, Any]) -> Any:
    """The value of a known type that :func:`plain` was given."""
    return _build(kind, data)


def _plain(value: object) -> Any:
    kind: type = type(value)
    return _writer(kind)(value)


def _plain_fields(value: object) -> dict[str, Any]:
    kind: type = type(value)
    return {name: _plain(getattr(value, name)) for name in _written(kind)}


@lru_cache(maxsize=256)
def _written(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.init)


@lru_cache(maxsize=1024)
def _writer(kind: type) -> Callable[[Any], Any]:
    """How values of a type are written; found out once for each type."""
    if issubclass(kind, float):
        return _plain_number
    if issubclass(kind, Enum):
        return attrgetter("value")
    if issubclass(kind, tuple | list):
        return lambda value: [_plain(item) for item in value]
    if issubclass(kind, Mapping):
        return lambda value: {key: _plain(item) for key, item in value.items()}
    if issubclass(kind, ParallelPlan):
        return ParallelPlan.to_mapping
    if not is_dataclass(kind):
        return _as_it_is
    if issubclass(kind, Goal):
        return lambda value: {"type": kind.__name__, **_plain_fields(value)}
    return _plain_fields


def _plain_number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _as_it_is(value: Any) -> Any:
    return value


@lru_cache(maxsize=256)
def _readers(kind: type) -> dict[str, Callable[[Any], Any]]:
    hints = get_type_hints(kind)
    return {field.name: _reader(hints[field.name]) for field in fields(kind) if field.init}


_RETIRED = {"Node": ("region",)}
"""Fields that older versions wrote and nobody ever read."""


def _capped_tenant(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Before tenants had a limit, their quota was one."""
    return data if "limit" in data else {**data, "quota": None, "limit": data.get("quota")}


def _job_with_choice(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Before jobs could be confined to nodes, those they named were a wish."""
    nodes = data.get("nodes")
    return {**data, "nodes": {"prefer": nodes}} if isinstance(nodes, list | tuple) else data


_RENEWED: dict[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
    "Tenant": _capped_tenant,
    "Job": _job_with_choice,
}
"""What older versions wrote, as it is written now."""


def _build(kind: type, data: Mapping[str, Any]) -> Any:
    readers = _readers(kind)
    if kind.__name__ in _RENEWED:
        data = _RENEWED[kind.__name__](data)
    if kind.__name__ in _RETIRED:
        data = {name: value for name, value in data.items() if name not in _RETIRED[kind.__name__]}
    if not data.keys() <= readers.keys():
        unknown = sorted(set(data) - set(readers))
        raise CodecError(f"{kind.__name__} with unknown fields {', '.join(unknown)}: written by a newer version?")
    try:
        return kind(**{name: readers[name](value) for name, value in data.items()})
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise CodecError(f"not a {kind.__name__}: {error}") from None


def _reader(hint: Any) -> Callable[[Any], Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _union_reader(arguments)
    if origin is tuple:
        return _tuple_reader(arguments)
    if origin is list:
        each = _reader(arguments[0])
        return lambda data: [each(value) for value in data]
    if origin is not None and issubclass(origin, Mapping):
        return dict
    if hint is ParallelPlan:
        return ParallelPlan.from_mapping
    if isinstance(hint, type) and is_dataclass(hint):
        return lambda data: _build(hint, data)
    return cast("Callable[[Any], Any]", hint)


def _union_reader(members: tuple[Any, ...]) -> Callable[[Any], Any]:
    """``X | None``, or one of several dataclasses told apart by their names."""
    present = [member for member in members if member is not types.NoneType]
    if len(present) == 1:
        inner = _reader(present[0])
        return lambda data: None if data is None else inner(data)
    named = {member.__name__: member for member in present}

    def read(data: Any) -> Any:
        if data is None and types.NoneType in members:
            return None
        return _build(named[data["type"]], {key: value for key, value in data.items() if key != "type"})

    return read


def _tuple_reader(arguments: tuple[Any, ...]) -> Callable[[Any], Any]:
    if arguments[-1] is Ellipsis:
        item = _reader(arguments[0])
        return lambda data: tuple(item(value) for value in data)
    items = tuple(_reader(argument) for argument in arguments)
    return lambda data: tuple(read(value) for read, value in zip(items, data, strict=True))
