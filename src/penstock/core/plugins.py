"""Parts that live outside of the package, named ``module:attribute`` or ``file.py:attribute`` wherever a name of ours
could stand.

A policy, a placement, a backend or an export of your own needs no registration and no change here: the module lies in
the current directory or anywhere else Python finds it, the file anywhere at all.
"""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.core.errors import PluginError

_FILE = ".py"


def is_plugin(name: str) -> bool:
    """Whether a name points outside of the package: ``module:attribute``, ``folder/file.py:attribute``."""
    module, colon, attribute = name.rpartition(":")
    if not (colon and attribute.isidentifier()):
        return False
    return _is_file(module) or all(part.isidentifier() for part in module.split("."))


def load_plugin(what: str, name: str) -> Any:
    """The ``what`` (a policy, a backend…) that ``name`` points to."""
    module, _, attribute = name.rpartition(":")
    try:
        return getattr(_from_file(Path(module)) if _is_file(module) else _imported(module), attribute)
    except Exception as problem:
        raise PluginError(
            f"the {what} {name!r} cannot be loaded: {type(problem).__name__}: {problem}",
            "module:attribute with a module that Python can import, or file.py:attribute",
            f"Try: python {module}" if _is_file(module) else f"Try: python -c 'from {module} import {attribute}'",
        ) from problem


def _is_file(module: str) -> bool:
    return module.endswith(_FILE) and len(module) > len(_FILE)


def _imported(module: str) -> ModuleType:
    with _importable(Path.cwd()):
        return importlib.import_module(module)


def _from_file(path: Path) -> ModuleType:
    """The module in a file, loaded once per content of it; its neighbours can be imported by it."""
    path = path.expanduser().resolve()
    content = hashlib.blake2b(str(path).encode() + path.read_bytes(), digest_size=6).hexdigest()
    name = f"penstock_plugin_{path.stem}_{content}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        with _importable(path.parent):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
