"""The planned timeline, computed now and then and shared by everybody who looks at it."""

import logging
import threading
import time

from penstock.control.future.planned_timeline import PlannedTimeline, plan_timeline
from penstock.control.state.journal import Journal

_log = logging.getLogger(__name__)
_MAX_AGE_S = 15.0
"""How old a timeline may be while nothing happens."""
_REST_FACTOR = 20.0
"""Computing takes at most a twentieth of one core: so many times as long as the last one took nothing is computed."""


class TimelineCache:
    """The latest planned timeline; a newer one is computed meanwhile, so that nobody waits for it."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._computing = threading.Lock()
        self._timeline: PlannedTimeline | None = None
        self._seq = -1
        self._rest_s = 1.0

    def timeline(self) -> PlannedTimeline:
        cached = self._timeline
        if cached is None:
            with self._computing:
                return self._timeline or self._compute()
        if self._is_outdated(cached) and self._computing.acquire(blocking=False):
            threading.Thread(target=self._recompute, name="planned-timeline", daemon=True).start()
        return cached

    def _is_outdated(self, cached: PlannedTimeline) -> bool:
        age = self._journal.now() - cached.now
        return age >= self._rest_s and (self._journal.seq != self._seq or age >= _MAX_AGE_S)

    def _recompute(self) -> None:
        try:
            self._compute()
        except Exception:
            _log.exception("the planned timeline could not be computed; trying again")
        finally:
            self._computing.release()

    def _compute(self) -> PlannedTimeline:
        journal, began = self._journal, time.thread_time()
        with journal.reading() as state:
            scheduler, now, self._seq = state.scheduler.twin(), journal.now(), journal.seq
        self._timeline = timeline = plan_timeline(scheduler, now)
        self._rest_s = max(0.5, _REST_FACTOR * (time.thread_time() - began))
        return timeline
