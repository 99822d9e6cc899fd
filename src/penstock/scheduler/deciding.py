"""Deciding: what policy, admission, placement and cost model make of the state, without changing it.

This is the only place where they are asked. Progress is projected beside the table, those who wait are answered, the
policy says how many devices everybody holds, the placement says which, the cost model says how long everyone stands
still. The result is a :class:`~penstock.scheduler.pool.PoolDecision`; until it is applied or given up, the occupancy
has its grants on trial.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.core import InvariantError, Quote, Verdict
from penstock.placement import Ask, Placement
from penstock.policies import Admission, Allocation, Ints, Policy, View
from penstock.scheduler.costs import CostModel, Round
from penstock.scheduler.pool import STANDING, Pool, PoolDecision
from penstock.scheduler.table import Conditions, Projection


@dataclass(frozen=True, slots=True)
class _Answers:
    """Quotes that say something new, by key; then every row's standing, and which rows are left in which order."""

    quotes: Sequence[tuple[int, Quote]] = ()
    standing: Ints | None = None
    rows: Ints | None = None


class Decider:
    """The rules in force: who is asked when a decision is due."""

    def __init__(self, policy: Policy, admission: Admission, placement: Placement, costs: CostModel) -> None:
        self.policy = policy
        self.admission = admission
        self.placement = placement
        self.costs = costs

    def decide(self, pool: Pool, now: float) -> PoolDecision:
        """One kind of device. If anybody who is asked fails, everything is as before. O(jobs) vector work and up."""
        projection, conditions = pool.table.projected(now), self._conditions(pool, now)
        answers = self._answer(pool, projection, conditions)
        pool.occupancy.try_out()
        try:
            view = pool.table.view(projection, conditions, standing=answers.standing, rows=answers.rows)
            if not len(view):
                return PoolDecision(quotes=answers.quotes, projection=projection)
            allocation = self.policy.allocate(view)
            _check(view, allocation.widths)
            return self._carried_out(pool, projection, answers, view, allocation)
        except BaseException:
            pool.occupancy.take_back()
            raise

    def view(self, pool: Pool, now: float) -> View:
        """What the policy would see now."""
        conditions = Conditions(pool.occupancy.capacity, pool.slot, pool.interval, self.costs.overhead)
        return pool.table.view(pool.table.projected(now), conditions)

    def backlog(self, pool: Pool, now: float) -> list[tuple[str, float, float]]:
        """(job, device-seconds still needed at its narrowest, projected end), the cheapest first."""
        view, ends = self.view(pool, now), pool.table.finish_at[: len(pool.table)]
        standing = np.where(view.width > 0, view.still_s, view.start_s)
        seconds = view.levels[:, 0] * (view.remaining / view.rates[:, 0] + standing)
        order = np.argsort(seconds, kind="stable").tolist()
        return [(view.jobs[row].id, float(seconds[row]), float(ends[row])) for row in order]

    def _conditions(self, pool: Pool, now: float) -> Conditions:
        return Conditions(pool.occupancy.capacity, pool.slot, pool.interval_at(now), self.costs.overhead)

    def _answer(self, pool: Pool, projection: Projection, conditions: Conditions) -> _Answers:
        table = pool.table
        asked = table.undecided()
        if not len(asked):
            return _Answers()
        keys = table.sequence[asked].tolist()
        quotes = self.admission.admit(table.view(projection, conditions), asked)
        standing, refused = table.standing[: len(table)].copy(), []
        said: list[tuple[int, Quote]] = []
        for row, key, quote in zip(asked.tolist(), keys, quotes, strict=True):
            before = pool.records[key].quote
            if before is not None and before.verdict is quote.verdict:
                continue
            said.append((key, quote))
            if quote.verdict is Verdict.REFUSED:
                refused.append(row)
            else:
                standing[row] = STANDING[quote.verdict]
        if not refused:
            return _Answers(said, standing)
        rows = rows_left(len(table), refused)
        return _Answers(said, standing[rows], rows)

    def _carried_out(
        self, pool: Pool, projection: Projection, answers: _Answers, view: View, allocation: Allocation
    ) -> PoolDecision:
        widths, now = allocation.widths, view.now
        for key, quote in answers.quotes:
            if quote.verdict is Verdict.REFUSED:
                pool.occupancy.release(key)
        different = np.flatnonzero(widths != view.width)
        suspended = view.sequence[different[widths[different] == 0]].tolist()
        for key in suspended:
            pool.occupancy.release(key)
        asks = [_ask(pool, view, row, int(widths[row])) for row in different[widths[different] > 0].tolist()]
        grants = list(self.placement.place(pool.occupancy, asks).items()) if asks else []
        changed = np.zeros(len(view), dtype=bool)
        if grants:
            row_of = pool.table.row_of if answers.rows is None else _rows_by_key(view)
            changed[[row_of[key] for key, _ in grants]] = True

        def devices_of(row: int) -> tuple[int, ...]:
            return pool.occupancy.devices(int(view.sequence[row]))

        used = slice(len(pool.table)) if answers.rows is None else answers.rows
        own = np.where(view.width > 0, pool.table.change_s(now, widths, used), pool.table.start_s[used])
        charged = self.costs.pauses(Round(widths, changed, pool.size, devices_of))
        return PoolDecision(
            wake_at=allocation.wake_at if allocation.wake_at > now else math.inf, quotes=answers.quotes,
            suspended=suspended, grants=grants, pauses=charged + np.where(changed, own, 0.0), plans=allocation.plans,
            projection=projection,
        )  # fmt: skip


def rows_left(count: int, removed: Sequence[int]) -> Ints:
    """The rows of a table of ``count`` after :meth:`JobTable.remove` of these: each is replaced by the last."""
    left, moved = list(range(count)), dict[int, int]()
    for row in removed:
        place, last = moved.get(row, row), left.pop()
        if place < len(left):
            left[place] = last
            moved[last] = place
    return np.array(left, dtype=np.int64)


def _rows_by_key(view: View) -> dict[int, int]:
    return {key: row for row, key in enumerate(view.sequence.tolist())}


def _ask(pool: Pool, view: View, row: int, width: int) -> Ask:
    key = int(view.sequence[row])
    return Ask(key, width, pool.occupancy.devices(key))


def _check(view: View, widths: Ints) -> None:
    """A policy that grants what is not there, or what a job cannot use, is wrong: say so at once."""
    if widths.shape != (len(view),):
        raise InvariantError(f"{len(view)} jobs but widths of shape {widths.shape}")
    if int(widths.sum()) > view.capacity:
        raise InvariantError(f"{widths.sum()} devices granted, {view.capacity} exist")
    new = np.flatnonzero(widths != view.width)
    wanted = widths[new]
    usable = (wanted == 0) | (wanted == view.requested[new]) | (view.levels[new] == wanted[:, None]).any(axis=1)
    if not usable.all():
        row = int(new[~usable][0])
        raise InvariantError(f"job {view.jobs[row].id!r} cannot use {widths[row]} devices")
