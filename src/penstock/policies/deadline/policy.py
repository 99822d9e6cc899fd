"""Our default: promise what can surely be kept, keep trying for the rest, leave nothing idle."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np

from penstock.core import Quote, percent_text
from penstock.policies.base import Assignment, PlannedQuotes, Policy
from penstock.policies.columns import KEPT_WITHIN_S, MOST_SUSPENSIONS, ROUNDING_S, Bools, Floats, Ints, Standing
from penstock.policies.deadline.answers import HeldBack, answers, any_held_back, has_news, last_chances
from penstock.policies.deadline.forward import bring_forward
from penstock.policies.deadline.idle import immovable, use_idle
from penstock.policies.deadline.inputs import PlanInputs, Terms, terms_of
from penstock.policies.deadline.layout import Layout
from penstock.policies.deadline.offers import with_accepted
from penstock.policies.deadline.promises import (
    WorkedOut,
    add_promises,
    cheapest_first,
    kept_promises,
    promised_rows,
    worked_out_terms,
)
from penstock.policies.deadline.turns import Turns, grow_first
from penstock.policies.greedy import by_priority
from penstock.policies.measure_first import counts_to_measure, devices_text, is_unmeasured, patience
from penstock.policies.parameters import Parameter
from penstock.policies.planned_policy import explain_plan
from penstock.policies.planning import widths_at
from penstock.policies.view import View

AtOnce = Annotated[float, Parameter("share of the devices that may be promised as soon as a job asks", least=0.0)]
Hold = Annotated[float, Parameter("how long the devices for a counter-offer are kept free of promises", least=0.0)]
Large = Annotated[float, Parameter("share of all device-time until its deadline that defers a long job", least=0.0)]
AT_ONCE = 0.3
LARGE = 0.5
_DEAR = (
    "jobs with deadlines ask for more than {} of the {} that may be promised, which is what is promised at once"
    " (at_once={:g}), and cheaper jobs are promised first"
)
_LARGE = "it takes more than the share of all device-time until its deadline that is promised at once (large={:g})"
LONG_S = 6 * 3600.0
"""A job is long if it would keep all devices busy for this time."""
HOLD_S = 60.0
ANSWER_WITHIN_S = 1e-3
MEASURED_WITHIN_S = 30.0
"""Seconds on devices, for each count that is measured, after which a job that has not shown its speed takes its turn
like any other."""


class DeadlinePolicy(Policy):
    """As many deadlines as possible, and every promise kept, on all kinds of devices together.

    * *Promises*: minimum satisfactory shares in deadline order, as in ElasticFlow, but counting on the worst that
      rescheduling can do, so that a promise survives it. In a burst the cheapest job is asked first: a deadline met is
      a deadline met, whatever it costs.
    * *Deferred answers*: a job that cannot be promised is not turned away while it could still make it alone. It is
      asked again at every decision, and meanwhile planned beside the promised jobs, on likely instead of certain terms,
      wherever that harms nobody.
    * *Idle devices*, highest priority first: a first share for everybody who has none; then nobody is disturbed without
      need; then the job that gains most speed per device, if it lives long enough to earn back the pause.
    * *Measuring*: whoever cannot be answered because its speed is not known goes first, on the fewest devices it takes
      and for some seconds, and so does whoever would be in time only on a number of devices on which it was never
      measured. Promised jobs with time to spare make room for the former.

    O(jobs x breakpoints) per decision, and again per job that is asked.
    """

    name: ClassVar[str] = "deadline"
    summary: ClassVar[str] = "our default: promises proof against overhead, cheap jobs first, retries, nothing idle"
    paper: ClassVar[str] = "ours, from ElasticFlow's minimum satisfactory share"
    overhead_proof: ClassVar[bool] = True
    keeps_promises: ClassVar[bool] = True
    bounds_suspensions: ClassVar[bool] = True

    def __init__(
        self,
        at_once: AtOnce = AT_ONCE,
        hold_s: Hold = HOLD_S,
        large: Large = LARGE,
    ) -> None:
        self.at_once = at_once
        self.hold_s = hold_s
        self.large = large

    def admit(self, view: View, rows: Ints) -> Sequence[Quote | None]:
        told, accepting = with_accepted(view, rows)
        view, terms = told, terms_of(told)
        cost = terms.cautious.cost
        asked = np.sort(rows[np.isfinite(view.deadline[rows])])
        asked = cheapest_first(cost, np.setdiff1d(asked, accepting) if len(accepting) else asked)
        rules = self.held_back(view, cost)
        cheap = asked[~any_held_back(rules)[asked]]
        if not len(cheap) and not len(accepting) and not has_news(view, rows):
            return [None] * len(rows)
        layout, cautious = self.reserved(view, terms)
        layout = add_promises(view, cautious, layout, cheap)
        at_hand = _at_hand(view, layout, _missed(terms.strict, layout))
        hold_s, carried_out = 0.0, None
        if at_hand is layout:
            hold_s, carried_out = self.hold_s, WorkedOut(terms, layout, view.offers)
        return PlannedQuotes(answers(view, rows, at_hand, cautious, rules, hold_s), at_hand.plans, carried_out)

    def allocate(self, view: View) -> Assignment:
        measured, measured_by = to_measure(view)
        terms = worked_out_terms(view) or terms_of(view)
        if measured.any():
            terms = _with_room(view, terms, measured)
        layout, cautious = kept_promises(view, terms)
        promised, missed = view.standing == Standing.PROMISED, _missed(terms.strict, layout)
        turns = self.turns(view, promised, measured, terms.likely.cost).without(_wait_for_their_plans(view, promised))
        plans, room = layout.plans, layout.calendar.with_room(len(view))
        for order in turns.parts():
            bring_forward(
                cautious, terms.likely, promised, order, turns.head, room, layout.finish, plans.at, plans.width,
                plans.kind,
            )  # fmt: skip
            if turns.growth is not None:
                grow_first(terms.likely, promised, order, turns.growth, room, layout.finish, plans)
        widths = widths_at(plans.at, plans.width, view.now)
        kinds = np.where(widths > 0, plans.kind, view.bound)
        idle = view.capacity - np.bincount(kinds, widths, len(view.kinds)).astype(np.int64)
        for rows in by_priority(view, _without_hindrances(view, turns, widths)):
            use_idle(terms.strict, terms.likely, promised, rows, plans.at, plans.width, plans.kind, widths, kinds, idle)
        pinned = immovable(terms.strict, promised_rows(view), plans.at, plans.width, plans.kind, widths, kinds)
        wake_at = min(
            plans.next_change(view.now), _next_answer(view), measured_by, _next_expiry(view),
        )  # fmt: skip
        return Assignment(kinds, widths, tuple(wake_at for _ in view.kinds), plans, pinned, missed)

    def held_back(self, view: View, cost: Floats) -> list[HeldBack]:
        """Who is not promised anything as soon as it asks: what costs more than is affordable beside what was asked for
        lately, and, whatever was asked for, a long job that would take a large part of all device-time until its
        deadline."""
        devices = int(view.capacity.sum())
        large = cost > max(devices, 1) * np.maximum(self.large * (view.deadline - view.now), LONG_S)
        dear = cost > view.arrivals.affordable_cost(self.at_once * devices)
        return [
            HeldBack(large, _LARGE.format(self.large)),
            HeldBack(dear, _DEAR.format(percent_text(self.at_once), devices_text(devices), self.at_once)),
        ]

    def reserved(self, view: View, terms: Terms) -> tuple[Layout, PlanInputs]:
        """What new promises have to leave alone, and the terms that they must pass."""
        return kept_promises(view, terms)

    def turns(self, view: View, promised: Bools, measured: Bools, cost: Floats) -> Turns:
        """Who comes first: whoever is to be measured, high priorities, cheap jobs."""
        return Turns(np.lexsort((view.sequence, cost, hopes(view, promised, cost), -view.priority, ~measured)))

    def explain(self, view: View, row: int) -> str:
        said = explain_plan(view, row)
        asked = np.array([row] if view.standing[row] == Standing.DEFERRED else [], dtype=np.int64)
        count = 0 if is_unmeasured(view.jobs[row], view.now) else int(counts_to_measure(view, asked)[row])
        return f"{said}; it is measured on {devices_text(count)} first, on which it may be in time" if count else said


def _wait_for_their_plans(view: View, promised: Bools) -> Bools:
    """Promised jobs that were suspended so often after an early start that they begin when their plans say."""
    return np.asarray(promised & (view.width == 0) & (view.suspensions >= MOST_SUSPENSIONS))


def _without_hindrances(view: View, turns: Turns, widths: Ints) -> Ints:
    """The order without jobs that would hold devices until they end for which the head of the queue waits."""
    if turns.head < 0 or widths[turns.head]:
        return turns.order
    return turns.order[view.resumable[turns.order] | (widths[turns.order] > 0)]


def _at_hand(view: View, layout: Layout, missed: Bools) -> Layout:
    """The layout; if it misses an earlier promise, with the plans that earlier promises had.

    Admission is not always shown all devices, so a promise that it misses may well be kept. No counter-offer is held
    beside such plans, which the layout does not know.
    """
    earlier = (view.standing == Standing.PROMISED) & np.isfinite(view.plan_at[:, 0])
    if not (missed & earlier).any():
        return layout
    plans, ends = layout.plans.copy(), np.where(np.isfinite(view.plan_at), view.plan_at, -np.inf).max(axis=1)
    plans.at[earlier], plans.width[earlier] = view.plan_at[earlier], view.plan_width[earlier]
    plans.kind[earlier] = view.plan_kind[earlier]
    return replace(
        layout, plans=plans, finish=np.where(missed & earlier, np.minimum(ends, view.deadline), layout.finish)
    )


def _missed(inputs: PlanInputs, layout: Layout) -> Bools:
    """Which of the planned rows are late by their plans."""
    missed = np.zeros(len(layout.finish), dtype=bool)
    missed[layout.rows] = layout.finish[layout.rows] > inputs.limit[layout.rows] + KEPT_WITHIN_S
    return missed


def to_measure(view: View) -> tuple[Bools, float]:
    """Return which jobs are measured because their deadlines wait for their speed, and until when the first of them."""
    left = np.zeros(len(view))
    deferred = ((view.standing <= Standing.DEFERRED) & np.isfinite(view.deadline)).nonzero()[0]
    if not len(deferred):
        return left > 0.0, np.inf
    counts, until = counts_to_measure(view, deferred), np.inf
    for row in deferred.tolist():
        if is_unmeasured(job := view.jobs[row], view.now):
            left[row] = MEASURED_WITHIN_S - view.executed[row]
            until = min(until, patience(job)) if patience(job) > view.now else until
        elif counts[row]:
            known = max(len(scaling.measured) for _, scaling in job.curve.scalings)
            left[row] = MEASURED_WITHIN_S * (1 + known) - view.executed[row]
    until = min(until, view.now + left[left > 0.0].min(initial=np.inf))
    return left > 0.0, float(until + ANSWER_WITHIN_S)


def _with_room(view: View, terms: Terms, measured: Bools) -> Terms:
    """Everybody promised begins as late as it may if there is a job of which nothing is known; that takes the least."""
    unknown = [row for row in np.flatnonzero(measured).tolist() if is_unmeasured(view.jobs[row], view.now)]
    if not unknown:
        return terms
    patient = np.ones(len(measured), dtype=bool)
    terms.likely.limit[unknown] = np.inf
    return terms._replace(
        cautious=terms.cautious._replace(patient=patient), strict=terms.strict._replace(patient=patient)
    )


def hopes(view: View, promised: Bools, cost: Floats) -> Bools:
    """Who may not make it, or costs more than any promised job: they come only after all promised ones."""
    dearest = cost[promised].max(initial=-np.inf)
    return np.asarray(~promised & (np.isfinite(view.deadline) | (cost > dearest)))


def _next_expiry(view: View) -> float:
    """When the first held offer expires, if jobs wait for a promise and deciding again stops nobody."""
    if view.overhead.every_round_s > 0 or not (view.standing == Standing.DEFERRED).any():
        return np.inf
    return min((offer.quote.offer_until + view.slot + ROUNDING_S for offer in view.offers), default=np.inf)


def _next_answer(view: View) -> float:
    """Just after the last chance of the first deferred job that waits, or the deadline of the first that runs, to tell
    it; not if that stops everybody."""
    if view.overhead.every_round_s > 0:
        return np.inf
    chances = last_chances(view) + ANSWER_WITHIN_S
    final = np.where((view.width == 0) & (chances > view.now), chances, view.deadline + ANSWER_WITHIN_S)
    waits = (view.standing == Standing.DEFERRED) & (final > view.now)
    return float(final[waits].min(initial=np.inf))
