"""When everybody will probably be done, looked up again whenever something has happened.

Forecasts follow from the state and are not part of it: they are never written to the log and no decision rests on them.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.control.future.forecast import forecast
from penstock.control.state.journal import Journal
from penstock.control.state.platform_state import PlatformState
from penstock.core import Source
from penstock.policies import weakest_source
from penstock.wire import JobPhase

_log = logging.getLogger(__name__)
FEW = 300
"""So many active jobs are looked at anew for each that is submitted; with more of them every few seconds will do."""
_PATIENCE_S = 0.03
"""What a submission may wait for a look, and how long the look it asks for may compute."""
_SHARE = 0.1
"""The share of the time that looks asked for by submissions may take in a rush of them."""
_REST = 9.0
"""Looks of the loop itself are at least so many times as far apart as one takes: with very many jobs it is long."""
_SAVED_UP_S = 0.3
"""Looking time that a quiet while lets them have at once."""


class Forecasts:
    """The latest forecast of every active job. ``every_s`` is how often it may be made anew."""

    def __init__(self, journal: Journal, *, every_s: float = 2.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._journal = journal
        self._every_s = every_s
        self._clock = clock
        self._looking = threading.Lock()
        self._seen = -1
        self._next_at = self._looked_at = -math.inf
        self._allowance_s = 0.0
        self._crowded = False
        self._expected: dict[str, float] = {}
        self._first: dict[str, float] = {}

    def expected_at(self, job_id: str) -> float | None:
        """When this job will probably be done; ``None`` if it is over or its speed is not known yet."""
        return self._expected.get(job_id)

    def first_expected_at(self, job_id: str) -> float | None:
        """What the first look after its submission said, or the first since the server started."""
        return self._first.get(job_id)

    def refresh(self, *, now: bool = False, within_s: float = 0.1) -> None:
        """Look again, if something has happened.

        Who asks for it ``now`` has somebody waiting: that look is short, only a few active jobs are worth it, and in a
        rush of submissions it is left out, so that looking never takes more than a small share of the time.
        """
        if not self._looking.acquire(timeout=-1 if not now else 0.0 if self._crowded else _PATIENCE_S):
            return
        try:
            began = self._clock()
            if self._refresh(now, min(within_s, _PATIENCE_S) if now else within_s):
                self._looked(now, began, self._clock())
        finally:
            self._looking.release()

    def _refresh(self, now: bool, within_s: float) -> bool:
        journal = self._journal
        with journal.reading() as state:
            self._crowded = state.settings is not None and state.scheduler.active_count() > FEW
            if (
                journal.seq == self._seen
                or state.settings is None
                or not self._due(now, state.scheduler.active_count())
            ):
                return False
            self._seen, self._next_at = journal.seq, self._clock() + self._every_s
            stage = state.scheduler.twin()
            blocked = _blocked(state)
            unknown = {job_id for job_id in stage.active() if weakest_source(stage.job(job_id)) is Source.GUESSED}
        try:
            ends = forecast(stage, stage.active(), within_s=within_s)
        except Exception:
            _log.exception("no forecast: the policy fails; those made before stand")
            return True
        expected = {job_id: at for job_id, at in ends.items() if math.isfinite(at) and job_id not in unknown}
        for each in blocked:
            if all(job_id in expected for job_id in each.awaited):
                expected[each.job_id] = max(expected[job_id] for job_id in each.awaited) + each.alone_s
        self._expected = expected
        self._first = {job_id: self._first.get(job_id, at) for job_id, at in self._expected.items()}
        return True

    def _looked(self, now: bool, began: float, ended: float) -> None:
        if self._crowded:
            self._next_at = max(self._next_at, ended + _REST * (ended - began))
        if now:
            self._charge(began, ended)

    def _due(self, now: bool, active: int) -> bool:
        at = self._clock()
        return at >= self._next_at or (now and active <= FEW and self._allowed(at) > 0.0)

    def _allowed(self, at: float) -> float:
        return min(self._allowance_s + _SHARE * (at - self._looked_at), _SAVED_UP_S)

    def _charge(self, began: float, ended: float) -> None:
        """No look counts for more than twice what it may compute: the first of all also loads compiled code."""
        self._allowance_s = self._allowed(began) - min(ended - began, 2 * _PATIENCE_S)
        self._looked_at = began


class _Blocked(NamedTuple):
    """A job that the scheduler does not know yet, and for how long it will run when nothing is in its way."""

    job_id: str
    awaited: Sequence[str]
    alone_s: float


def _blocked(state: PlatformState) -> list[_Blocked]:
    """Those whose speed is known, in the order they came: nobody waits for a later one."""
    found = []
    for record in state.preparing.values():
        awaited = state.unended(record) if record.mark is JobPhase.BLOCKED else []
        if awaited and weakest_source(record.job) is not Source.GUESSED:
            found.append(_Blocked(record.id, awaited, state.scheduler.seconds_alone(record.job)))
    return [each for each in found if math.isfinite(each.alone_s)]
