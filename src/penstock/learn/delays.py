"""How long does a job stand still, when it starts, changes and ends? Reports in, seconds out; and what is kept of them.

What happens before the first step and after the last is nobody's speed, but a promise has to include it: processes
that start, imports, data, a checkpoint that is loaded, devices that another job has yet to leave. All of it shows as
time that passed without the steps that could have been made in it.
"""

import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from statistics import median

from penstock.core import Costs, InputError, Span
from penstock.learn.database import SharedDatabase
from penstock.learn.tenant_scope import scope_of

PRIOR = Costs(start=Span(5.0, 15.0), resize=Span(1.0, 10.0), end=Span(0.5, 2.0))
"""What is assumed where no job was ever seen: a Python process that imports torch from a disk it was not read from."""

KEPT = 8
"""Delays that count, the newest ones: what a machine takes today says little about next week."""
_LATEST = 3
_LATELY_S = 600.0
_TREND = (0.5, 2.5)
"""The newest starts of any job of the tenant, if they are not older than this, say how today compares with what is
usual, within these bounds: on a machine that others use as well, everything on it gets slower or faster together."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS delays (
    fingerprint TEXT NOT NULL,
    kind TEXT NOT NULL,
    what TEXT NOT NULL,
    seconds REAL NOT NULL,
    at REAL NOT NULL
)
"""
_THESE = "fingerprint = :fingerprint AND kind = :kind AND what = :what"
_FORGET = (
    f"DELETE FROM delays WHERE {_THESE} AND rowid NOT IN"
    f" (SELECT rowid FROM delays WHERE {_THESE} ORDER BY rowid DESC LIMIT :kept)"
)


class Delay(StrEnum):
    """Which kind of standing still."""

    START = "start"
    RESIZE = "resize"
    END = "end"


