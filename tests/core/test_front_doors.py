"""What a room exports is a decision: everything its front door names is in ``__all__``, once and in order."""

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOMS = [
    "backends", "client", "control", "core", "diagnose", "learn", "parallel", "placement", "policies", "predict",
    "runtime", "scheduler", "serve", "simulate", "simulate.traces", "spec", "tools", "wire",
]  # fmt: skip


@pytest.fixture(params=ROOMS)
def room(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(f"penstock.{request.param}")


def _rank(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, as the linter sorts them."""
    if re.fullmatch(r"[A-Z][A-Z0-9_]+", name):
        return 0, name
    return (1 if name[0].isupper() else 2), name


def _belongs_to(room: ModuleType, name: str, value: object) -> bool:
    """Whether a name bound in the front door was made in this room: not a module, not something of another room."""
    if name.startswith("_") or name == "TYPE_CHECKING" or isinstance(value, ModuleType):
        return False
    return getattr(value, "__module__", room.__name__).startswith(room.__name__)


def test_exports_are_sorted_and_named_once(room: ModuleType) -> None:
    assert room.__all__ == sorted(set(room.__all__), key=_rank)


def test_exports_exist(room: ModuleType) -> None:
    if room.__name__ in ("penstock.diagnose", "penstock.predict", "penstock.runtime"):
        pytest.importorskip("torch")
    assert [name for name in room.__all__ if not hasattr(room, name)] == []


def test_everything_the_room_makes_and_shows_is_exported(room: ModuleType) -> None:
    shown = {name for name, value in vars(room).items() if _belongs_to(room, name, value)}
    assert shown - set(room.__all__) == set()


def test_every_room_says_what_it_is_for(room: ModuleType) -> None:
    assert room.__doc__
    assert len(room.__doc__.splitlines()[0]) > 20


def test_no_front_door_loads_what_only_some_need() -> None:
    heavy = {"alembic", "fastapi", "nicegui", "sklearn", "sqlalchemy", "torch", "uvicorn"}
    rooms = "; ".join(f"import penstock.{room}" for room in ROOMS)
    found = subprocess.run([sys.executable, "-c", f"import sys; {rooms}; print(*sys.modules)"],
                           capture_output=True, text=True, check=True)  # fmt: skip
    assert heavy & set(found.stdout.split()) == set()


def _imported_through_doors(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("penstock."):
            yield from ((str(node.module), alias.name) for alias in node.names)


def test_every_name_asked_of_a_door_is_there() -> None:
    """Type checkers cannot tell: a lazy door has a ``__getattr__``, which might know any name."""
    root = Path(__file__).parents[2]
    files = [path for folder in ("src", "tests", "bench", "examples") for path in (root / folder).rglob("*.py")]
    doors = {f"penstock.{room}": importlib.import_module(f"penstock.{room}") for room in ROOMS}
    missing = {
        f"{path.relative_to(root)}: {module}.{name}"
        for path in files
        for module, name in _imported_through_doors(path)
        if module in doors and name not in doors[module].__all__
        and importlib.util.find_spec(f"{module}.{name}") is None
    }  # fmt: skip
    assert missing == set()
