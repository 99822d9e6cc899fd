"""Text to values with line numbers: the only place that knows YAML and JSON.

YAML is read by the rules people expect rather than by those of 2004: ``yes`` and ``on`` are words, ``1:30`` is no
number, dates stay text, a key given twice is an error. Nothing in a file can make Python do anything but build lists
and dictionaries, and an alias that multiplies itself is stopped.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml

from penstock.core import InputError
from penstock.spec.batch_scripts import SUFFIXES, read_batch_script

KeyPath = tuple[str | int, ...]

_LARGEST_BYTES = 1 << 18
_MOST_VALUES = 20_000
_GUIDE = "docs/job-file.md describes the job file"
_AS_WRITTEN = {
    ("name",),
    ("command",),
    ("script",),
    ("args",),
    ("model",),
    ("tenant",),
    ("kinds",),
    ("environment", "env"),
    ("evaluate", "command"),
    ("evaluate", "script"),
    ("evaluate", "args"),
    ("evaluate", "metric"),
    ("evaluate", "kinds"),
}
"""Keys whose plain values are words: ``lr: 1e-3`` among the variables must stay "1e-3"."""


_READERS: dict[str, Callable[[str], Any]] = {
    "bool": lambda text: text.lower() == "true",
    "int": lambda text: int(text) if len(text) < 40 else text,
    "float": float,
}


@dataclass(frozen=True, slots=True)
class Document:
    """Values, where they came from, and on which line each key stands; ``labels`` name those that came as flags."""

    values: dict[str, Any]
    source: str
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    labels: Mapping[KeyPath, str] = field(default_factory=dict)

    def where(self, path: KeyPath) -> str:
        """ "job.yaml, line 7: devices.max: ", as far as it is known; a flag names itself."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.labels:
                return f"{self.labels[path[:end]]}: "
        key = ".".join(map(str, path))
        return f"{self.place(path)}{f'{key}: ' if key else ''}"

    def place(self, path: KeyPath) -> str:
        """ "job.yaml, line 7: ", without the key."""
        line = self.line(path)
        return f"{self.source}, line {line}: " if line else f"{self.source}: "

    def line(self, path: KeyPath) -> int | None:
        """The line of a key, or of the key it is inside."""
        return next((self.lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.lines), None)


def read_document(path: Path) -> Document:
    """The document in a file; JSON or a batch script if the name says so, else YAML."""
    text = _read_text(path)
    if path.suffix in SUFFIXES:
        return Document(read_batch_script(path).values, str(path))
    return parse_json(text, str(path)) if path.suffix == ".json" else parse_yaml(text, str(path))


def parse_yaml(text: str, source: str) -> Document:
    return _Reading(source).read(text)


def parse_json(text: str, source: str) -> Document:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for position, (key, _) in enumerate(pairs):
            if any(key == earlier for earlier, _ in pairs[:position]):
                raise InputError(f"{source}: the key {key!r} is given twice", "every key once", "Remove one of them")
        return dict(pairs)

    try:
        values = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as problem:
        raise InputError(
            f"{source}, line {problem.lineno}, column {problem.colno}: {problem.msg.lower()}", "JSON", _GUIDE
        ) from None
    except RecursionError:
        _refuse(source, "is nested too deeply")
    except ValueError as problem:
        raise InputError(f"{source}: {problem}", "JSON", _GUIDE) from None
    return Document(_mapping(values, source), source)


def parse_value(text: str) -> Any:
    """One value as it would be read after a key: for overrides on the command line."""
    document = parse_yaml(f"value: {text}" if "\n" not in text else "value: ''", "the value")
    return document.values["value"]


def _read_text(path: Path) -> str:
    try:
        if path.is_dir():
            raise InputError(f"{path} is a directory", "a job file", "Give the file in it, such as job.yaml")
        if path.stat().st_size > _LARGEST_BYTES:
            raise InputError(f"{path} has {path.stat().st_size} bytes", f"at most {_LARGEST_BYTES}", _GUIDE)
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"there is no file {path}", "an existing job file", "Check the path") from None
    except UnicodeDecodeError as problem:
        raise InputError(f"{path}: byte {problem.start} is not UTF-8", "UTF-8 text", "Save it as UTF-8") from None
    except (OSError, ValueError) as problem:
        raise InputError(f"{path} cannot be read: {problem}", "a readable file", "Check its permissions") from None


def _mapping(values: object, source: str) -> dict[str, Any]:
    if values is None:
        _refuse(source, "holds nothing")
    if not isinstance(values, dict):
        _refuse(source, f"holds a {type(values).__name__}")
    return values


def _refuse(source: str, what: str) -> NoReturn:
    raise InputError(f"{source} {what}", "a mapping of keys to values", _GUIDE) from None


class _Loader(yaml.SafeLoader):
    """PyYAML's scanner and parser with fewer kinds of plain values."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9_]*)", list("-+0123456789")),
    ("float", r"[-+]?[0-9][0-9_]*\.[0-9]+(?:[eE][-+]?[0-9]+)?", list("-+0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), _first)


class _Reading:
    """One pass over a YAML document, collecting the line of every key."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines: dict[KeyPath, int] = {}
        self.values = 0

    def read(self, text: str) -> Document:
        try:
            node = yaml.compose(text, _Loader)
            values = None if node is None else self._value(node, ())
        except yaml.MarkedYAMLError as problem:
            raise self._syntax(problem) from None
        except yaml.YAMLError as problem:
            raise InputError(f"{self.source}: {str(problem).splitlines()[0]}", "YAML text", _GUIDE) from None
        except RecursionError:
            _refuse(self.source, "is nested too deeply")
        return Document(_mapping(values, self.source), self.source, self.lines)

    def _value(self, node: yaml.Node, path: KeyPath) -> Any:
        self.values += 1
        if self.values > _MOST_VALUES:
            raise self._at(node, "the file grows without end", f"at most {_MOST_VALUES} values", "Remove the aliases")
        if isinstance(node, yaml.MappingNode):
            return self._pairs(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*path, position)) for position, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _pairs(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        pairs: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._at(key, "a key that is not a word", "words as keys", "Put it in quotes")
            if key.value in pairs:
                first = self.lines[(*path, key.value)]
                raise self._at(key, f"the key {key.value!r} is given twice, first on line {first}", "every key once")
            self.lines[(*path, key.value)] = key.start_mark.line + 1
            pairs[key.value] = self._value(value, (*path, key.value))
        return pairs

    def _scalar(self, node: yaml.Node, path: KeyPath) -> Any:
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        text: str = node.value
        if kind == "null":
            return None
        if kind == "str" or any(path[: len(words)] == words for words in _AS_WRITTEN):
            return text
        if kind not in _READERS:
            raise self._at(node, f"the tag {node.tag!r}", "plain values", "Remove the tag")
        return _READERS[kind](text)

    def _at(self, node: yaml.Node, given: str, allowed: str, hint: str = "") -> InputError:
        return InputError(f"{self.source}, line {node.start_mark.line + 1}: {given}", allowed, hint)

    def _syntax(self, problem: yaml.MarkedYAMLError) -> InputError:
        mark = problem.problem_mark or problem.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        hint = "Indent with spaces, not tabs" if "'\\t'" in str(problem.problem) else _GUIDE
        return InputError(f"{self.source}{place}: {problem.problem or 'cannot be read'}", "YAML text", hint)
