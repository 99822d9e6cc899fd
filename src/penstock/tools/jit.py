"""One switch for compiled inner loops.

A handful of planning loops are compiled with numba, because a benchmark showed the need. They are written as plain
Python over NumPy arrays, so setting ``PENSTOCK_JIT=0`` runs the very same functions uncompiled, which is how the
tests check that both agree and how one steps through them in a debugger.
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

ENABLED = os.environ.get("PENSTOCK_JIT", "1") != "0"


def compiled(function: F) -> F:
    """Compile ``function`` on first call and keep the machine code on disk."""
    if not ENABLED:
        return function
    import numba

    return cast("F", numba.njit(cache=True)(function))
