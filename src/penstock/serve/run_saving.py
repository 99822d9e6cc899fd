"""Runs that save and end before their server does, where their agents cannot outlive it.

On a machine of its own a server leaves its runs alone: the next one finds them. In a pod the agents end with the
container. A server that is told to stop there (an update, a drain) asks every run to save its state first, so that the
next server begins them again where they were, and not at the checkpoint before.
"""

import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from penstock.backends import Backend
from penstock.core import PenstockError
from penstock.serve.assembly import Assembly

_log = logging.getLogger(__name__)
_LOOK_S = 0.2
_AT_ONCE = 8


@contextmanager
def runs_saved_at_the_end(parts: Assembly, within_s: float) -> Iterator[None]:
    """Around everything that starts runs; nothing is asked of them if ``within_s`` is 0, or by a server that was
    replaced."""
    try:
        yield
    finally:
        if within_s > 0 and not parts.is_replaced:
            save_runs(parts.reconciler.backend, within_s)


def save_runs(backend: Backend, within_s: float) -> list[str]:
    """Ask every run to save and end, and wait for that; returns those that still lived then."""
    deadline, asked = time.monotonic() + within_s, set[str]()
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="save") as pool:
        while (living := _living(backend)) and time.monotonic() < deadline:
            fresh = [run_id for run_id in living if run_id not in asked]
            asked.update(fresh)
            for _ in pool.map(lambda run_id: _suspend(backend, run_id), fresh):
                pass
            time.sleep(_LOOK_S)
    if living:
        _log.warning("runs that have not ended within %g s: %s", within_s, ", ".join(living))
    return living


def _living(backend: Backend) -> list[str]:
    return [run.run_id for run in backend.runs() if run.alive]


def _suspend(backend: Backend, run_id: str) -> None:
    try:
        backend.suspend(run_id)
    except PenstockError as error:
        _log.warning("run %s cannot be asked to save: %s", run_id, error)
