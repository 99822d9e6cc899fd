"""Deciding: what policy, admission, placement, cost model and rate model make of the state, without changing it.

This is the only place where they are asked. Progress is projected beside the table, those who wait are answered, the
policy says how many devices of which kind everybody holds, the placement says which, the models say how long everyone
stands still and how fast everyone runs. The result is a :class:`~penstock.scheduler.holdings.Draft`; until it is
applied or given up, the occupancies have its grants on trial.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from penstock.core import Cluster, InvariantError, Quote, Verdict
from penstock.placement import Placement
from penstock.policies import (
    MOST_SUSPENSIONS,
    Admission,
    AnyPolicy,
    Assignment,
    Bools,
    ColumnSource,
    Floats,
    Ints,
    KindConditions,
    Offer,
    PerKind,
    PlannedQuotes,
    Plans,
    Policy,
    ReplacedColumns,
    Standing,
    View,
    WithinBounds,
    admit_confined,
    admit_undisturbed,
    allocate_confined,
    allocate_lasting,
    allocate_undisturbed,
    asked_again,
    offers_after,
)
from penstock.scheduler.columns import TableColumns
from penstock.scheduler.costs import CostedRound, CostModel
from penstock.scheduler.holdings import STANDING, Draft, Holdings
from penstock.scheduler.kinds import KindState
from penstock.scheduler.leaving import Leaving
from penstock.scheduler.node_seats import NodeSeats
from penstock.scheduler.placing import place
from penstock.scheduler.preemption import preemption_reasons
from penstock.scheduler.rates import CurveRates, PlacedJob, RateModel
from penstock.scheduler.table import Projection
from penstock.scheduler.waiting import waiting_for
from penstock.tools import compiled_in_place


class Moment(NamedTuple):
    """What a decision looks at: the time, the kinds it is about, their rows with their progress, as views show them."""

    now: float
    kinds: Sequence[str]
    rows: Any
    projection: Projection
    columns: ColumnSource
    conditions: Sequence[KindConditions]


class _Changes(NamedTuple):
    """What an assignment makes different: the rows that lose all they hold, and those that shall hold others."""

    losing: Ints
    wanting: Ints


class _Answers(NamedTuple):
    """Quotes that say something new, by key; then the standing of every row that is left, which those are, and the
    plans in which the promises hold together, with what else admission worked out if every row is left. ``promised``
    are the rows of this table that were just promised."""

    quotes: Sequence[tuple[int, Quote]] = ()
    standing: Ints | None = None
    left: Ints | None = None
    plans: Plans | None = None
    worked_out: object = None
    promised: Ints = np.zeros(0, dtype=np.int64)


_Found = tuple[_Answers, View, Assignment, NodeSeats]
"""Answers, the view after them, and what the policy decides then."""


class Decider:
    """The rules in force: who is asked when a decision is due."""

    def __init__(
        self,
        policy: AnyPolicy,
        admission: Admission[Any],
        placement: Placement,
        costs: CostModel,
        rates: RateModel,
        stint_costs: float,
    ) -> None:
        self.policy = policy
        self.admission = admission
        self.placement = placement
        self.costs = costs
        self.rates = rates
        self.stint_costs = stint_costs
        wide: Policy = policy if isinstance(policy, Policy) else PerKind(policy, admission)
        self._wide = WithinBounds(wide, admission if isinstance(policy, Policy) else wide)

    @property
    def whole(self) -> bool:
        """Whether every decision is about all kinds of devices."""
        return isinstance(self.policy, Policy)

    def decide(self, holdings: Holdings, cluster: Cluster, slot: float, now: float, kinds: Sequence[str]) -> Draft:
        """About some kinds of device. If anybody who is asked fails, everything is as before. O(jobs) and up."""
        leaving = Leaving(holdings, now, kinds)
        conditions = [
            _conditions(state, state.interval_at(now), leaving, decided=kind in kinds)
            for kind, state in holdings.kinds.items()
        ]
        moment, seats = _moment(holdings, now, kinds, conditions, leaving), NodeSeats(holdings, leaving)
        answers = self._answer(holdings, slot, moment, seats)
        for kind in kinds:
            holdings.kinds[kind].occupancy.try_out()
        try:
            view = self._view(holdings, slot, moment, answers)
            if not len(view):
                wake_at = {kind: holdings.kinds[kind].closes_at(now) for kind in kinds}
                return Draft(wake_at=wake_at, quotes=answers.quotes, projection=moment.projection)
            assignment = allocate_confined(self._allocate, view, seats)
            if self.policy.overhead_proof and len(answers.promised) and len(assignment.late):
                found = (answers, view, assignment, seats)
                answers, view, assignment, seats = self._kept(holdings, slot, moment, leaving, found)
            assignment = leaving.fitted(view, assignment)
            changes = _checked_changes(view, assignment)
            if len(moving := leaving.moving(view, assignment)):
                changes = changes._replace(wanting=np.union1d(changes.wanting, moving))
            return self._carried_out(holdings, cluster, moment, answers, view, assignment, changes, seats, leaving)
        except BaseException:
            take_back(holdings, kinds)
            raise

    def _kept(self, holdings: Holdings, slot: float, moment: Moment, leaving: Leaving, found: _Found) -> _Found:
        """What was found if it keeps every earlier promise; else without new promises, as few of them as that takes:
        accepted counter-offers are given up last."""

        def without(answers: _Answers) -> _Found:
            view, seats = self._view(holdings, slot, moment, answers), NodeSeats(holdings, leaving)
            return answers, view, allocate_confined(self._allocate, view, seats), seats

        answers, view, assignment, _ = found
        careful = without(_without_promises(holdings, view, answers, answers.promised, None))
        if assignment.keeps_promises_of(careful[2]):
            return found
        offers = holdings.offers_at(moment.now, slot) if holdings.offers else []
        others = [row for row in answers.promised.tolist() if not any(each.serves(view.jobs[row]) for each in offers)]
        if 0 < len(others) < len(answers.promised):
            dropped = np.array(others, dtype=np.int64)
            with_accepted = without(_without_promises(holdings, view, answers, dropped, answers.plans))
            if with_accepted[2].keeps_promises_of(careful[2]):
                return with_accepted
        return careful

    def view(self, holdings: Holdings, slot: float, now: float) -> View:
        """What a policy would see now."""
        leaving = Leaving(holdings, now, tuple(holdings.kinds))
        conditions = [_conditions(state, state.interval, leaving, decided=True) for state in holdings.kinds.values()]
        return self._view(
            holdings, slot, _moment(holdings, now, tuple(holdings.kinds), conditions, leaving), _Answers()
        )

    def explain(self, holdings: Holdings, view: View, row: int) -> str:
        said = self._wide.explain(view, row)
        if suspensions := int(view.suspensions[row]):
            said += f"; it was suspended {'once' if suspensions == 1 else f'{suspensions} times'}"
            if self.policy.bounds_suspensions:
                said += f", at most {MOST_SUSPENSIONS} times for anything less than a promise or a quota"
        waits = view.jobs[row].nodes.confines and not view.width[row]
        leaving = Leaving(holdings, view.now, tuple(holdings.kinds))
        return f"{said}; {waiting_for(NodeSeats(holdings, leaving), view, row)}" if waits else said

    def _allocate(self, view: View) -> Assignment:
        """By the policy, with what holds under every policy wherever devices are."""
        return allocate_lasting(
            partial(allocate_undisturbed, self._wide), view, self.stint_costs, bounded=self.policy.bounds_suspensions
        )

    def _view(self, holdings: Holdings, slot: float, moment: Moment, answers: _Answers) -> View:
        table, columns, left = holdings.table, moment.columns, answers.left
        rows = table.rows_left(moment.rows, left)
        if answers.standing is not None:
            told: dict[str, Any] = {"standing": answers.standing}
            if (plans := answers.plans) is not None:
                told |= {"plan_at": plans.at, "plan_width": plans.width, "plan_kind": plans.kind}
            columns = ReplacedColumns(columns, told, left)
        return View(
            now=moment.now, slot=slot, overhead=self.costs.overhead, conditions=moment.conditions, columns=columns,
            jobs=table.jobs if isinstance(rows, slice) else [table.jobs[row] for row in rows.tolist()],
            tenant=table.tenant[rows], bound=table.bound[rows],
            options=[options.shown(rows) for options in table.options],
            tenants=lambda: holdings.tenant_table(moment.now),
            arrivals=lambda: holdings.arrivals.shown(moment.now),
            leases=[state.leases_after(moment.now) for state in holdings.kinds.values()],
            bounds=holdings.tenants.bounds(holdings.capacity), is_planned=answers.plans is not None,
            offers=_offers(holdings, slot, moment.now, answers), worked_out=answers.worked_out,
            staying=holdings.staying(),
        )  # fmt: skip

    def _answer(self, holdings: Holdings, slot: float, moment: Moment, seats: NodeSeats) -> _Answers:
        table, rows = holdings.table, moment.rows
        asked = table.undecided(rows)
        if not len(asked):
            return _Answers()
        standing, sequence = table.standing[rows].copy(), table.sequence[rows]
        keys = sequence[asked].tolist()
        view = self._view(holdings, slot, moment, _Answers())
        quotes = admit_confined(partial(admit_undisturbed, self._wide), self._allocate, view, asked, seats)
        plans, worked_out = PlannedQuotes.plans_of(quotes), getattr(quotes, "worked_out", None)
        said: list[tuple[int, Quote]] = []
        refused: list[int] = []
        promised = np.zeros(len(standing), dtype=bool)
        for row, key, answer in zip(asked.tolist(), keys, quotes, strict=True):
            if answer is None:
                continue
            before = holdings.records[key].quote
            quote = _kept_on(answer) if holdings.records[key].amended else answer
            if before is not None and before.verdict is quote.verdict:
                continue
            said.append((key, quote))
            if quote.verdict is Verdict.REFUSED:
                refused.append(row)
            else:
                standing[row] = STANDING[quote.verdict]
                promised[row] = quote.verdict is Verdict.PROMISED
        if not refused:
            return _Answers(said, standing, None, plans, worked_out, promised.nonzero()[0])
        left = rows_left(len(sequence), refused)
        plans = None if plans is None else Plans(plans.at[left], plans.width[left], plans.kind[left])
        return _Answers(said, standing[left], left, plans, None, promised[left].nonzero()[0])

    def _carried_out(
        self,
        holdings: Holdings,
        cluster: Cluster,
        moment: Moment,
        answers: _Answers,
        view: View,
        assignment: Assignment,
        changes: _Changes,
        seats: NodeSeats,
        leaving: Leaving,
    ) -> Draft:
        for key, quote in answers.quotes:
            if quote.verdict is Verdict.REFUSED:
                holdings.of(holdings.records[key]).occupancy.release(key)
        suspended = _released(holdings, view, assignment, changes)
        if assignment.pinned is not None:
            _pin(holdings, view, assignment.pinned)
        wanting = changes.wanting
        grants: list[tuple[int, str, tuple[int, ...]]] = []
        if len(wanting):
            leaving.close(view, wanting)
            grants = place(self.placement, holdings, view, assignment, wanting, seats)
            leaving.reopen()
        granted = {key for key, _, _ in grants}
        return Draft(
            wake_at=_wakes(holdings, moment, assignment),
            quotes=answers.quotes,
            suspended=suspended,
            grants=grants,
            rates=self._rates(holdings, cluster, granted),
            keys=None if isinstance(moment.rows, slice) else view.sequence,
            pauses=self._pauses(holdings, moment, answers, view, assignment, granted),
            plans=assignment.plans,
            projection=moment.projection,
            reasons=partial(preemption_reasons, view, assignment, changes.losing, self.policy.name),
        )

    def _pauses(
        self,
        holdings: Holdings,
        moment: Moment,
        answers: _Answers,
        view: View,
        assignment: Assignment,
        granted: set[int],
    ) -> Floats:
        """Whoever was touched stands still: for what the decision costs, and what it costs this very job."""
        table, widths = holdings.table, assignment.widths
        changed, pauses = np.zeros(len(view), dtype=bool), np.zeros(len(view))
        if granted:
            at = _positions(holdings, moment, answers, view, granted)
            rows = table.rows_left(moment.rows, answers.left)
            changed[at] = True
            begins = table.start_s[at if isinstance(rows, slice) else rows[at]]
            pauses[at] = np.where(view.width[at] > 0, view.resize_s[at], begins)
        for kind in moment.kinds:
            state = holdings.kinds[kind]
            mine: Any = slice(None)
            if len(holdings.kinds) > 1:
                mine = (assignment.kinds == holdings.position(kind)).nonzero()[0]
            keys = view.sequence[mine]

            def devices_of(row: int, state: KindState = state, keys: Ints = keys) -> tuple[int, ...]:
                return state.occupancy.devices(int(keys[row]))

            pauses[mine] += self.costs.pauses(CostedRound(widths[mine], changed[mine], state.size, devices_of))
        return pauses

    def _rates(self, holdings: Holdings, cluster: Cluster, granted: set[int]) -> dict[int, float]:
        """Rates that are neither what a grant brings by itself nor what they were."""
        if isinstance(self.rates, CurveRates):
            return {}
        placed: list[PlacedJob] = []
        asked: dict[int, int] = {}
        for kind, state in holdings.kinds.items():
            for key in state.occupancy.keys():  # noqa: SIM118
                if granted & {key} or not state.occupancy.touched.isdisjoint(state.occupancy.parts(key)):
                    asked[key] = len(placed)
                devices, nodes = state.occupancy.devices(key), state.occupancy.nodes_of(key)
                placed.append(PlacedJob(holdings.records[key].job, kind, devices, nodes))
        rates = self.rates.rates(cluster, placed, tuple(asked.values())) if asked else ()
        said = zip(asked.items(), rates, strict=True)
        return {key: rate for (key, at), rate in said if rate != _known_rate(holdings, placed[at], key, granted)}


def _moment(
    holdings: Holdings, now: float, kinds: Sequence[str], conditions: Sequence[KindConditions], leaving: Leaving
) -> Moment:  # fmt: skip
    rows = holdings.table.rows_of(holdings.positions(kinds))
    projection = holdings.table.projected(now, rows)
    columns = TableColumns(holdings.table, projection, rows, lambda: holdings.deserved(rows, now))
    return Moment(now, kinds, rows, projection, leaving.shown(columns, holdings.table.sequence[rows]), conditions)


def _conditions(state: KindState, interval: float, leaving: Leaving, *, decided: bool) -> KindConditions:
    capacity = state.occupancy.capacity - leaving.devices(state.kind)
    return KindConditions(name=state.kind, capacity=capacity, interval=interval, decided=decided)


def _offers(holdings: Holdings, slot: float, now: float, answers: _Answers) -> list[Offer]:
    """The counter-offers that are held once these answers are given."""
    held = holdings.offers_at(now, slot) if holdings.offers else []
    for key, quote in answers.quotes:
        if held or quote.held is not None:
            held = offers_after(held, holdings.records[key].job, quote)
    return held


def _without_promises(
    holdings: Holdings, view: View, answers: _Answers, dropped: Ints, plans: Plans | None
) -> _Answers:  # fmt: skip
    """The same answers without some new promises: what cannot be carried out beside the earlier ones is asked again."""
    assert answers.standing is not None
    standing = answers.standing.copy()
    standing[dropped] = Standing.DEFERRED
    row_of = dict(zip(view.sequence[dropped].tolist(), dropped.tolist(), strict=True))
    quotes = [(key, quote) for key, quote in answers.quotes if key not in row_of]
    quotes += [(key, asked_again(view, row)) for key, row in row_of.items() if holdings.records[key].quote is None]
    return _Answers(quotes, standing, answers.left, plans, np.setdiff1d(answers.promised, dropped))


def _kept_on(quote: Quote) -> Quote:
    """The answer to a job that had been taken in before: it runs when it can where a new one would be refused."""
    if quote.verdict is not Verdict.REFUSED:
        return quote
    reason = f"what it asks for since it was edited cannot be promised: {quote.reason}; it runs when it can"
    return Quote(
        job_id=quote.job_id, verdict=Verdict.BEST_EFFORT, reason=reason, counter_offer=quote.counter_offer
    )  # fmt: skip


def take_back(holdings: Holdings, kinds: Sequence[str]) -> None:
    """Give up what was on trial."""
    for kind in kinds:
        holdings.kinds[kind].occupancy.take_back()


def rows_left(count: int, removed: Sequence[int]) -> Ints:
    """The rows of a table of ``count`` after :meth:`JobTable.remove` of these: each is replaced by the last."""
    if not removed:
        return np.arange(count)
    left, moved = list(range(count)), dict[int, int]()
    for row in removed:
        place, last = moved.get(row, row), left.pop()
        if place < len(left):
            left[place] = last
            moved[last] = place
    return np.array(left, dtype=np.int64)


def _released(holdings: Holdings, view: View, assignment: Assignment, changes: _Changes) -> list[int]:
    """Free the devices of those who lose them or get others of another kind; returns those who get none."""
    suspended: list[int] = view.sequence[changes.losing].tolist()
    leaving = suspended
    if assignment.kinds is not view.bound:
        wanting = changes.wanting
        moving = wanting[(assignment.kinds[wanting] != view.bound[wanting]) & (view.width[wanting] > 0)]
        leaving = [*suspended, *view.sequence[moving].tolist()]
    for key in leaving:
        holdings.of(holdings.records[key]).occupancy.release(key)
    return suspended


def _pin(holdings: Holdings, view: View, pinned: Bools) -> None:
    for kind, state in enumerate(holdings.kinds.values()):
        state.occupancy.pinned = frozenset(view.sequence[pinned & (view.bound == kind)].tolist())


def _positions(holdings: Holdings, moment: Moment, answers: _Answers, view: View, keys: set[int]) -> Ints:
    """Where jobs are in the view."""
    row_of = holdings.table.row_of
    if answers.left is not None or not isinstance(moment.rows, slice):
        row_of = {key: row for row, key in enumerate(view.sequence.tolist())}
    return np.array([row_of[key] for key in keys], dtype=np.int64)


def _wakes(holdings: Holdings, moment: Moment, assignment: Assignment) -> dict[str, float]:
    """When to decide again: when the policy wants to, and when a node has to be vacated."""
    wakes = {
        kind: at if at > moment.now else math.inf for kind, at in zip(holdings.kinds, assignment.wake_at, strict=True)
    }
    return {kind: min(wakes[kind], holdings.kinds[kind].closes_at(moment.now)) for kind in moment.kinds}


def _known_rate(holdings: Holdings, placed: PlacedJob, key: int, granted: set[int]) -> float:
    if key in granted:
        return placed.job.curve.rate(len(placed.devices), placed.kind, placed.nodes)
    return float(holdings.table.rate[holdings.table.row_of[key]])


def _checked_changes(view: View, assignment: Assignment) -> _Changes:
    """A policy that grants what is not there, or what a job cannot use, is wrong: say so at once."""
    widths, kinds = assignment.widths, assignment.kinds
    if widths.shape != (len(view),) or kinds.shape != widths.shape:
        raise InvariantError(f"{len(view)} jobs but widths of shape {widths.shape}")
    _check_capacity(view, assignment)
    differs = widths != view.width
    if kinds is not view.bound:
        differs |= (kinds != view.bound) & (widths > 0)
    different = differs.nonzero()[0]
    wanted = widths[different]
    if np.count_nonzero(wanted < 0):
        raise InvariantError("a width below zero")
    wanting = different[wanted > 0]
    if len(wanting):
        _check_usable(view, assignment, wanting)
    return _Changes(different[wanted == 0], wanting)


def _check_capacity(view: View, assignment: Assignment) -> None:
    for kind, here in enumerate(view.conditions):
        mine = assignment.widths if len(view.conditions) == 1 else assignment.widths[assignment.kinds == kind]
        if int(mine.sum()) > (here.capacity if here.decided else 0):
            raise InvariantError(f"{mine.sum()} devices granted, {here.capacity} exist")


@compiled_in_place
def _unusable(levels: Ints, requested: Ints, rows: Ints, wanted: Ints) -> int:
    """The first of ``rows`` that wants a width at which it cannot run; -1 if none does."""
    for at in range(len(rows)):
        row, width = rows[at], wanted[at]
        found = requested[row] == width
        for level in range(levels.shape[1]):
            found |= levels[row, level] == width
        if not found:
            return int(row)
    return -1


def _check_usable(view: View, assignment: Assignment, wanting: Ints) -> None:
    for kind, options in enumerate(view.by_kind):
        rows = wanting if len(view.by_kind) == 1 else wanting[assignment.kinds[wanting] == kind]
        wanted = assignment.widths[rows]
        if (row := _unusable(options.levels, options.requested, rows, wanted)) >= 0:
            raise InvariantError(f"job {view.jobs[row].id!r} cannot use {assignment.widths[row]} devices")
