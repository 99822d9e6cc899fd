"""A job from the command line: flags alone, or a job file with flags on top.

Flags carry the names of the keys, with a dash between a key and the key above it: ``--checkpoint-every 10m``. A flag
replaces what the file says; ``--env`` adds to it; ``--set KEY=VALUE`` reaches every key. Paths in flags start from
the current directory, paths in the file from the file.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

from penstock.core import InputError, JobError, UnknownNameError, located
from penstock.spec.documents import Document, KeyPath, parse_value, read_document
from penstock.spec.files import validated
from penstock.spec.model import JobFile
from penstock.spec.nodes_part import nodes_mapping
from penstock.spec.stop_clauses import read_work

_PATHS: dict[str, tuple[str, ...]] = {
    "checkpoint_dir": ("checkpoint", "dir"),
    "checkpoint_every": ("checkpoint", "every"),
    "requirements": ("environment", "requirements"),
    "working_dir": ("environment", "working_dir"),
    "strictness": ("goal", "strictness"),
}
_GOAL = ("deadline", "strictness", "best_effort", "then")
_NODES = ("nodes", "exclude")
_FROM_HERE = ("requirements", "working_dir", "checkpoint_dir")
_SOURCE = "the command line"


class Flags(TypedDict, total=False):
    """What ``submit`` understands besides the command; anything left out or None is not given."""

    name: str | None
    work: str | None
    until: str | None
    global_batch: str | int | None
    dataset_size: str | int | None
    steps_per_epoch: str | int | None
    deadline: str | None
    strictness: str | None
    best_effort: bool | None
    then: Sequence[str] | None
    devices: str | int | None
    kinds: Sequence[str] | str | None
    requirements: str | Path | None
    working_dir: str | Path | None
    checkpoint_dir: str | Path | None
    checkpoint_every: str | None
    retries: str | int | None
    tenant: str | None
    priority: str | int | None
    after: Sequence[str] | str | None
    after_any: bool | None
    nodes: Sequence[str] | str | None
    exclude: Sequence[str] | str | None
    preflight: str | None
    hang_after: str | None
    grace: str | None
    profile: str | None


def from_flags(
    command: Sequence[str] = (),
    *,
    file: Path | None = None,
    env: Sequence[str] = (),
    sets: Sequence[str] = (),
    here: Path | None = None,
    **flags: Unpack[Flags],
) -> JobFile:
    """The job a command line describes. A ``command`` that starts with a .py file is a script with arguments."""
    here = (here or Path.cwd()).absolute()
    document = read_document(file) if file else Document({}, _SOURCE)
    merge = _Merge(document.values, here)
    merge.command(tuple(command))
    return _merged(document, merge, file.absolute().parent if file else here, env, sets, flags)


def from_mapping_and_flags(
    values: Mapping[str, Any],
    source: str,
    *,
    env: Sequence[str] = (),
    sets: Sequence[str] = (),
    **flags: Unpack[Flags],
) -> JobFile:
    """The job that another's job file describes, with what flags say over it; complaints name ``source``."""
    here = Path.cwd()
    document = Document(copy.deepcopy(dict(values)), source)
    return _merged(document, _Merge(document.values, here), here, env, sets, flags)


def _merged(
    document: Document, merge: "_Merge", base: Path, env: Sequence[str], sets: Sequence[str], flags: Flags
) -> JobFile:
    for name, value in flags.items():
        if name not in Flags.__annotations__:
            raise UnknownNameError.of("flag", name, Flags.__annotations__)
        if name not in (*_GOAL, *_NODES, "until"):
            merge.flag(name, value)
    merge.until(flags.get("until"))
    merge.goal(*(flags.get(name) for name in _GOAL))
    merge.nodes(*(flags.get(name) for name in _NODES))
    merge.variables(env)
    merge.overrides(sets)
    return validated(Document(merge.values, document.source, document.lines, merge.labels), base=base)


