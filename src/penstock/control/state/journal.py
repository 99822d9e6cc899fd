"""The one writer: an entry is in the log before it takes effect, and never the other way round.

Everything that changes the platform passes through :meth:`Journal.record`. A crash before the commit means that it
never happened; a crash after it means that it happened and is found again when the log is read. Nobody else writes.
"""

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from penstock.control.state import snapshots
from penstock.control.state.clock import SteadyClock
from penstock.control.state.entries import Configured, Entry, Quarantined, Submitted, job_of
from penstock.control.state.platform_state import PlatformState
from penstock.control.state.records import JobRecord
from penstock.control.state.store import Cursor, GrantRow, JobRow, Key, Line, Store
from penstock.core import PenstockError, decode, encode, plain

_log = logging.getLogger(__name__)
_LONG_READ = 2_000
"""After reading so many entries at a start, the next one shall have it easier."""


class SetAsideError(PenstockError):
    """Something was recorded that the scheduler failed on; it is passed over, and everything else goes on."""

    def __init__(self, message: str, job_id: str | None = None) -> None:
        super().__init__(message)
        self.job_id = job_id


@dataclass(frozen=True, slots=True)
class Request:
    """An entry somebody wants written, and the word by which they would know it again."""

    entry: Entry
    key: Key | None = None


@dataclass(slots=True)
class _Waiting:
    """Somebody who waits for the lock to have something written."""

    make: Callable[[], Request | None]
    done: bool = False
    error: Exception | None = None

    def ask(self) -> Request | None:
        """What to write; if nothing, or if that cannot be said, the wait is over."""
        try:
            request = self.make()
        except Exception as problem:
            request, self.error = None, problem
        self.done = request is None
        return request


