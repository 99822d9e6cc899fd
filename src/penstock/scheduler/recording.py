"""Decisions between the two forms they have: columns over the rows of the table, and a value that a log can keep.

Deciding gives a draft, with columns, because most decisions are applied at once by whoever took them and a simulation
takes millions. A :class:`~penstock.core.Decision` is made from it only where somebody records it, and turned back into
a draft to be applied.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from penstock.core import Decision, EventError, Grant, InvariantError, Quote, Verdict
from penstock.policies import PLAN_STEPS, Floats, Ints, Plans
from penstock.scheduler.deciding import rows_left, take_back
from penstock.scheduler.holdings import Draft, Holdings
from penstock.scheduler.records import Record

Steps = tuple[tuple[float, int], ...]
_GONE = -1
"""The place of a row that a decision does not leave."""


def to_decision(at: float, draft: Draft, holdings: Holdings) -> Decision:
    """The value that says the same; the holdings are as they are before it."""
    rows = _rows(holdings, tuple(draft.wake_at), draft.quotes)
    jobs = holdings.table.jobs

    def name_of(row: int) -> str:
        return jobs[int(rows[row])].id

    return Decision(
        at=at,
        wake_at=tuple(draft.wake_at.items()),
        quotes=tuple(quote for _, quote in draft.quotes),
        suspended=tuple(holdings.records[key].job.id for key in draft.suspended),
        reasons=tuple(_reasons(draft, holdings)),
        grants=tuple(_grant(holdings, *grant) for grant in draft.grants),
        rates=tuple((holdings.records[key].job.id, rate) for key, rate in draft.rates.items()),
        pauses=tuple(_pauses(draft, name_of)),
        plans=tuple(_plans(draft, name_of, holdings.table.plan_at[rows], holdings.table.plan_width[rows])),
        plan_kinds=tuple(_plan_kinds(draft, name_of, holdings.table.plan_kind[rows], tuple(holdings.kinds))),
    )


def from_decision(decision: Decision, holdings: Holdings, records: Mapping[str, Record]) -> Draft:
    """The draft that says the same, with its grants on trial; EventError if it does not fit the state."""
    try:
        return _Reading(decision, holdings, records).draft()
    except (KeyError, EventError, InvariantError) as error:
        raise EventError(f"the decision taken at {decision.at} does not fit: {error}") from error


class _Reading:
    """A decision that is being turned into a draft."""

    def __init__(self, decision: Decision, holdings: Holdings, records: Mapping[str, Record]) -> None:
        self._decision = decision
        self._holdings = holdings
        self._records = records
        self._kinds = tuple(kind for kind, _ in decision.wake_at)

    def draft(self) -> Draft:
        decision, table = self._decision, self._holdings.table
        for kind in self._kinds:
            self._holdings.kinds[kind]
        quotes = [(self._key(quote.job_id), quote) for quote in decision.quotes]
        rows = _rows(self._holdings, self._kinds, quotes)
        keys = table.sequence[rows]
        position = np.full(len(table), _GONE)
        position[rows] = np.arange(len(rows))

        def place_of(name: str) -> int:
            if (place := int(position[table.row_of[self._key(name)]])) == _GONE:
                raise EventError(f"it refuses job {name!r} and gives it something")
            return place

        pauses = np.zeros(len(rows))
        for name, seconds in decision.pauses:
            pauses[place_of(name)] = seconds
        plans = Plans(table.plan_at[rows], table.plan_width[rows], table.plan_kind[rows])
        for name, steps in decision.plans:
            _write_plan(plans, place_of(name), steps)
        for name, kind in decision.plan_kinds:
            plans.kind[place_of(name)] = self._holdings.position(kind)
        suspended = [self._key(name) for name in decision.suspended]
        rates = {self._key(name): rate for name, rate in decision.rates}
        grants = [(self._key(grant.job_id), grant.kind, grant.devices) for grant in decision.grants]
        reasons = {self._key(name): why for name, why in decision.reasons}
        self._try_out([*_refused(quotes), *suspended], grants)
        return Draft(
            wake_at=dict(decision.wake_at), quotes=quotes, suspended=suspended, grants=grants, rates=rates,
            keys=None if len(self._kinds) == len(self._holdings.kinds) else keys, pauses=pauses, plans=plans,
            reasons=lambda: reasons,
        )  # fmt: skip

    def _key(self, name: str) -> int:
        record = self._records[name]
        if record.key not in self._holdings.records:
            raise EventError(f"job {name!r} is {record.state}")
        if record.kind not in self._kinds:
            raise EventError(f"it names job {name!r} but does not decide about {record.kind}")
        return record.key

    def _try_out(self, released: list[int], grants: list[tuple[int, str, tuple[int, ...]]]) -> None:
        holdings = self._holdings
        for kind in self._kinds:
            holdings.kinds[kind].occupancy.try_out()
        try:
            for key in (*released, *(key for key, _, _ in grants)):
                holdings.of(holdings.records[key]).occupancy.release(key)
            for key, kind, devices in grants:
                holdings.kinds[kind].occupancy.take(key, devices)
        except (InvariantError, KeyError):
            take_back(holdings, self._kinds)
            raise


def _refused(quotes: Sequence[tuple[int, Quote]]) -> list[int]:
    return [key for key, quote in quotes if quote.verdict is Verdict.REFUSED]


def _rows(holdings: Holdings, kinds: Sequence[str], quotes: Sequence[tuple[int, Quote]]) -> Ints:
    """The rows of the table that a decision about these kinds leaves, in the order of its columns."""
    table = holdings.table
    rows = np.arange(len(table))[table.rows_of(holdings.positions(kinds))]
    gone = [int(np.searchsorted(rows, table.row_of[key])) for key in _refused(quotes)]
    return np.asarray(rows[rows_left(len(rows), gone)])


def _reasons(draft: Draft, holdings: Holdings) -> Iterator[tuple[str, str]]:
    if draft.suspended:
        for key, why in draft.reasons().items():
            yield holdings.records[key].job.id, why


def _grant(holdings: Holdings, key: int, kind: str, devices: tuple[int, ...]) -> Grant:
    return Grant(holdings.records[key].job.id, kind, devices, holdings.kinds[kind].occupancy.span(devices))


def _pauses(draft: Draft, name_of: Callable[[int], str]) -> Iterator[tuple[str, float]]:
    if draft.pauses is not None:
        for row in np.flatnonzero(draft.pauses).tolist():
            yield name_of(row), float(draft.pauses[row])


def _plans(
    draft: Draft, name_of: Callable[[int], str], kept_at: Floats, kept_width: Ints
) -> Iterator[tuple[str, Steps]]:
    if draft.plans is not None:
        differs = (draft.plans.at != kept_at) | (draft.plans.width != kept_width)
        for row in np.flatnonzero(differs.any(axis=1)).tolist():
            yield name_of(row), steps_of(draft.plans.at[row], draft.plans.width[row])


def _plan_kinds(
    draft: Draft, name_of: Callable[[int], str], kept: Ints, names: Sequence[str]
) -> Iterator[tuple[str, str]]:
    if draft.plans is not None:
        for row in np.flatnonzero(draft.plans.kind != kept).tolist():
            yield name_of(row), names[draft.plans.kind[row]]


def steps_of(at: Floats, width: Ints) -> Steps:
    """A row of plans without its padding."""
    said = np.flatnonzero(np.isfinite(at) | (width != 0))
    count = int(said[-1]) + 1 if len(said) else 0
    return tuple(zip(at[:count].tolist(), width[:count].tolist(), strict=True))


def _write_plan(plans: Plans, row: int, steps: Steps) -> None:
    plans.at[row], plans.width[row] = np.inf, 0
    if len(steps) > PLAN_STEPS:
        raise EventError(f"a plan of {len(steps)} steps, at most {PLAN_STEPS} are kept")
    for step, (at, width) in enumerate(steps):
        plans.at[row, step], plans.width[row, step] = at, width
