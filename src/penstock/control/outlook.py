"""When everybody will probably be done, looked up again whenever something has happened.

Forecasts follow from the book and are not part of it: they are never written to the log and no decision rests on them.
"""

import math
import threading
import time
from collections.abc import Callable

from penstock.control.forecast import forecast
from penstock.control.journal import Journal
from penstock.control.records import job_id_of

FEW = 300
"""So many active jobs are looked at anew for each that is submitted; with more of them every few seconds will do."""


class Outlook:
    """The latest forecast of every active job. ``every_s`` is how often it may be made anew."""

    def __init__(self, journal: Journal, *, every_s: float = 2.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._journal = journal
        self._every_s = every_s
        self._clock = clock
        self._looking = threading.Lock()
        self._seen = -1
        self._next_at = -math.inf
        self._expected: dict[str, float] = {}

    def expected_at(self, job_id: str) -> float | None:
        """When this job will probably be done; ``None`` if it is over or nobody can say."""
        return self._expected.get(job_id)

    def refresh(self, *, now: bool = False, within_s: float = 0.1) -> None:
        """Look again, if something has happened; only a few active jobs are worth doing that at any time.

        Whoever comes while another is looking waits for what that one sees.
        """
        with self._looking:
            self._refresh(now, within_s)

    def _refresh(self, now: bool, within_s: float) -> None:
        journal = self._journal
        with journal.reading() as book:
            settled = journal.seq == self._seen or book.settings is None
            due = book.scheduler.active_count() <= FEW if now and not settled else self._clock() >= self._next_at
            if settled or not due:
                return
            self._seen, self._next_at = journal.seq, self._clock() + self._every_s
            stage = book.scheduler.twin()
        ends = forecast(stage, stage.active(), within_s=within_s)
        self._expected = {job_id_of(core): at for core, at in ends.items() if math.isfinite(at)}
