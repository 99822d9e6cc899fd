"""What people had been told counts: an upgraded state made to agree with the jobs as they were listed.

Used by :mod:`penstock.control.state.upgrade` only. The old log has no decisions, so reading it may come to others than
those that were told: another answer, other devices. The listed jobs and the history of grants say what was told. They
may also be a moment behind the log, if the server was killed; such a row shows what was true earlier and is left alone.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from penstock.control.state.entries import Decided
from penstock.control.state.platform_state import PlatformState
from penstock.control.state.records import JobRecord, stint_of
from penstock.control.state.rules import scheduler_from_data
from penstock.control.state.store import GrantRow, JobRow, Store
from penstock.core import Decision, Grant, InvariantError, JobSubmitted, Quote, Verdict, build
from penstock.wire import OVER, JobPhase

_log = logging.getLogger(__name__)
_ALL = 2**31 - 1
Outcome = tuple[str, str | None, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class _ListedJob:
    """One job of which something else was told than reading the log gives."""

    record: JobRecord
    row: JobRow
    history: Sequence[GrantRow] = ()

    @property
    def held(self) -> GrantRow | None:
        """What it holds."""
        last = self.history[-1] if self.history else None
        return last if last is not None and last.until is None and self.row.devices else None

    @property
    def quote(self) -> Quote | None:
        return None if self.row.quote is None else build(Quote, self.row.quote)


def outcome(state: PlatformState, record: JobRecord) -> Outcome:
    """What was decided about a job: where it stands, its answer and its devices."""
    verdict = record.quote.verdict.value if record.quote is not None else None
    return state.phase(record).value, verdict, tuple(record.grant.devices) if record.grant is not None else ()


def adopt_listed_outcomes(state: PlatformState, store: Store, possible: Mapping[str, Collection[Outcome]]) -> list[str]:
    """Change the state where it differs; returns the jobs that did. ``possible`` is what each job ever came to."""
    rows = {row.id: row for row in store.jobs.page(limit=_ALL)}
    differing = []
    for record in list(state.jobs.values()):
        row = rows.get(record.id)
        if row is None:
            continue
        _count_listed_run(record, row)
        told = _outcome_of(row)
        if told == outcome(state, record):
            _repeat(_ListedJob(record, row))
        elif told not in possible.get(record.id, ()) and JobPhase.PAUSED not in (row.state, record.mark):
            differing.append(_ListedJob(record, row, store.jobs.history(row.id)))
    if differing:
        _log.warning("what was told to %d jobs counts, not what today's policies say of them", len(differing))
        _agree(state, differing)
    return [each.record.id for each in differing]


def _count_listed_run(record: JobRecord, row: JobRow) -> None:
    """A run that was listed was there: the next one of a job that waits has another name."""
    if record.grant is None:
        record.stint = max(record.stint, _stint(row))


def _repeat(each: _ListedJob) -> None:
    """The outcome is the same; the words are those that were used."""
    if each.record.over:
        _close(each)
    else:
        each.record.quote = each.quote


def _outcome_of(row: JobRow) -> Outcome:
    return row.state, row.quote["verdict"] if row.quote is not None else None, tuple(row.devices)


def _agree(state: PlatformState, differing: list[_ListedJob]) -> None:
    going_on = [each for each in differing if JobPhase(each.row.state) not in OVER and not _is_fact(each.record)]
    refused = [each for each in differing if JobPhase(each.row.state) in OVER and not each.record.over]
    for each in going_on:
        if each.record.over:
            _reopen(state, each.record)
    _decide(state, going_on, refused)
    for each in going_on:
        _take_over(each)
    _set_standing(state, {each.record.id: each.row.state for each in going_on if each.record.grant is None})
    for each in differing:
        if JobPhase(each.row.state) in OVER:
            _close(each)
            state.active.remove(each.record)


def _is_fact(record: JobRecord) -> bool:
    """Whether a job is over because of something that happened, and not because a policy refused it."""
    return record.over and record.mark is not JobPhase.DECLINED


def _reopen(state: PlatformState, record: JobRecord) -> None:
    record.mark, record.ended_at, record.reason = None, None, ""
    state.scheduler.apply(JobSubmitted(max(state.at, state.scheduler.now), record.job))
    state.adopt(record)


def _decide(state: PlatformState, going_on: list[_ListedJob], refused: list[_ListedJob]) -> None:
    """One decision that says what was told; where it does not fit, everybody concerned waits for the next one."""
    at = max(state.at, state.scheduler.now)
    quotes = [each.quote for each in (*going_on, *refused) if each.quote is not None and _changes(each)]
    grants = [
        Grant(each.record.id, each.held.kind, tuple(each.held.devices), _nodes(state, each.held))
        for each in going_on
        if each.held is not None
    ]
    idle = [each.record.id for each in going_on if each.held is None and each.record.grant is not None]
    held = [each.record.id for each in going_on if each.record.grant is not None]
    wake_at = tuple((kind, at) for kind in state.scheduler.cluster.kinds)
    whole = Decision(at=at, wake_at=wake_at, quotes=tuple(quotes), suspended=tuple(idle), grants=tuple(grants))
    try:
        state.apply(Decided(at=at, decision=whole))
    except InvariantError as error:
        _log.warning("the devices that were told do not fit (%s); these jobs are placed anew", error)
        state.apply(
            Decided(at=at, decision=Decision(at=at, wake_at=wake_at, quotes=tuple(quotes), suspended=tuple(held)))
        )


def _changes(each: _ListedJob) -> bool:
    before = each.record.quote.verdict if each.record.quote is not None else None
    return each.quote is not None and (before is not each.quote.verdict or each.quote.verdict is Verdict.REFUSED)


def _nodes(state: PlatformState, held: GrantRow) -> int:
    return len({state.scheduler.cluster.node_of(device) for device in held.devices})


def _take_over(each: _ListedJob) -> None:
    """Run and generation are those of the processes that are there."""
    record = each.record
    record.quote = each.quote or record.quote
    record.stint = _stint(each.row)
    record.generation = max((grant.generation for grant in each.history), default=0)
    record.footprints = {} if record.grant is None else {record.run_id: frozenset(record.places)}


def _stint(row: JobRow) -> int:
    return stint_of(row.run_id) if row.run_id is not None else 0


def _set_standing(state: PlatformState, standing: Mapping[str, str]) -> None:
    """Jobs without devices wait for their first ones or for the next ones, as they were told."""
    settings = state.settings
    if settings is None or not standing:
        return
    data = state.scheduler.to_data()
    for each in data["records"]:
        if (told := standing.get(each["job"]["id"])) is not None:
            each["state"], each["has_run"] = told, told == JobPhase.SUSPENDED
    state.set_up(settings, scheduler_from_data(data, settings))


def _close(each: _ListedJob) -> None:
    record, row = each.record, each.row
    record.mark, record.quote, record.stint = JobPhase(row.state), each.quote, _stint(row)
    record.started_at, record.ended_at = row.started_at, row.ended_at
    record.failures, record.reason, record.tail = row.failures, row.reason, tuple(row.tail)
