"""The one writer: what happened and what was decided because of it are in the log before anybody sees them.

Everything that changes the platform passes through :meth:`Journal.record`. With the lock held, the entries are applied
to the state, the policy is asked if a decision is due, entries and decision are written in one commit, and the decision
is carried out. A crash before the commit means that it never happened; a crash after it means that it happened and is
found again when the log is read. If the commit fails, the state is read again from the store before the lock is
released, so memory is never ahead of the disk for anybody who looks. Nobody else writes.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from penstock.control.state import snapshots
from penstock.control.state.decision_pace import DecisionPace
from penstock.control.state.entries import (
    Configured,
    Decided,
    DecisionFailed,
    Entry,
    Quarantined,
    Recovered,
    Submitted,
    Ticked,
    job_of,
)
from penstock.control.state.entry_check import readable_payload
from penstock.control.state.group_commit import CulpritError, GroupCommit, Request
from penstock.control.state.platform_state import PlatformState
from penstock.control.state.quarantine import Quarantine
from penstock.control.state.reading import LogReading, read_log
from penstock.control.state.records import JobRecord
from penstock.control.state.state_data import StillState, record_from_data, record_to_data
from penstock.control.state.store import Cursor, DamagedError, GrantRow, JobRow, Key, Line, Store
from penstock.control.state.upkeep import Upkeep
from penstock.core import CodecError, PenstockError, plain
from penstock.tools import SteadyClock
from penstock.wire import OVER

_log = logging.getLogger(__name__)
UNREAD = (Decided.__name__, Ticked.__name__)
"""Kinds of entries that only reading a state from the log needs."""
_LONG_READ = 2_000
"""After reading so many entries at a start, the next one shall have it easier."""
_MANY_JOBS = 2_000
"""With so many that are not over, a snapshot takes a second and more."""
_UNREADABLE = (CodecError, KeyError, TypeError, ValueError, AttributeError)
"""What a damaged record of the archive raises."""
_FIRST_RETRY_S = 1.0
_LAST_RETRY_S = 60.0
"""A decision that failed is tried again after the first, then after twice as long each time, up to the last."""


class SetAsideError(PenstockError):
    """Something could not be taken in and is passed over; everything else goes on."""


@dataclass(slots=True)
class _DecisionRetry:
    """When a decision that failed may be tried again."""

    not_before: float = 0.0
    wait_s: float = 0.0
    why: str = ""

    def failed(self, now: float, why: str) -> None:
        self.wait_s = min(max(2 * self.wait_s, _FIRST_RETRY_S), _LAST_RETRY_S)
        self.not_before, self.why = now + self.wait_s, why


class JournalObserver(Protocol):
    """Whoever wants to know what is recorded."""

    def recorded(self, entries: Sequence[Entry], write_s: float, apply_s: float) -> None:
        """These were taken in; writing and deciding took so many seconds. Called with the journal's lock held."""
        ...