class _Merge:
    """Puts what flags say over what a file says, remembering which flag to name in a complaint."""

    def __init__(self, values: dict[str, Any], here: Path) -> None:
        self.values = values
        self.here = here
        self.labels: dict[KeyPath, str] = {}

    def command(self, words: tuple[str, ...]) -> None:
        if not words:
            return
        for key in ("command", "script", "args"):
            self.values.pop(key, None)
        if words[0].endswith(".py"):
            self._put(("script",), str(self.here / words[0]), "script")
            self._put(("args",), list(words[1:]), "arguments")
        else:
            self._put(("command",), list(words), "command")

    def flag(self, name: str, value: object) -> None:
        if value is None or value == () or value == []:
            return
        if name in _FROM_HERE:
            value = located(str(value), self.here)
        self._put(_PATHS.get(name, (name,)), value, "--" + name.replace("_", "-"))

    def goal(self, deadline: object, strictness: object, best_effort: object, then: object) -> None:
        """A goal by flag replaces the file's; strictness or later values alone keep its deadline."""
        if deadline is None and strictness is None and best_effort is None and not then:
            return
        goal = self.values.pop("goal", None)
        in_goal = goal if isinstance(goal, dict) else {}
        before = self.values.pop("deadline", in_goal.get("deadline"))
        self.values.pop("best_effort", None)
        self.flag("best_effort", best_effort)
        if strictness is None and not then:
            self.flag("deadline", deadline)
            return
        self.values["goal"] = {"deadline": deadline or before}
        if deadline is None and "then" in in_goal:
            self.values["goal"]["then"] = in_goal["then"]
        self.labels["goal", "deadline"] = "--deadline"
        self.flag("strictness", strictness)
        if isinstance(then, Sequence) and then:
            self._put(("goal", "then"), later_values(then), "--then")

    def nodes(self, only: object, exclude: object) -> None:
        """Nodes by flag replace all that the file says of them; those to be avoided alone join it."""
        if not only and not exclude:
            return
        before = nodes_mapping(self.values.get("nodes") or {})
        self.values["nodes"] = dict(before) if isinstance(before, Mapping) and not only else {}
        if only:
            self._put(("nodes", "only"), only, "--nodes")
        if exclude:
            self._put(("nodes", "avoid"), exclude, "--exclude")

    def until(self, condition: object) -> None:
        """Train until this; the work of the file or of the flag is the most."""
        if condition is None:
            return
        if "work" not in self.values:
            raise JobError("--until without work", "the most there is to do beside it", 'Add --work "50 epochs"')
        given = read_work(self.values["work"])
        unlikely = given.until.if_unlikely if given.until is not None else None
        most = str(replace(given, until=None))
        self._put(("work",), {"until": condition, "at_most": most, "if_unlikely": unlikely}, "--until")

    def variables(self, pairs: Sequence[str]) -> None:
        for pair in pairs:
            name, equals, value = pair.partition("=")
            if not equals:
                raise InputError(f"--env {pair!r}", "NAME=VALUE", "Try --env OMP_NUM_THREADS=4")
            self._put(("environment", "env", name), value, f"--env {name}")

    def overrides(self, pairs: Sequence[str]) -> None:
        for pair in pairs:
            key, equals, text = pair.partition("=")
            if not equals or not all(key.split(".")):
                raise InputError(f"--set {pair!r}", "KEY=VALUE", "Try --set checkpoint.every=10m")
            self._put(tuple(key.split(".")), parse_value(text), f"--set {key}")

    def _put(self, path: tuple[str, ...], value: object, label: str) -> None:
        into = self.values
        for key in path[:-1]:
            if not isinstance(into.get(key), dict):
                into[key] = {}
            into = into[key]
        into[path[-1]] = value
        self.labels[path] = label


def later_values(pairs: Sequence[str]) -> dict[str, str]:
    """What ``--then 8h=50%`` says, as often as it was given.

    >>> later_values(["8h=50%", "12h=20%"])
    {'8h': '50%', '12h': '20%'}
    """
    values: dict[str, str] = {}
    for pair in pairs:
        deadline, equals, share = (part.strip() for part in pair.rpartition("="))
        if not (equals and deadline and share) or deadline in values:
            raise InputError(f"--then {pair!r}", "DEADLINE=PERCENTAGE, every deadline once", "Try --then 8h=50%")
        values[deadline] = share
    return values
