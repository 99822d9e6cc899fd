"""The state of the platform, as a fold over the log.

The state holds one scheduler and one record per job that is not over. Entries go in, in order; what comes out is what
should be true of the world: which runs should be alive, on which devices. It does no I/O, reads no clock and asks no
policy, so reading the same log twice gives the same state twice, whatever version reads it. Deciding is a question to
the state (:meth:`PlatformState.decision`) whose answer becomes an entry like any other.
"""

import logging
from collections.abc import Iterable
from typing import ClassVar

from penstock.control.state.entries import Decided, Entry, job_of
from penstock.control.state.folded_state import FoldedState, Reducers
from penstock.control.state.reducers import REDUCERS
from penstock.core import EventError

_log = logging.getLogger(__name__)
_ROUNDING = 1e-9


class PlatformState(FoldedState):
    """The state that takes in entries and says which decision is due."""

    reducers: ClassVar[Reducers] = REDUCERS

    def apply(self, entry: Entry) -> None:
        """Take in one entry. One that does not fit is passed over, now and whenever the log is read again."""
        if entry.at < self.at:
            raise EventError(f"{entry} is older than what the state already holds")
        try:
            self.reducers[type(entry)](self, entry)
        except EventError as error:
            _log.info("passed over %s: %s", type(entry).__name__, error)
        self.at = entry.at
        if (job_id := job_of(entry)) in self.jobs:
            self.mark_changed(str(job_id))

    def decision(self, at: float) -> Decided | None:
        """What should be decided now, if anything is due; nothing changes by asking. The only place that asks."""
        if self._scheduler is None or self._scheduler.due_at > at + _ROUNDING:
            return None
        return Decided(at=at, decision=self._scheduler.decide(at))


def replay(entries: Iterable[Entry]) -> PlatformState:
    """The state that a log tells."""
    state = PlatformState()
    for entry in entries:
        state.apply(entry)
    return state
