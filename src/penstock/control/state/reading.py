"""Reading the log: from the newest snapshot that fits to its end, by applying entries and nothing else.

No policy is asked. Nothing that stands in a log keeps a server from starting. An entry that cannot be read (damaged, of
an unknown type, with a value that is none) or that the state fails on is set aside: it stays where it is, a
:class:`~penstock.control.state.entries.Quarantined` entry names it, and it is passed over from then on. Where the entry
was a submission, everything that is said of that job later is passed over with it. Only a log that says itself that a
newer version wrote it is refused.
"""

import contextlib
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from penstock.control.state import snapshots, upgrade
from penstock.control.state.entries import Configured, Decided, Entry, Quarantined, Submitted
from penstock.control.state.platform_state import PlatformState
from penstock.control.state.store import Line, Store
from penstock.core import CODEC_VERSION, CodecError, Decision, InputError, PenstockError, decode, encode

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

    def __init__(self, line: Line, cause: Exception) -> None:
        super().__init__(f"event {line.seq}: {cause}")
        self.line = line
        self.cause = cause


@dataclass(slots=True)
class _Pass:
    """One way through the log: the state so far, and what of the log does not count."""

    state: PlatformState
    stand_in: Configured | None
    aside: set[int]
    unreadable: list[tuple[Line, str]] = field(default_factory=list)
    """Entries that turned out to be unreadable on this way."""

    incomplete: bool = False
    """Whether there are jobs that decisions speak of and nobody knows."""

    def take(self, line: Line) -> None:
        entry = None if line.seq in self.aside else self._read(line)
        if entry is None:
            self._do_without(line)
            return
        if self.incomplete and isinstance(entry, Decided):
            entry = replace(entry, decision=_about(entry.decision, self.state))
        try:
            self.state.apply(entry)
        except Exception as error:
            raise _FaultError(line, error) from error

    def _read(self, line: Line) -> Entry | None:
        try:
            if not line.intact:
                raise CodecError("its checksum does not fit: it is not what was written")
            entry: Entry = decode(line.payload)
        except CodecError as error:
            _refuse_newer(line, error)
            self.unreadable.append((line, str(error)))
            return None
        return entry

    def _do_without(self, line: Line) -> None:
        """A job that is unknown keeps its number; rules that are unknown are taken to be those of today."""
        if line.kind == Submitted.__name__:
            self.state.submitted += 1
            self.incomplete = True
        if line.kind == Configured.__name__ and self.state.settings is None:
            if self.stand_in is None:
                raise InputError(
                    f"event {line.seq}, how the platform was first set up, cannot be read", "a log that begins with it",
                    "Restore a backup: penstock restore FILE",
                )  # fmt: skip
            self.state.apply(replace(self.stand_in, at=line.at))


def read_log(store: Store, stand_in: Configured | None = None) -> LogReading:
    """The state as the log tells it; ``stand_in`` are the rules to assume where the first ones cannot be read."""
    while True:
        try:
            return _read(store, stand_in)
        except _FaultError as fault:
            _set_aside(store, fault.line, f"{type(fault.cause).__name__}: {fault.cause}", fault.cause)


def readable(lines: Iterable[Line]) -> Iterator[Entry]:
    """What entries say, for whoever looks back; those that cannot be read are told about elsewhere."""
    for line in lines:
        with contextlib.suppress(CodecError):
            yield decode(line.payload)


def _read(store: Store, stand_in: Configured | None) -> LogReading:
    state, start, base = _beginning(store)
    told = [line.payload for line in store.log.of_kind(Quarantined.__name__, after=start)]
    way = _Pass(state, stand_in, {seq for each in told if isinstance(seq := each.get("seq"), int)})
    seq = start
    for line in store.log.read(after=start):
        seq = line.seq
        way.take(line)
    for line, why in way.unreadable:
        aside, seq = _set_aside(store, line, why)
        state.apply(aside)
    return LogReading(state=state, seq=seq, snapshot_seq=base, upgraded=start > base)


def _beginning(store: Store) -> tuple[PlatformState, int, int]:
    """A state to go on from, the entry it stands after, and the entry its snapshot stands after."""
    if (found := next(snapshots.usable(store), None)) is not None:
        return *found, found[1]
    compacted, _ = store.compaction.progress()
    if compacted:
        raise InputError(
            f"the log was compacted up to event {compacted} and no snapshot can be read", "a database with a snapshot",
            "Restore a backup: penstock restore FILE",
        )  # fmt: skip
    first = next(store.log.read(), None)
    if first is None or not upgrade.is_old(first):
        return PlatformState(), 0, 0
    old = upgrade.upgrade(store)
    return old.state, old.seq, 0


def _refuse_newer(line: Line, error: CodecError) -> None:
    version = line.payload.get("v")
    if line.intact and isinstance(version, int) and version > CODEC_VERSION:
        raise InputError(
            f"event {line.seq} of the log cannot be read ({error}): it was written by a newer version of Penstock",
            "a log of this version or older", "Install that version again, or start with another data directory",
        ) from error  # fmt: skip


def _about(decision: Decision, state: PlatformState) -> Decision:
    """What a decision says of jobs that are known."""
    known = state.jobs
    return replace(
        decision,
        quotes=tuple(quote for quote in decision.quotes if quote.job_id in known),
        suspended=tuple(job_id for job_id in decision.suspended if job_id in known),
        grants=tuple(grant for grant in decision.grants if grant.job_id in known),
        rates=tuple(pair for pair in decision.rates if pair[0] in known),
        pauses=tuple(pair for pair in decision.pauses if pair[0] in known),
        plans=tuple(pair for pair in decision.plans if pair[0] in known),
        plan_kinds=tuple(pair for pair in decision.plan_kinds if pair[0] in known),
    )


def _set_aside(store: Store, line: Line, why: str, cause: Exception | None = None) -> tuple[Quarantined, int]:
    _log.error("event %d, %s, was set aside: %s", line.seq, line.kind, why, exc_info=cause)
    last = store.log.last()
    at = line.at if last is None else max(last.at, line.at)
    entry = Quarantined(at=at, seq=line.seq, kind=line.kind, why=why, job_id=line.job_id)
    seq = store.log.append(
        Line(at=at, kind=Quarantined.__name__, payload=encode(entry), job_id=entry.job_id, tenant=line.tenant)
    )
    if line.kind == Submitted.__name__ and line.job_id is not None:
        store.jobs.give_up(line.job_id, at, f"its submission (event {line.seq}) cannot be read and was set aside")
    return entry, seq