class Journal:
    """The state and the log that it is a reading of. Hold :attr:`lock` to look at the state while others write."""

    def __init__(self, store: Store, clock: Callable[[], float] | None = None) -> None:
        self.store = store
        self.lock = threading.RLock()
        self.seq = 0
        self.published = 0
        """The last entry that the listed jobs are known to reflect."""

        self.watch: Callable[[Sequence[Entry], float, float], None] = _unwatched
        """Told what was recorded, and the seconds that writing and applying took; called with the lock held."""

        self._clock = clock or SteadyClock()
        self._kept = 0
        self._waiting: deque[_Waiting] = deque()
        self._publishing = threading.Lock()
        self._being_listed: list[JobRow] = []
        self.state = PlatformState()
        self._read()

    def now(self) -> float:
        """The time, never earlier than what is already written."""
        return max(self._clock(), self.state.at)

    def record(self, *entries: Entry, cursor: Cursor | None = None) -> None:
        """Write, then apply. Entries are moved forward in time where they would be older than the last one."""
        with self.lock:
            self._commit(entries, cursor=cursor)

    def record_with_others(self, make: Callable[[], Request | None]) -> None:
        """Record what ``make`` says when it is called with the lock held; nothing if it says nothing.

        Making a commit last takes the disk some milliseconds, whatever is in it: all who wait for the lock meanwhile
        are written down together by the first of them who gets it.
        """
        waiting = _Waiting(make)
        self._waiting.append(waiting)
        with self.lock:
            while not waiting.done:
                self._commit_together()
        if waiting.error is not None:
            raise waiting.error

    def _commit_together(self) -> None:
        """One transaction for everyone who waits; two requests with the same key come one after the other."""
        batch: list[tuple[_Waiting, Request]] = []
        again: list[_Waiting] = []
        keys: dict[tuple[str, str], Key] = {}
        while self._waiting:
            waiting = self._waiting.popleft()
            request = waiting.ask()
            if request is None:
                continue
            if request.key is not None and (request.key.tenant, request.key.key) in keys:
                again.append(waiting)
                continue
            batch.append((waiting, request))
            if request.key is not None:
                keys[request.key.tenant, request.key.key] = request.key
        self._waiting.extendleft(reversed(again))
        error: Exception | None = None
        try:
            self._commit([request.entry for _, request in batch], keys=list(keys.values()))
        except Exception as problem:
            error = problem
        for waiting, request in batch:
            waiting.done = True
            if not isinstance(error, SetAsideError) or error.job_id == job_of(request.entry):
                waiting.error = error

    def _commit(self, entries: Sequence[Entry], *, keys: Sequence[Key] = (), cursor: Cursor | None = None) -> None:
        ordered = list(self._in_order(entries))
        began = time.perf_counter()
        if ordered or cursor:
            last = self.store.log.append(*map(self._line, ordered), keys=keys, cursor=cursor)
            self.seq = last or self.seq
        written = time.perf_counter()
        for number, entry in enumerate(ordered, start=self.seq - len(ordered) + 1):
            self._apply(number, entry)
        self.watch(ordered, written - began, time.perf_counter() - written)

    def publish(self) -> None:
        """Bring the listed jobs up to date with the state. Nobody waits for that: the lock is not held meanwhile."""
        with self._publishing:
            with self.lock:
                touched = [self.state.jobs[job_id] for job_id in sorted(self.state.touched)]
                held = {record.id: _grant_row(record, self.state.at) for record in touched}
                rows, at, seq = [self.row(record) for record in touched], self.state.at, self.seq
                self.state.touched.clear()
                self._being_listed = rows
            try:
                if rows:
                    self.store.jobs.publish(rows, held, at)
                self.published = seq
            except BaseException:
                with self.lock:
                    self.state.touched.update(held)
                raise
            finally:
                self._being_listed = []

    def unlisted(self) -> list[JobRow]:
        """Jobs as they are now of which the stored list may still show an older row, or none."""
        with self.lock:
            rows = {row.id: row for row in self._being_listed}
            rows |= {job_id: self.row(self.state.jobs[job_id]) for job_id in self.state.touched}
            return list(rows.values())

    @contextmanager
    def reading(self) -> Iterator[PlatformState]:
        """The state, standing still."""
        with self.lock:
            yield self.state

    def keep_snapshot(self, *, every: int = 1) -> None:
        """Make the next start short, if at least ``every`` entries came since the last snapshot."""
        if self.seq - self._kept < every:
            return
        with self._publishing, self.lock:
            if not self.state.touched:
                snapshots.keep(self.store, self.state, self.seq)
                self._kept = self.seq

    def _apply(self, seq: int, entry: Entry) -> None:
        """An entry on which the scheduler fails must not stop the platform, neither now nor at every start."""
        try:
            self.state.apply(entry)
        except Exception as error:
            if isinstance(entry, Configured):
                raise
            self._quarantine(seq, entry, error)
            told = f"{type(entry).__name__} (event {seq}) was set aside: {error}"
            raise SetAsideError(told, job_of(entry)) from error

    def _quarantine(self, seq: int, entry: Entry, error: Exception) -> None:
        """Say loudly that an entry is passed over, and tell the whole story again without it."""
        _log.error("event %d, %s, was set aside: the scheduler failed on it", seq, entry, exc_info=error)
        why, job_id = f"{type(error).__name__}: {error}", job_of(entry)
        aside = Quarantined(at=max(entry.at, self.state.at), seq=seq, kind=type(entry).__name__, why=why, job_id=job_id)
        self.seq = self.store.log.append(self._line(aside))
        self._replay()

    def _replay(self) -> None:
        """The state as the log tells it, from the newest snapshot that fits."""
        aside = {line.payload["seq"]: line.seq for line in self.store.log.of_kind(Quarantined.__name__)}
        state, seq = snapshots.load(self.store) or (PlatformState(), 0)
        if any(bad <= seq < noticed for bad, noticed in aside.items()):
            state, seq = PlatformState(), 0
        self.state, self.seq, self._kept = state, seq, seq
        for line in self.store.log.read(after=self._kept):
            self.seq = line.seq
            if line.seq not in aside:
                self._apply(line.seq, decode(line.payload))

    def _read(self) -> None:
        while True:
            with contextlib.suppress(SetAsideError):
                self._replay()
                break
        if isinstance(self._clock, SteadyClock):
            self._clock.not_before(self.state.at)
        if not self._kept:
            self.state.touched = set(self.state.jobs)
        self.publish()
        self.keep_snapshot(every=_LONG_READ)

    def _in_order(self, entries: Sequence[Entry]) -> Iterator[Entry]:
        latest = self.state.at
        for entry in entries:
            latest = max(latest, entry.at)
            yield entry if entry.at == latest else replace(entry, at=latest)

    def _line(self, entry: Entry) -> Line:
        job_id = job_of(entry)
        return Line(
            at=entry.at, kind=type(entry).__name__, payload=encode(entry), job_id=job_id, tenant=self._tenant(entry)
        )

    def _tenant(self, entry: Entry) -> str | None:
        if isinstance(entry, Submitted):
            return entry.job.tenant
        record = self.state.jobs.get(job_of(entry) or "")
        return None if record is None else record.job.tenant

    def row(self, record: JobRecord) -> JobRow:
        """A job as it is listed."""
        return JobRow(
            id=record.id, number=record.number, name=record.submission.name, tenant=record.job.tenant,
            state=self.state.phase(record).value, spec=record.submission.spec,
            quote=plain(record.quote) if record.quote else None, submitted_at=record.submission.at,
            started_at=record.started_at, ended_at=record.ended_at, run_id=record.run_id if record.stint else None,
            devices=list(record.grant.devices) if record.grant else [], failures=record.failures,
            reason=record.reason, tail=list(record.tail),
        )  # fmt: skip


def _unwatched(_entries: Sequence[Entry], _write_s: float, _apply_s: float) -> None:
    pass


def _grant_row(record: JobRecord, since: float) -> GrantRow | None:
    if record.grant is None:
        return None
    return GrantRow(
        job_id=record.id, generation=record.generation, run_id=record.run_id, kind=record.grant.kind,
        devices=list(record.grant.devices), since=since,
    )  # fmt: skip