class Journal:
    """The state and the log that it is a reading of. Hold :attr:`lock` to look at the state while others write."""

    def __init__(
        self, store: Store, clock: Callable[[], float] | None = None, stand_in: Configured | None = None
    ) -> None:
        """``stand_in`` are the rules to assume where those the log begins with cannot be read."""
        self.store = store
        self.quarantine = Quarantine(store.log)
        self.lock = threading.RLock()
        self.seq = 0
        self.published = 0
        """The last entry that the listed jobs are known to reflect."""

        self.compacted = store.compaction.progress()[1]
        """Entries that were removed from the log because nobody reads them any more."""

        self._clock = clock or SteadyClock()
        self._stand_in = stand_in
        self._upkeep = Upkeep(store)
        self._kept = 0
        self._compacted_at: tuple[int, int] | None = None
        """Where log and snapshots stood when there was nothing to remove."""

        self._stale = False
        self._retry = _DecisionRetry()
        self._pace = DecisionPace()
        self._observers: list[JournalObserver] = []
        self.group = GroupCommit(self.lock, self._write_requests)
        self._publishing, self._keeping = threading.Lock(), threading.Lock()
        self._being_listed: list[JobRow] = []
        self.state = PlatformState()
        self._begin()

    def subscribe(self, observer: JournalObserver) -> None:
        """From now on ``observer`` is told of everything that is recorded."""
        self._observers.append(observer)

    def now(self) -> float:
        """The time, never earlier than what is already written."""
        return max(self._clock(), self.state.at)

    @property
    def clock_step_s(self) -> float:
        """How far the wall clock is from the time that is believed."""
        return self._clock.step_s if isinstance(self._clock, SteadyClock) else 0.0

    @property
    def clock_notice(self) -> str:
        """What is wrong with the clocks at present; empty if all is well."""
        return self._clock.notice if isinstance(self._clock, SteadyClock) else ""

    @property
    def trouble(self) -> str:
        """Why nothing can be decided at present; empty if all is well."""
        return self._retry.why

    @property
    def warnings(self) -> list[str]:
        """What somebody should look at, although everything goes on."""
        return [self.quarantine.warning] if self.quarantine.warning else []

    def record(self, *entries: Entry, cursors: Sequence[Cursor] = ()) -> None:
        """Take in and write. Entries are moved forward in time where they would be older than the last one."""
        with self.lock:
            try:
                self._commit(entries, cursors=cursors)
            except CulpritError:
                self._commit_one_by_one(entries, cursors)

    def record_all(self, entries: Sequence[Entry], key: Key | None = None, cursors: Sequence[Cursor] = ()) -> None:
        """Take in and write all of them, or none."""
        with self.lock:
            try:
                self._commit(entries, keys=() if key is None else (key,), cursors=cursors)
            except CulpritError as error:
                why = f"{type(error.__cause__).__name__}: {error.__cause__}"
                raise SetAsideError(f"one of {len(entries)} entries cannot be taken in, so none was: {why}") from error

    def decide(self) -> None:
        """Time has passed: decide, if a decision is due."""
        with self.lock:
            if self.state.wake_at <= self.now():
                self._commit(())

    def record_with_others(self, make: Callable[[], Request | None]) -> None:
        """Record what ``make`` says when it is called with the lock held, together with what others want recorded."""
        self.group.record(make)

    def _write_requests(self, requests: Sequence[Request]) -> None:
        keys = [request.key for request in requests if request.key is not None]
        self._commit([request.entry for request in requests], keys=keys)

    def _commit_one_by_one(self, entries: Sequence[Entry], cursors: Sequence[Cursor]) -> None:
        """Everything that can be taken in is; the first that cannot is told about."""
        error: SetAsideError | None = None
        for entry in entries:
            try:
                self._commit([entry])
            except SetAsideError as problem:
                error = error or problem
        self._commit((), cursors=cursors)
        if error is not None:
            raise error

    def _commit(self, entries: Sequence[Entry], *, keys: Sequence[Key] = (), cursors: Sequence[Cursor] = ()) -> None:
        """Apply, decide, write, carry out. A failure before the end leaves state and log as they were."""
        if self._stale:
            self._read_again()
        ordered = list(self._in_order(entries))
        payloads = [readable_payload(entry) for entry in ordered]
        began = time.perf_counter()
        try:
            following = self._take_in(ordered)
        except Exception as error:
            self._read_again()
            if len(ordered) > 1:
                raise CulpritError from error
            self._set_aside(ordered[0], error)
        decided = time.perf_counter()
        lines = [self._line(entry, payload) for entry, payload in zip(ordered, payloads, strict=True)]
        self._write([*lines, *map(self._line, following)], keys, cursors)
        written = time.perf_counter()
        for entry in following:
            self.state.apply(entry)
        thinking_s = decided - began + time.perf_counter() - written
        for observer in self._observers:
            observer.recorded([*ordered, *following], written - decided, thinking_s)
        self.state.changed.clear()

    def _take_in(self, entries: Sequence[Entry]) -> list[Entry]:
        """Apply the entries to the state; returns what follows from them and is to be written with them."""
        for entry in entries:
            self.state.apply(entry)
        at = entries[-1].at if entries else self.now()
        asks = any(isinstance(entry, Submitted) for entry in entries)
        if at < self._retry.not_before and not asks:
            return []
        if self._pace.resting:
            return []
        began = time.thread_time()
        try:
            decided = self.state.decision(at)
        except Exception as error:
            if asks:
                raise
            return [self._undecided(at, error)]
        if decided is None:
            return []
        self._retry = _DecisionRetry()
        self._pace.decided(time.thread_time() - began)
        return [decided]

    def _undecided(self, at: float, error: Exception) -> Entry:
        """What happened has happened, whether or not a policy can deal with it."""
        why = f"{type(error).__name__}: {error}"
        _log.error("a decision failed; it is tried again later", exc_info=error)
        self._retry.failed(at, f"nothing can be decided: {why}")
        return DecisionFailed(at=at, why=why)

    def _write(self, lines: Sequence[Line], keys: Sequence[Key], cursors: Sequence[Cursor]) -> None:
        if not lines and not cursors:
            return
        try:
            last = self.store.log.append(*lines, keys=keys, cursors=cursors)
        except BaseException:
            with contextlib.suppress(Exception):
                self._read_again()
            raise
        self.seq = last or self.seq

    def _set_aside(self, entry: Entry, error: Exception) -> None:
        """Say loudly that an entry is passed over, now and at every start.

        A submission that fails is as if it had never come. What has happened stands in the log all the same.
        """
        if isinstance(entry, Configured):
            raise error
        kind, why, job_id = type(entry).__name__, f"{type(error).__name__}: {error}", job_of(entry)
        _log.error("%s was set aside: the scheduler failed on it", entry, exc_info=error)
        seq = 0 if isinstance(entry, Submitted) else self.store.log.append(self._line(entry))
        aside = Quarantined(at=entry.at, seq=seq, kind=kind, why=why, job_id=job_id)
        self.seq = self.store.log.append(self._line(aside))
        self.state.apply(aside)
        self.quarantine.look()
        raise SetAsideError(f"{kind} (event {seq or self.seq}) was set aside: {why}") from error

    def publish(self) -> None:
        """Bring the listed jobs up to date with the state. Nobody waits for that: the lock is not held meanwhile."""
        self._publish()

    def _publish(self, *, still: bool = False) -> tuple[StillState, int] | None:
        """Returns, if asked for, the ``still`` state that the listed jobs reflect now, without those that left it."""
        with self._publishing:
            with self.lock:
                touched = [self.state.jobs[job_id] for job_id in sorted(self.state.touched)]
                held = {record.id: _grant_row(record, self.state.at) for record in touched}
                over = {record.id: record_to_data(record) for record in touched if record.over}
                rows, at, seq = [self.row(record) for record in touched], self.state.at, self.seq
                self.state.touched.clear()
                self._being_listed = rows
                taken = (StillState.of(self.state, without=over), seq) if still else None
            try:
                if rows:
                    self.store.jobs.publish(rows, held, at, over=over)
                self.published = seq
                self._let_go(over)
            except BaseException:
                with self.lock:
                    self.state.touched.update(held)
                raise
            finally:
                self._being_listed = []
        return taken

    def _let_go(self, over: Collection[str]) -> None:
        """Jobs that are over and archived leave memory."""
        with self.lock:
            for job_id in over:
                if job_id not in self.state.touched:
                    self.state.jobs.pop(job_id, None)

    def unlisted(self) -> list[JobRow]:
        """Jobs as they are now of which the stored list may still show an older row, or none."""
        with self.lock:
            rows = {row.id: row for row in self._being_listed}
            rows |= {job_id: self.row(self.state.jobs[job_id]) for job_id in self.state.touched}
            return list(rows.values())

    def find(self, job_id: str) -> JobRecord | None:
        """A job, whether or not it is over."""
        with self.reading() as state:
            record = state.jobs.get(job_id)
        if record is not None:
            return record
        data = self.store.archive.find(job_id)
        if data is None:
            return None
        try:
            return record_from_data(data)
        except _UNREADABLE as error:
            raise DamagedError(
                f"what was kept of job {job_id!r} cannot be read ({error})", "a record as it was written",
                "Its row in the list, its output and the log are still there",
            ) from error  # fmt: skip

    def over_counts(self) -> dict[tuple[str, str], int]:
        """How many listed jobs are over, by state and tenant."""
        listed = self.store.history.counts_by_tenant()
        return {
            (state, tenant): many
            for tenant, states in listed.items()
            for state, many in states.items()
            if state in OVER
        }

    def records(self, *, newest: int | None = None) -> list[JobRecord]:
        """Every job there is and was that can be read, or so many of those that came last, in order of submission."""
        with self.reading() as state:
            after = 0 if newest is None else max(0, state.submitted - newest)
            found = {each.id: each for each in state.jobs.values()}
        for data in self.store.archive.read(after=after):
            with contextlib.suppress(*_UNREADABLE):
                record = record_from_data(data)
                found.setdefault(record.id, record)
        return sorted(found.values(), key=lambda record: record.number)

    @contextmanager
    def reading(self) -> Iterator[PlatformState]:
        """The state, standing still."""
        with self.lock:
            if self._stale:
                self._read_again()
            yield self.state

    def keep_snapshot(self, *, every: int = 1) -> None:
        """Make the next start short, if at least ``every`` entries came since the last snapshot."""
        if self.seq - self._kept < every:
            return
        with self._keeping:
            if (taken := self._publish(still=True)) is not None:
                snapshots.keep(self.store, *taken)
                self._kept = taken[1]

    def keep_snapshot_aside(self, *, every: int) -> None:
        """The same; in a thread of its own where so many jobs are not over that it takes a while."""
        if self.seq - self._kept < every or self._keeping.locked():
            return
        if len(self.state.jobs) < _MANY_JOBS:
            self.keep_snapshot(every=every)
        else:
            threading.Thread(target=self._keep_aside, args=(every,), name="snapshot", daemon=True).start()

    def _keep_aside(self, every: int) -> None:
        try:
            self.keep_snapshot(every=every)
        except Exception:
            _log.exception("no snapshot could be kept; it is tried again")

    def compact(self) -> int:
        """Remove some more of what nobody reads from the log; returns how many entries went."""
        if self._compacted_at == (self.seq, self._kept):
            return 0
        gone = self.store.compaction.step(UNREAD)
        self.compacted += gone
        if not gone:
            self._compacted_at = self.seq, self._kept
        return gone

    def keep_up(self) -> None:
        """Some of the slow work on the log, if it is time for it."""
        if damaged := self._upkeep.step(self.now(), self.quarantine.entries):
            self.record(*damaged)
            self.quarantine.look()

    def _read_again(self) -> None:
        """The state as the log tells it; until that succeeds, nobody sees one."""
        self._stale = True
        self._adopt(read_log(self.store, self._stand_in))
        self.quarantine.look()
        self._stale = False

    def _adopt(self, found: LogReading) -> None:
        self.state, self.seq, self._kept = found.state, found.seq, found.snapshot_seq

    def _begin(self) -> None:
        found = read_log(self.store, self._stand_in)
        self.quarantine.look()
        self._adopt(found)
        if isinstance(self._clock, SteadyClock):
            self._clock.not_before(self.state.at)
        self.publish()
        self.keep_snapshot(every=1 if found.upgraded else _LONG_READ)

    def _in_order(self, entries: Sequence[Entry]) -> Iterator[Entry]:
        latest = self.state.at
        for entry in entries:
            latest = max(latest, entry.at)
            yield entry if entry.at == latest else replace(entry, at=latest)

    def _line(self, entry: Entry, payload: Mapping[str, Any] | None = None) -> Line:
        job_id = job_of(entry)
        return Line(
            at=entry.at, kind=type(entry).__name__, payload=payload or readable_payload(entry), job_id=job_id,
            tenant=self._tenant(entry),
        )  # fmt: skip

    def _tenant(self, entry: Entry) -> str | None:
        if isinstance(entry, Submitted):
            return entry.job.tenant
        if isinstance(entry, Recovered):
            return entry.submission.job.tenant
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


def _grant_row(record: JobRecord, since: float) -> GrantRow | None:
    if record.grant is None:
        return None
    return GrantRow(
        job_id=record.id, generation=record.generation, run_id=record.run_id, kind=record.grant.kind,
        devices=list(record.grant.devices), since=since,
    )  # fmt: skip
