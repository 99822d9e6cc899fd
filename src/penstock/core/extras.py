"""Optional packages: imported where they are needed, and named with the command that installs them where they lack.

An installation without extras schedules, serves and simulates. What only some people need (PyTorch, the dashboard,
Parquet files, PostgreSQL, fitting) is an extra; meeting one that is not installed is one sentence, never a traceback.
"""

import importlib
from types import ModuleType

from penstock.core.errors import MissingExtraError


def require(module: str, *, extra: str, why: str) -> ModuleType:
    """Import ``module``, or say that ``why`` (what a person asked for) needs the ``extra`` it comes with."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtraError(why, module.partition(".")[0], extra) from None
