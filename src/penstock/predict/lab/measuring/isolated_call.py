"""Calls in processes of their own: a network is measured as it would run as a job.

A process in which other networks ran before has an allocator that no longer gives memory back to the system. A new one
gives back and fetches again large tensors in every step, and so do jobs: that costs a CPU up to a quarter of a step.
"""

import multiprocessing
import signal
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar, cast

_FORK = multiprocessing.get_context("fork")
_PATIENCE_S = 120.0
T = TypeVar("T")


def isolated_call(work: Callable[[], T]) -> T:
    """What ``work`` returns or raises, called in a copy of this process, which must not have computed in threads."""
    here, there = _FORK.Pipe(duplex=False)
    child = _FORK.Process(target=_answer, args=(work, there), daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads that only wait do no harm to a copy
        child.start()
    there.close()
    try:
        if not here.poll(_PATIENCE_S):
            raise RuntimeError(f"no answer within {_PATIENCE_S:g} s")
        answer = here.recv()
    except EOFError:
        raise RuntimeError("its process ended without an answer") from None
    finally:
        here.close()
        child.kill()
        child.join()
    if isinstance(answer, Exception):
        raise answer
    return cast("T", answer)


def _answer(work: Callable[[], Any], there: Connection) -> None:
    """An interrupt is the caller's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        answer = work()
    except Exception as problem:
        answer = problem
    there.send(answer)
