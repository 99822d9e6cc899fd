"""Calls to the backend, several at a time: a run that does not answer delays nobody but itself.

A pass begins calls and waits a moment for all of them together. What is not done by then goes on, and its outcome is
taken in by a later pass, always in the loop's own thread. A run has at most one call under way.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from penstock.core import DeviceSlot

Outcome = Callable[[Exception | None], None]


@dataclass(frozen=True, slots=True)
class _Call:
    """Something under way for a run; ``places`` are the devices it may put to use."""

    future: "Future[None]"
    then: Outcome
    places: frozenset[DeviceSlot]


class BackendCalls:
    """At most ``most`` calls at once; with none allowed at once, each is made by whoever begins it.

    ``on_late`` is called, in another thread, when a call ends that nobody waits for any more.
    """

    def __init__(self, most: int, on_late: Callable[[], None]) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="backend-call") if most else None
        self._on_late = on_late
        self._under_way: dict[str, _Call] = {}

    def is_busy(self, run_id: str) -> bool:
        return run_id in self._under_way

    @property
    def occupied(self) -> dict[str, frozenset[DeviceSlot]]:
        """Runs with a call under way, and the devices it may put to use."""
        return {run_id: call.places for run_id, call in self._under_way.items()}

    def begin(
        self, run_id: str, call: Callable[[], None], then: Outcome, places: frozenset[DeviceSlot] = frozenset()
    ) -> None:
        """Make a call; ``then`` learns how it ended. Nothing happens while another call for the run is under way."""
        if run_id in self._under_way:
            return
        future: Future[None] = Future()
        if self._pool is None:
            _make(call, future)
        else:
            future = self._pool.submit(call)
        self._under_way[run_id] = _Call(future, then, places)

    def finish(self, wait_s: float) -> None:
        """Wait for what is under way, but no longer than that, and take in what has ended."""
        if self._under_way:
            done, late = wait([call.future for call in self._under_way.values()], wait_s)
            for future in late:
                future.add_done_callback(lambda _: self._on_late())
            for run_id in [run_id for run_id, call in self._under_way.items() if call.future in done]:
                self._end(self._under_way.pop(run_id))

    def _end(self, call: _Call) -> None:
        error = call.future.exception()
        if error is not None and not isinstance(error, Exception):
            raise error
        call.then(error)


def _make(call: Callable[[], None], future: "Future[None]") -> None:
    try:
        call()
    except Exception as error:
        future.set_exception(error)
    else:
        future.set_result(None)
