"""Every error class of the package, read from its source: no module is imported, so nothing heavy is needed."""

import ast
import builtins
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import penstock

SOURCE = Path(penstock.__file__).parent


@dataclass(frozen=True)
class ErrorClass:
    """An error, its bases in order, where it is defined, and the values its class body sets."""

    name: str
    bases: tuple[str, ...]
    room: str
    values: dict[str, Any]


@cache
def error_classes() -> dict[str, ErrorClass]:
    """By name; a class counts if it derives from an exception, ours or Python's, and may leave its module."""
    found = (known for path in sorted(SOURCE.rglob("*.py")) for known in _classes(path))
    classes = [known for known in found if not known.name.startswith("_")]
    errors: dict[str, ErrorClass] = {}
    while new := [known for known in classes if known.name not in errors and _is_error(known, errors)]:
        errors |= {known.name: known for known in new}
    return errors


def inherited(name: str, attribute: str) -> Any:
    """The value of a class attribute, from the class or the first of its bases that sets it."""
    known = error_classes().get(name)
    if known is None:
        return None
    if attribute in known.values:
        return known.values[attribute]
    return next((value for base in known.bases if (value := inherited(base, attribute)) is not None), None)


def ancestors(name: str) -> set[str]:
    known = error_classes().get(name)
    return {name} | {above for base in (known.bases if known else ()) for above in ancestors(base)}


def _is_error(known: ErrorClass, errors: dict[str, ErrorClass]) -> bool:
    return any(base in errors or _is_builtin_exception(base) for base in known.bases)


def _is_builtin_exception(name: str) -> bool:
    value = getattr(builtins, name, None)
    return isinstance(value, type) and issubclass(value, BaseException)


def _classes(path: Path) -> list[ErrorClass]:
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]
    return [ErrorClass(node.name, tuple(map(_base, node.bases)), room, _values(node)) for node in nodes]


def _base(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def _values(node: ast.ClassDef) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.value, ast.Constant):
            values[ast.unparse(statement.target)] = statement.value.value
        elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant | ast.Tuple):
            _assign(statement.targets[0], statement.value, values)
    return values


def _assign(target: ast.expr, value: ast.expr, values: dict[str, Any]) -> None:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for each, inner in zip(target.elts, value.elts, strict=True):
            _assign(each, inner, values)
    elif isinstance(value, ast.Constant):
        values[ast.unparse(target)] = value.value
