"""Front doors that open without loading the room behind them.

A room's ``__init__`` names what it offers under ``if TYPE_CHECKING:``, where type checkers and readers see it; the
``__getattr__`` made here imports a name from its module when somebody first asks for it. So ``penstock --help`` does
not pay for a database, a web framework or PyTorch.
"""

import ast
import importlib
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any


def lazy_door(room: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of the package ``room``."""

    def __getattr__(name: str) -> Any:  # noqa: N807
        home = _homes(room).get(name)
        if home is None:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home), name)
        setattr(sys.modules[room], name, value)
        return value

    return __getattr__


@cache
def _homes(room: str) -> dict[str, str]:
    """The module of each name that stands under ``if TYPE_CHECKING:`` in the room's ``__init__``."""
    source = Path(str(sys.modules[room].__file__)).read_text(encoding="utf-8")
    guarded = (
        statement
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for statement in block.body
    )
    return {
        alias.name: str(statement.module)
        for statement in guarded
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
