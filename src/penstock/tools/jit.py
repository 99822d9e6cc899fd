"""One switch for compiled inner loops.

A handful of planning loops are compiled with numba, because a benchmark showed the need. They are written as plain
Python over NumPy arrays, so setting ``PENSTOCK_JIT=0`` runs the very same functions uncompiled, which is how the
tests check that both agree and how one steps through them in a debugger.

Loading numba takes longer than a small simulation, so nothing is loaded before a loop is called, and
:func:`interpret_first` lets the first loops run as plain Python. Where numba is not installed, all of them do.
"""

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, update_wrapper
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

ENABLED = os.environ.get("PENSTOCK_JIT", "1") != "0"


def compiled(function: F) -> F:
    """Compile ``function`` when it is first called and keep the machine code on disk."""
    return cast("F", CompiledLoop(function)) if ENABLED else function


def compiled_in_place(function: F) -> F:
    """Like :func:`compiled`, for a loop that makes no array and returns none.

    It does not count references to the arrays it is given; with many columns that takes longer than a short loop.
    """
    return cast("F", CompiledLoop(function, in_place=True)) if ENABLED else function


class CompiledLoop:
    """A function and, from its first call on, its machine code. Compiled loops may call each other."""

    def __init__(self, function: Callable[..., Any], *, in_place: bool = False) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self._in_place = in_place
        self._machine: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        if self._machine is not None:
            return self._machine(*arguments)
        return _INTERPRETER.run(self.py_func, arguments) if _INTERPRETER.is_wanted else self.machine(*arguments)

    @property
    def machine(self) -> Callable[..., Any]:
        """The compiled function, loaded if need be."""
        if self._machine is None:
            self._machine = _compiler(self._in_place)(self.py_func)
        return self._machine


class _Interpreter:
    """Plain Python for a limited time; loops called by a loop belong to the outermost one."""

    def __init__(self) -> None:
        self.left_s = 0.0
        self.is_running = False

    @property
    def is_wanted(self) -> bool:
        return self.is_running or self.left_s > 0

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if self.is_running:
            return function(*arguments)
        begun = time.thread_time()
        self.is_running = True
        try:
            return function(*arguments)
        finally:
            self.is_running = False
            self.left_s -= time.thread_time() - begun


_INTERPRETER = _Interpreter()


def interpret_first(seconds: float) -> None:
    """Run the loops of this process as plain Python until they have taken ``seconds`` of processor time together.

    For short commands with one thread, whose single calls are short too: a call that has begun is not interrupted.
    """
    _INTERPRETER.left_s = seconds


def has_compiler() -> bool:
    """Whether loops will be compiled, for those who have another way that suits plain Python better."""
    return ENABLED and importlib.util.find_spec("numba") is not None


@contextmanager
def _without_linear_algebra() -> Iterator[None]:
    """Numba looks whether SciPy has a BLAS for it as its arrays are imported. No loop here asks for one, and loading
    that of SciPy takes a server a twentieth of its start and of its memory."""
    name = "scipy.linalg"
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


@cache
def _compiler(in_place: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    if not has_compiler():
        return lambda function: function
    with _without_linear_algebra():
        import numba
        import numba.np.arraymath
        from numba.extending import typeof_impl

    @typeof_impl.register(CompiledLoop)
    def _(loop: CompiledLoop, _context: object) -> Any:
        return numba.types.Dispatcher(loop.machine)

    options: dict[str, Any] = {"cache": True, "_nrt": not in_place}  # NRT is what counts references
    return cast("Callable[[Callable[..., Any]], Callable[..., Any]]", numba.njit(**options))