class CostStore:
    """Delays by job and kind of device, and what to expect of the next one.

    A job is expected to take as long as it did before, and as much longer as the newest starts of any job took; one
    that was never seen as long as other jobs on the same kind of device do; where nothing was, :data:`PRIOR` holds.
    Other jobs are those of the same tenant (:mod:`penstock.learn.tenant_scope`): delays of all of them are kept under
    the scope alone.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = CostStore(Path(folder.name) / "curves.db")
    >>> for seconds in (8.0, 6.0, 7.0):
    ...     store.observe("resnet", "cpu", Delay.START, seconds)
    >>> store.costs("resnet", "cpu").start, store.costs("another", "cpu").start.likely
    (Span(likely=7.0, most=9.333333333333334), 7.0)
    >>> folder.cleanup()
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._database = SharedDatabase(path, _SCHEMA)
        self._clock = clock

    def observe(self, fingerprint: str, kind: str, what: Delay, seconds: float) -> None:
        """Keep a delay, for this job and for all; the oldest ones give way."""
        if not (0.0 <= seconds < 1e7 and fingerprint and kind):
            raise InputError(f"a {what} of {fingerprint!r} on {kind!r} that took {seconds} s", "0 or more seconds")
        now = self._clock()
        with self._database.writing() as database:
            for whose in (fingerprint, scope_of(fingerprint)):
                database.execute("INSERT INTO delays VALUES (?, ?, ?, ?, ?)", (whose, kind, what.value, seconds, now))
                database.execute(_FORGET, {"fingerprint": whose, "kind": kind, "what": what.value, "kept": KEPT})

    def costs(self, fingerprint: str, kind: str) -> Costs:
        """What to expect of a job on a kind of device."""
        any_job = scope_of(fingerprint)
        with self._database.reading() as database:
            rows = database.execute(
                "SELECT fingerprint, what, seconds FROM delays WHERE kind = ? AND fingerprint IN (?, ?) ORDER BY rowid",
                (kind, fingerprint, any_job),
            ).fetchall()
            trend = self._trend(database, kind, any_job)
        seen: dict[tuple[str, str], list[float]] = {}
        for whose, what, seconds in rows:
            seen.setdefault((whose, what), []).append(seconds)
        spans = {what: seen.get((fingerprint, what)) or seen.get((any_job, what)) for what in Delay}
        return Costs(**{what.value: _span(found, trend, getattr(PRIOR, what.value)) for what, found in spans.items()})

    def adopt(self, scope: str) -> None:
        """Let delays that were kept without a tenant count for this one, unless it has some of its own."""
        with self._database.writing() as database:
            known = database.execute("SELECT 1 FROM delays WHERE substr(fingerprint, 1, ?) = ?", (len(scope), scope))
            if known.fetchone() is None:
                database.execute(
                    "INSERT INTO delays SELECT ? || fingerprint, kind, what, seconds, at FROM delays"
                    " WHERE instr(fingerprint, '-') = 0 ORDER BY rowid",
                    (scope,),
                )

    def _trend(self, database: sqlite3.Connection, kind: str, any_job: str) -> float:
        """How much longer than usual the newest starts took, whichever jobs of the tenant they were of."""
        newest = database.execute(
            "SELECT fingerprint, seconds FROM delays WHERE kind = ? AND what = 'start' AND fingerprint != ?"
            " AND substr(fingerprint, 1, instr(fingerprint, '-')) = ? AND at > ? ORDER BY rowid DESC LIMIT ?",
            (kind, any_job, any_job, self._clock() - _LATELY_S, _LATEST),
        ).fetchall()
        ratios = []
        for whose, seconds in newest:
            all_of = database.execute(
                "SELECT seconds FROM delays WHERE fingerprint = ? AND kind = ? AND what = 'start'", (whose, kind)
            )
            usual = median(value for (value,) in all_of)
            ratios.append(seconds / usual if usual >= 1.0 else 1.0)
        return min(max(median(ratios), _TREND[0]), _TREND[1]) if ratios else 1.0


def _span(seconds: Sequence[float] | None, trend: float, prior: Span) -> Span:
    """The middle one as things go today, and the longest with the more on top the fewer were seen."""
    if not seconds:
        return prior
    likely = median(seconds) * trend
    return Span(likely, max([*seconds, likely]) * (1.0 + 0.5 / len(seconds)))


@dataclass(slots=True)
class DelayMeter:
    """Watches one run: when it was given devices, and when steps were made.

    A delay is the time that passed, less what the steps made in it take at the speed that follows. So a script that
    tells of every hundredth step is measured as well as one that tells of each.
    """

    given_at: float
    first_step: int
    what: Delay | None = Delay.START
    _first: tuple[float, int] | None = None
    _last: tuple[float, int] | None = None
    _rate: float = 0.0

    @property
    def has_begun(self) -> bool:
        """Whether any step was told of yet."""
        return self._last is not None

    def begins(self, what: Delay, at: float) -> None:
        """Something that costs time was decided; progress from now on shows how much."""
        self.what, self.given_at, self._first = what, at, None
        self.first_step = self._last[1] if self._last is not None else self.first_step

    def progress(self, at: float, step: int) -> tuple[Delay, float] | None:
        """A delay, once two reports after it show how fast training goes by itself."""
        before, self._last = self._last, (at, step)
        if self._first is None:
            self._first = (at, step)
            return None
        if before is not None and step > before[1] and at > before[0]:
            self._rate = (step - self._first[1]) / (at - self._first[0])
        if self.what is None or self._rate <= 0.0:
            return None
        what, self.what = self.what, None
        made = max(self._first[1] - self.first_step, 0)
        return what, max(0.0, self._first[0] - self.given_at - made / self._rate)

    def ended(self, at: float, total: int | None) -> float | None:
        """Seconds between the last step and the end, if the steps are known to be complete."""
        if self._last is None or total is None or self._rate <= 0.0:
            return None
        return max(0.0, at - self._last[0] - max(total - self._last[1], 0) / self._rate)
