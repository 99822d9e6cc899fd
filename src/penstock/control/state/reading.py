"""Reading the log: from the newest snapshot that fits to its end, by applying entries and nothing else.

No policy is asked. An entry that the state fails on, which is always a fault of ours, must not keep a server from
starting: it is set aside by a :class:`~penstock.control.state.entries.Quarantined` entry and passed over from then on.
"""

import logging
from dataclasses import dataclass

from penstock.control.state import snapshots, upgrade
from penstock.control.state.entries import Configured, Entry, Quarantined, job_of
from penstock.control.state.platform_state import PlatformState
from penstock.control.state.store import Line, Store
from penstock.core import CodecError, InputError, PenstockError, decode, encode

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReading:
    """What a store tells: the state after entry ``seq``, read from the snapshot after ``snapshot_seq`` on."""

    state: PlatformState
    seq: int
    snapshot_seq: int
    upgraded: bool = False
    """Whether it was read from a log of the version before, and should be kept in today's form at once."""


class _FaultError(PenstockError):
    """An entry that the state fails on."""

    def __init__(self, line: Line, entry: Entry, cause: Exception) -> None:
        super().__init__(f"event {line.seq}: {cause}")
        self.line = line
        self.entry = entry
        self.cause = cause


def read_log(store: Store) -> LogReading:
    """The state as the log tells it."""
    while True:
        try:
            return _read(store)
        except _FaultError as fault:
            if isinstance(fault.entry, Configured):
                raise
            _set_aside(store, fault)


def _read(store: Store) -> LogReading:
    state, start, base = _beginning(store)
    aside = {line.payload["seq"] for line in store.log.of_kind(Quarantined.__name__, after=start)}
    seq = start
    for line in store.log.read(after=start):
        seq = line.seq
        if line.seq not in aside:
            _apply(state, line)
    return LogReading(state=state, seq=seq, snapshot_seq=base, upgraded=start > base)


def _beginning(store: Store) -> tuple[PlatformState, int, int]:
    """A state to go on from, the entry it stands after, and the entry its snapshot stands after."""
    if (found := next(snapshots.usable(store), None)) is not None:
        return *found, found[1]
    compacted, _ = store.compaction.progress()
    if compacted:
        raise InputError(
            f"the log was compacted up to event {compacted} and no snapshot can be read", "a database with a snapshot",
            "Restore the database from a backup",
        )  # fmt: skip
    first = next(store.log.read(), None)
    if first is None or not upgrade.is_old(first):
        return PlatformState(), 0, 0
    old = upgrade.upgrade(store)
    return old.state, old.seq, 0


def _apply(state: PlatformState, line: Line) -> None:
    entry = _decoded(line)
    try:
        state.apply(entry)
    except Exception as error:
        raise _FaultError(line, entry, error) from error


def _decoded(line: Line) -> Entry:
    try:
        entry: Entry = decode(line.payload)
    except CodecError as error:
        raise InputError(
            f"event {line.seq} of the log cannot be read ({error}): it was written by a newer version of Penstock",
            "a log of this version or older", "Install that version again, or start with another data directory",
        ) from error  # fmt: skip
    return entry


def _set_aside(store: Store, fault: _FaultError) -> None:
    _log.error("event %d, %s, was set aside: it cannot be read", fault.line.seq, fault.entry, exc_info=fault.cause)
    why = f"{type(fault.cause).__name__}: {fault.cause}"
    last = store.log.last()
    entry = Quarantined(
        at=fault.entry.at if last is None else max(last.at, fault.entry.at), seq=fault.line.seq,
        kind=type(fault.entry).__name__, why=why, job_id=job_of(fault.entry),
    )  # fmt: skip
    store.log.append(
        Line(
            at=entry.at, kind=Quarantined.__name__, payload=encode(entry), job_id=entry.job_id,
            tenant=fault.line.tenant,
        )
    )  # fmt: skip
