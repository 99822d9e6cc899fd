"""The slow work on a log that grows for years: a little of it now and then, so that nobody notices.

Entries of earlier versions get their checksums, every entry is read once after each start whether it still is what was
written, and what only corrected a figure long ago is removed. What happened to jobs stays.
"""

import logging
import time
from collections.abc import Callable, Sequence

from penstock.control.state.entries import (
    CostsLearned,
    CurveLearned,
    DecisionFailed,
    PreparationNoted,
    Progressed,
    Quarantined,
)
from penstock.control.state.store import Line, Store

_log = logging.getLogger(__name__)
EVERY_S = 5.0
AT_ONCE = 100
"""Entries that are read at a time: a million of them in fourteen hours, at a tenth of a percent of a processor."""
KEPT_S = 90 * 86400.0
"""How long corrections are kept for reports about the past."""
CORRECTIONS = tuple(
    kind.__name__ for kind in (Progressed, CurveLearned, CostsLearned, PreparationNoted, DecisionFailed)
)
"""Kinds of entries that say how a figure was corrected; snapshots stand after them, and reports of then are made."""


class Upkeep:
    """One step every few seconds; returns what was found damaged."""

    def __init__(self, store: Store, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._monotonic = monotonic
        self._due_at = monotonic() + EVERY_S
        self._read_to = 0
        self._is_done = False

    def step(self, now: float, known: Sequence[int]) -> list[Quarantined]:
        """Entries whose checksums do not fit, apart from those that are ``known`` to be set aside."""
        if self._monotonic() < self._due_at:
            return []
        self._due_at = self._monotonic() + EVERY_S
        self._store.compaction.forget_old(CORRECTIONS, now - KEPT_S)
        return [] if self._is_done else [_damaged(line, now) for line in self._read() if line.seq not in known]

    def _read(self) -> list[Line]:
        lines = self._store.log.page(after=self._read_to, limit=AT_ONCE)
        self._store.log.add_checksums([line for line in lines if line.checksum is None])
        if not lines:
            self._is_done = True
            _log.info("every entry of the log was read and compared with its checksum")
            return []
        self._read_to = lines[-1].seq
        return [line for line in lines if not line.intact]


def _damaged(line: Line, now: float) -> Quarantined:
    _log.error("event %d, %s, is damaged: its checksum does not fit", line.seq, line.kind)
    why = "its checksum does not fit: it is not what was written"
    return Quarantined(at=now, seq=line.seq, kind=line.kind, why=why, job_id=line.job_id)
