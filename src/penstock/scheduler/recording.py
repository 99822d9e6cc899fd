"""Decisions between the two forms they have: columns over the rows of a table, and a value that a log can keep.

Deciding gives columns, because most decisions are applied at once by whoever took them and a simulation takes millions.
A :class:`~penstock.core.Decision` is made from them only where somebody records it, and turned back to be applied.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from penstock.core import Decision, EventError, Grant, InvariantError, Quote, Verdict
from penstock.policies import PLAN_STEPS, Floats, Ints, Plans
from penstock.scheduler.deciding import rows_left
from penstock.scheduler.pool import Pool, PoolDecision
from penstock.scheduler.records import Record

Steps = tuple[tuple[float, int], ...]


def to_decision(at: float, decided: Mapping[str, PoolDecision], pools: Mapping[str, Pool]) -> Decision:
    """The value that says the same; the pools are those that were decided about, as they are before."""
    both = [(pools[kind], part) for kind, part in decided.items()]
    names = [[pool.table.jobs[row].id for row in _rows(pool, part).tolist()] for pool, part in both]
    return Decision(
        at=at,
        wake_at=tuple((kind, part.wake_at) for kind, part in decided.items()),
        quotes=tuple(quote for _, part in both for _, quote in part.quotes),
        suspended=tuple(_name(pool, key) for pool, part in both for key in part.suspended),
        grants=tuple(_grant(pool, key, devices) for pool, part in both for key, devices in part.grants),
        rates=tuple((_name(pool, key), rate) for pool, part in both for key, rate in part.rates.items()),
        pauses=tuple(pause for (_, part), ids in zip(both, names, strict=True) for pause in _pauses(part, ids)),
        plans=tuple(plan for (pool, part), ids in zip(both, names, strict=True) for plan in _plans(pool, part, ids)),
    )


def from_decision(
    decision: Decision, pools: Mapping[str, Pool], records: Mapping[str, Record]
) -> dict[str, PoolDecision]:
    """The columns that say the same, by kind, with the grants on trial; EventError if it does not fit the state."""
    parts: dict[str, PoolDecision] = {}
    try:
        for kind, wake_at in decision.wake_at:
            parts[kind] = _Reading(decision, pools[kind], records).part(wake_at)
        _check_complete(decision, parts, records)
    except (KeyError, EventError, InvariantError) as error:
        for kind in parts:
            pools[kind].occupancy.take_back()
        raise EventError(f"the decision taken at {decision.at} does not fit: {error}") from error
    return parts


def _check_complete(decision: Decision, parts: Mapping[str, PoolDecision], records: Mapping[str, Record]) -> None:
    named = [quote.job_id for quote in decision.quotes] + [grant.job_id for grant in decision.grants]
    named += [*decision.suspended, *(name for name, _ in (*decision.rates, *decision.pauses, *decision.plans))]
    for name in named:
        if records[name].kind not in parts:
            raise EventError(f"it names job {name!r} but does not decide about {records[name].kind}")


class _Reading:
    """One kind's part of a decision."""

    def __init__(self, decision: Decision, pool: Pool, records: Mapping[str, Record]) -> None:
        self._decision = decision
        self._pool = pool
        self._records = records

    def part(self, wake_at: float) -> PoolDecision:
        decision, pool = self._decision, self._pool
        quotes = [(self._key(quote.job_id), quote) for quote in decision.quotes if self._here(quote.job_id)]
        rows = _rows(pool, PoolDecision(quotes=quotes))
        row_of = {key: row for row, key in enumerate(pool.table.sequence[rows].tolist())}
        suspended = [self._key(name) for name in decision.suspended if self._here(name)]
        grants = [(self._key(grant.job_id), grant.devices) for grant in decision.grants if self._here(grant.job_id)]
        pauses = np.zeros(len(rows))
        for name, seconds in decision.pauses:
            if self._here(name):
                pauses[row_of[self._key(name)]] = seconds
        plans = Plans(pool.table.plan_at[rows], pool.table.plan_width[rows])
        for name, steps in decision.plans:
            if self._here(name):
                _write_plan(plans, row_of[self._key(name)], steps)
        self._try_out(quotes, suspended, grants)
        return PoolDecision(
            wake_at=wake_at, quotes=quotes, suspended=suspended, grants=grants, pauses=pauses, plans=plans,
            rates={self._key(name): rate for name, rate in decision.rates if self._here(name)},
        )  # fmt: skip

    def _here(self, name: str) -> bool:
        return self._records[name].kind == self._pool.kind

    def _key(self, name: str) -> int:
        key = self._records[name].key
        if key not in self._pool.records:
            raise EventError(f"job {name!r} is {self._records[name].state}")
        return key

    def _try_out(
        self, quotes: list[tuple[int, Quote]], suspended: list[int], grants: list[tuple[int, tuple[int, ...]]]
    ) -> None:
        occupancy = self._pool.occupancy
        occupancy.try_out()
        try:
            for key in (*_refused(quotes), *suspended, *(key for key, _ in grants)):
                occupancy.release(key)
            for key, devices in grants:
                occupancy.take(key, devices)
        except InvariantError:
            occupancy.take_back()
            raise


def _refused(quotes: Sequence[tuple[int, Quote]]) -> list[int]:
    return [key for key, quote in quotes if quote.verdict is Verdict.REFUSED]


def _rows(pool: Pool, part: PoolDecision) -> Ints:
    """The rows of the pool's table that are left once refused jobs are gone."""
    return rows_left(len(pool.table), [pool.table.row_of[key] for key in _refused(part.quotes)])


def _name(pool: Pool, key: int) -> str:
    return pool.records[key].job.id


def _grant(pool: Pool, key: int, devices: tuple[int, ...]) -> Grant:
    return Grant(_name(pool, key), pool.kind, devices, pool.occupancy.span(devices))


def _pauses(part: PoolDecision, ids: list[str]) -> Iterator[tuple[str, float]]:
    if part.pauses is not None:
        for row in np.flatnonzero(part.pauses).tolist():
            yield ids[row], float(part.pauses[row])


def _plans(pool: Pool, part: PoolDecision, ids: list[str]) -> Iterator[tuple[str, Steps]]:
    if part.plans is not None:
        rows = _rows(pool, part)
        differs = (part.plans.at != pool.table.plan_at[rows]) | (part.plans.width != pool.table.plan_width[rows])
        for row in np.flatnonzero(differs.any(axis=1)).tolist():
            yield ids[row], steps_of(part.plans.at[row], part.plans.width[row])


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
