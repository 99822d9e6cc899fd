"""Our default: promise what can surely be kept, keep trying for the rest, leave nothing idle."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np

from penstock.core import Quote
from penstock.policies.base import Assignment, PlannedQuotes, Policy
from penstock.policies.columns import KEPT_WITHIN_S, ROUNDING_S, Bools, Floats, Ints, Standing
from penstock.policies.deadline.answers import answers, has_news, last_chances
from penstock.policies.deadline.forward import bring_forward
from penstock.policies.deadline.idle import immovable, use_idle
from penstock.policies.deadline.inputs import PlanInputs, Terms, device_seconds, terms_of
from penstock.policies.deadline.layout import Layout
from penstock.policies.deadline.offers import with_accepted
from penstock.policies.deadline.promises import (
    add_promises,
    cheapest_first,
    kept_promises,
    promised_rows,
)
from penstock.policies.greedy import by_priority
from penstock.policies.measure_first import is_unmeasured
from penstock.policies.parameters import Parameter
from penstock.policies.planned_policy import explain_plan
from penstock.policies.planning import widths_at
from penstock.policies.view import View

AtOnce = Annotated[float, Parameter("share of the devices that may be promised as soon as a job asks", least=0.0)]
Hold = Annotated[float, Parameter("how long the devices for a counter-offer are kept free of promises", least=0.0)]
Large = Annotated[float, Parameter("share of all device-time until its deadline that defers a long job", least=0.0)]
AT_ONCE = 0.3
LARGE = 0.5
LONG_S = 6 * 3600.0
"""A job is long if it would keep all devices busy for this time."""
HOLD_S = 60.0
ANSWER_WITHIN_S = 1e-3
MEASURED_WITHIN_S = 30.0
"""Seconds on devices after which a job that has not shown its speed takes its turn like any other."""


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
      and for some seconds; promised jobs with time to spare make room for that.

    O(jobs x breakpoints) per decision, and again per job that is asked.
    """

    name: ClassVar[str] = "deadline"
    summary: ClassVar[str] = "our default: promises proof against overhead, cheap jobs first, retries, nothing idle"
    paper: ClassVar[str] = "ours, from ElasticFlow's minimum satisfactory share"
    overhead_proof: ClassVar[bool] = True
    keeps_promises: ClassVar[bool] = True

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
        cost = device_seconds(terms.cautious)
        asked = cheapest_first(cost, np.setdiff1d(rows[np.isfinite(view.deadline[rows])], accepting))
        costly = self.costly(view, cost)
        cheap = asked[~costly[asked]]
        if not len(cheap) and not len(accepting) and not has_news(view, rows):
            return [None] * len(rows)
        layout, cautious = self.reserved(view, terms)
        layout = add_promises(view, cautious, layout, cheap)
        at_hand = _at_hand(view, layout, _missed(terms.strict, layout))
        hold_s = self.hold_s if at_hand is layout else 0.0
        return PlannedQuotes(answers(view, rows, at_hand, cautious, costly, hold_s), at_hand.plans)

    def allocate(self, view: View) -> Assignment:
        measured = to_measure(view)
        terms = _with_room(terms_of(view), measured) if measured.any() else terms_of(view)
        layout, cautious = kept_promises(view, terms)
        promised, missed = view.standing == Standing.PROMISED, _missed(terms.strict, layout)
        cheap_first = self.turns(view, promised, measured, device_seconds(terms.likely))
        plans, room = layout.plans, layout.calendar.with_room(len(view))
        bring_forward(
            cautious, terms.likely, promised, cheap_first, room, layout.finish, plans.at, plans.width, plans.kind
        )
        widths = widths_at(plans.at, plans.width, view.now)
        kinds = np.where(widths > 0, plans.kind, view.bound)
        idle = view.capacity - np.bincount(kinds, widths, len(view.kinds)).astype(np.int64)
        for rows in by_priority(view, cheap_first):
            use_idle(terms.strict, terms.likely, promised, rows, plans.at, plans.width, plans.kind, widths, kinds, idle)
        pinned = immovable(terms.strict, promised_rows(view), plans.at, plans.width, plans.kind, widths, kinds)
        wake_at = min(
            plans.next_change(view.now), _next_answer(view), _measured_by(view, measured & (widths > 0)),
            _next_expiry(view),
        )  # fmt: skip
        return Assignment(kinds, widths, tuple(wake_at for _ in view.kinds), plans, pinned, missed)

    def costly(self, view: View, cost: Floats) -> Bools:
        """Who is not promised anything as soon as it asks: what costs more than is affordable beside what was asked for
        lately, and, whatever was asked for, a long job that would take a large part of all device-time until its
        deadline."""
        devices = int(view.capacity.sum())
        large = cost > devices * np.maximum(self.large * (view.deadline - view.now), LONG_S)
        return np.asarray(large | (cost > view.arrivals.affordable_cost(self.at_once * devices)))

    def reserved(self, view: View, terms: Terms) -> tuple[Layout, PlanInputs]:
        """What new promises have to leave alone, and the terms that they must pass."""
        return kept_promises(view, terms)

    def turns(self, view: View, promised: Bools, measured: Bools, cost: Floats) -> Ints:
        """Who comes first: whoever is to be measured, high priorities, cheap jobs."""
        return np.lexsort((view.sequence, cost, hopes(view, promised, cost), -view.priority, ~measured))

    def explain(self, view: View, row: int) -> str:
        return explain_plan(view, row)


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


def to_measure(view: View) -> Bools:
    """Whose deadline waits for its speed and who has not had the time to show it."""
    measured = np.zeros(len(view), dtype=bool)
    deferred = (view.standing <= Standing.DEFERRED) & np.isfinite(view.deadline)
    for row in np.flatnonzero(deferred).tolist():
        measured[row] = is_unmeasured(view.jobs[row], view.now) and view.executed[row] < MEASURED_WITHIN_S
    return measured


def _measured_by(view: View, rows: Bools) -> float:
    """When the first of those that are being measured has had its time."""
    left = MEASURED_WITHIN_S - view.executed[rows].max(initial=0.0)
    return float(view.now + left + ANSWER_WITHIN_S) if rows.any() else np.inf


def _with_room(terms: Terms, measured: Bools) -> Terms:
    """Everybody promised begins as late as it may, and those to be measured take as little as they can."""
    patient = np.ones(len(measured), dtype=bool)
    terms.likely.limit[measured] = np.inf
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
    """Just after the last chance of the first deferred job that waits, to tell it; not if that stops everybody."""
    if view.overhead.every_round_s > 0:
        return np.inf
    chances = last_chances(view) + ANSWER_WITHIN_S
    waits = (view.standing == Standing.DEFERRED) & (view.width == 0) & (chances > view.now)
    return float(chances[waits].min(initial=np.inf))
