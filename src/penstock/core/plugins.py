"""Parts that live outside of the package, named ``module:attribute`` wherever a name of ours could stand.

A policy, a placement, a backend or an export of your own needs no registration and no change here: the module lies in
the current directory or anywhere else Python finds it.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

from penstock.core.errors import PluginError


def is_plugin(name: str) -> bool:
    """Whether a name points outside of the package: ``module:attribute`` or ``package.module:attribute``."""
    module, colon, attribute = name.partition(":")
    return bool(colon) and attribute.isidentifier() and all(part.isidentifier() for part in module.split("."))


def load_plugin(what: str, name: str) -> Any:
    """The ``what`` (a policy, a backend…) that ``name`` points to."""
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as problem:
        raise PluginError(
            f"the {what} {name!r} cannot be loaded: {type(problem).__name__}: {problem}",
            "module:attribute, with a module that Python can import",
            f"Try: python -c 'from {module} import {attribute}'",
        ) from problem
    finally:
        sys.path.remove(here)
