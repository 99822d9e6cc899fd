"""Before a worker starts on a node, the node is checked, and no worker starts on one that fails.

The agent asks whoever knows how to check (:data:`~penstock.core.CHECK_FOR_JOB`), reaches the places of the workers for
it, and tells the server by reports of its own. None of the run's workers lives on these places yet, so nothing that a
job does or prints can take part in that.
"""

import asyncio
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Protocol

from penstock.backends.agent.environment import free_port
from penstock.backends.agent.side_processes import SideEnd
from penstock.core import (
    CHECK_FOR_JOB,
    JobCheck,
    Launch,
    ModuleCall,
    NodeAnswer,
    Preflight,
    PreflightVerdict,
    ReportKind,
    clean_text,
    load_plugin,
)

_log = logging.getLogger(__name__)

UNFIT_CODE = 69
"""The code of a worker that was not started because of its node: EX_UNAVAILABLE of sysexits."""
_LOOK_S = 0.25
_FIRST_PORT, _PORTS = 29600, 200
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_LONGEST_REASON = 1000


class CheckedPlaces(Protocol):
    """Whoever starts workers, as far as checks need it: a place is a worker's, under the worker's id."""

    async def run_beside(self, call: ModuleCall) -> SideEnd:
        """Run a module at a place where no worker has started yet."""
        ...

    def address_of(self, place: str) -> str:
        """Where other places reach it."""
        ...


class _Reach:
    """A :class:`~penstock.core.NodeReach` for threads, over the agent's event loop."""

    def __init__(self, places: CheckedPlaces) -> None:
        self._places = places
        self._loop = asyncio.get_running_loop()
        self._turns = itertools.count()
        self.closed = threading.Event()

    def run(self, call: ModuleCall, *, timeout_s: float, lost: threading.Event) -> NodeAnswer:
        running = asyncio.run_coroutine_threadsafe(self._run(call), self._loop)
        until = time.monotonic() + timeout_s
        while time.monotonic() < until and not (lost.is_set() or self.closed.is_set()):
            with suppress(TimeoutError):
                ended = running.result(_LOOK_S)
                return NodeAnswer(node=call.node, code=ended.code, output=ended.output)
        running.cancel()
        return NodeAnswer(node=call.node, code=None, output="")

    async def _run(self, call: ModuleCall) -> SideEnd:
        return await self._places.run_beside(call)

    def meeting(self, node: str) -> tuple[str, int]:
        address = self._places.address_of(node)
        return address, free_port() if address in _LOOPBACK else _FIRST_PORT + next(self._turns) % _PORTS


class NodeGate:
    """Which nodes workers of a run may start on; each is checked once, unless the launch says that it is fit."""

    def __init__(
        self,
        launch: Launch,
        places: CheckedPlaces,
        *,
        report: Callable[..., None],
        remark: Callable[[str], None],
    ) -> None:
        self._asked: Preflight | None = launch.preflight
        self._reach = _Reach(places)
        self._report = report
        self._remark = remark
        self._fit = set(launch.preflight.fit) if launch.preflight is not None else set()
        self._refused: dict[str, str] = {}
        self._checking: asyncio.Task[None] | None = None
        self._nodes: tuple[str, ...] = ()

    def lets(self, node: str, width: int) -> bool:
        """Whether a worker may start on a node, in a world of so many."""
        return self._asked is None or width < self._asked.from_devices or node in self._fit

    def refusal(self, node: str) -> str:
        """Why no worker starts on a node that was checked; empty if it was not, or is fit."""
        return self._refused.get(node, "")

    @property
    def words(self) -> str | None:
        """What is waited for, while something is."""
        return f"checking {', '.join(self._nodes)} before workers start there" if self._checking else None

    def check(self, places: Mapping[str, str], then: Callable[[], None]) -> None:
        """Check the nodes of these places, and call ``then`` when more is known; one check at a time."""
        if self._checking is None and self._asked is not None:
            self._nodes = tuple(dict.fromkeys(places.values()))
            self._checking = asyncio.get_running_loop().create_task(self._check(self._asked, places, then))

    def close(self) -> None:
        """The run is over; a check that is under way ends with it."""
        self._reach.closed.set()

    async def _check(self, asked: Preflight, places: Mapping[str, str], then: Callable[[], None]) -> None:
        began = time.monotonic()
        self._remark(f"{self.words} (preflight: {asked.level})")
        try:
            check: JobCheck = load_plugin("preflight", CHECK_FOR_JOB)
            verdict = await asyncio.to_thread(check, places, self._reach, asked.level)
        except (Exception, CancelledError) as error:
            _log.exception("nodes could not be checked")
            verdict = PreflightVerdict(fault=f"its nodes could not be checked: {type(error).__name__}: {error}")
        self._checking = None
        if not self._reach.closed.is_set():
            self._take(asked, verdict, time.monotonic() - began)
            then()

    def _take(self, asked: Preflight, verdict: PreflightVerdict, seconds: float) -> None:
        for text in verdict.remarks:
            self._remark(f"preflight: {text}")
        for node, reason in verdict.unfit.items():
            self._refused[node] = said = clean_text(reason[:_LONGEST_REASON])
            self._remark(f"node {node} is not fit for work: {said}")
            self._report(ReportKind.NODE_UNFIT, node=node, level=asked.level.value, reason=said)
        if verdict.fault:
            self._remark(f"preflight failed: {verdict.fault}")
            self._refused |= dict.fromkeys(self._unjudged(), clean_text(verdict.fault[:_LONGEST_REASON]))
        for node in verdict.fit:
            self._fit.add(node)
            self._report(ReportKind.NODE_FIT, node=node, level=asked.level.value)
        if verdict.fit:
            self._remark(f"fit for work: {', '.join(verdict.fit)} ({seconds:.0f} s)")

    def _unjudged(self) -> Iterable[str]:
        return (node for node in self._nodes if node not in self._fit and node not in self._refused)
