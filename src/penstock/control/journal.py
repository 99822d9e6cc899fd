"""The one writer: an entry is in the log before it takes effect, and never the other way round.

Everything that changes the platform passes through :meth:`Journal.record`. A crash before the commit means that it
never happened; a crash after it means that it happened and is found again when the log is read. Nobody else writes.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from penstock.control.book import Book
from penstock.control.clock import SteadyClock
from penstock.control.codec import decode, encode, plain
from penstock.control.entries import Entry, Submitted, job_of
from penstock.control.records import JobRecord
from penstock.control.store import Cursor, GrantRow, JobRow, Key, Line, Store


class Journal:
    """The book and the log that it is a reading of. Hold :attr:`lock` to look at the book while others write."""

    def __init__(self, store: Store, clock: Callable[[], float] | None = None) -> None:
        self.store = store
        self.lock = threading.RLock()
        self.seq = 0
        self._clock = clock or SteadyClock()
        self.book = Book()
        self._read()

    def now(self) -> float:
        """The time, never earlier than what is already written."""
        return max(self._clock(), self.book.at)

    def record(self, *entries: Entry, key: Key | None = None, cursor: Cursor | None = None) -> None:
        """Write, then apply. Entries are moved forward in time where they would be older than the last one."""
        with self.lock:
            ordered = list(self._in_order(entries))
            if ordered or cursor:
                last = self.store.log.append(*map(self._line, ordered), key=key, cursor=cursor)
                self.seq = last or self.seq
            for entry in ordered:
                self.book.apply(entry)

    def publish(self) -> None:
        """Bring the listed jobs up to date with the book."""
        with self.lock:
            touched = [self.book.jobs[job_id] for job_id in sorted(self.book.touched)]
            if touched:
                held = {record.id: _grant_row(record, self.book.at) for record in touched}
                self.store.jobs.publish([self._row(record) for record in touched], held, self.book.at)
            self.book.touched.clear()

    @contextmanager
    def reading(self) -> Iterator[Book]:
        """The book, standing still."""
        with self.lock:
            yield self.book

    def _read(self) -> None:
        for line in self.store.log.read():
            self.book.apply(decode(line.payload))
            self.seq = line.seq
        if isinstance(self._clock, SteadyClock):
            self._clock.not_before(self.book.at)
        self.book.touched = set(self.book.jobs)
        self.publish()

    def _in_order(self, entries: tuple[Entry, ...]) -> Iterator[Entry]:
        latest = self.book.at
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
        record = self.book.jobs.get(job_of(entry) or "")
        return None if record is None else record.job.tenant

    def _row(self, record: JobRecord) -> JobRow:
        return JobRow(
            id=record.id, number=record.number, name=record.submission.name, tenant=record.job.tenant,
            state=self.book.phase(record).value, spec=record.submission.spec,
            quote=plain(record.quote) if record.quote else None, submitted_at=record.submission.at,
            started_at=record.started_at, ended_at=record.ended_at, run_id=record.run_id if record.stint else None,
            devices=list(record.grant.devices) if record.grant else [], failures=record.failures,
            reason=record.reason, tail=list(record.tail),
        )  # fmt: skip


def _grant_row(record: JobRecord, since: float) -> GrantRow | None:
    if record.grant is None:
        return None
    return GrantRow(
        job_id=record.id, generation=record.generation, run_id=record.run_id, kind=record.grant.kind,
        devices=list(record.grant.devices), since=since,
    )  # fmt: skip
