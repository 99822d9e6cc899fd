"""Counter-offers that are held: a plan is reserved for a rejected job, so that accepting its offer makes it a promise.

The plan begins when the offer has expired and the decision after that is due, so it can be kept whenever the job comes
back before. Until then nothing else is promised on its devices; they are used like all others meanwhile.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import dropwhile

import numpy as np

from penstock.core import HeldPlan, Quote
from penstock.policies.base import Plans
from penstock.policies.columns import KEPT_WITHIN_S, PLAN_STEPS, Floats, Ints, Standing
from penstock.policies.deadline.calendar import finish_time, reserve
from penstock.policies.deadline.inputs import PlanInputs, terms_of
from penstock.policies.deadline.keeping import keep
from penstock.policies.deadline.layout import Calendar, steps_of_offer
from penstock.policies.view import Offer, View
from penstock.tools import compiled

MOST_HELD = 64
"""Offers held at a time; further ones are stated without being held."""
MOST_HELD_OF_TENANT = 8


def with_accepted(view: View, rows: Ints) -> tuple[View, Ints]:
    """The view in which jobs among ``rows`` that accept an offer have its plan as their promise, and those rows.

    An offer whose plan would be late is not accepted: the job has become slower since, or devices are gone.
    """
    accepted = dict(_accepted(view, rows))
    told, accepting = _told(view, accepted)
    if len(accepting):
        strict = terms_of(told).strict
        late = keep(told, strict._replace(limit=strict.limit + KEPT_WITHIN_S), accepting).missed
        if len(late):
            told, accepting = _told(view, {row: accepted[row] for row in accepting.tolist() if row not in late})
    return told, accepting


def _told(view: View, accepted: Mapping[int, Offer]) -> tuple[View, Ints]:
    if not accepted:
        return view, np.zeros(0, dtype=np.int64)
    standing, plans = view.standing.copy(), Plans(view.plan_at, view.plan_width, view.plan_kind).copy()
    for row, offer in accepted.items():
        assert offer.quote.held is not None
        standing[row] = Standing.PROMISED
        plans.at[row], plans.width[row] = steps_of_offer(offer.quote.held)
        plans.kind[row] = view.kinds.index(offer.quote.held.kind)
    told = view.told(standing, plans)
    taken = {id(offer) for offer in accepted.values()}
    told.offers = [offer for offer in view.offers if id(offer) not in taken]
    return told, np.array(sorted(accepted), dtype=np.int64)


def _accepted(view: View, rows: Ints) -> Iterator[tuple[int, Offer]]:
    left = [offer for offer in view.offers if offer.quote.held is not None and offer.quote.held.kind in view.kinds]
    for row in rows.tolist() if left else ():
        offer = next((offer for offer in left if offer.serves(view.jobs[row])), None)
        if offer is not None:
            left.remove(offer)
            yield row, offer


class OfferBook:
    """Makes offers one after the other, each beside those made before it.

    A job that comes back begins with all its work, whatever it has done on idle devices before it was rejected.
    """

    def __init__(self, view: View, inputs: PlanInputs, calendar: Calendar, hold_s: float, most: int) -> None:
        self._view = view
        self._inputs = inputs
        self._hold_s = hold_s
        self._calendar = calendar.with_room(most)
        self._held = [offer.job.tenant for offer in view.offers]

    def held_for(self, row: int, quote: Quote) -> Quote:
        """The rejection with an offer that is held, if one more can be."""
        tenant = self._view.jobs[row].tenant
        full = len(self._held) >= MOST_HELD or self._held.count(tenant) >= MOST_HELD_OF_TENANT
        if full or not math.isfinite(quote.counter_offer):
            return quote
        until = self._view.now + self._hold_s
        at, width = np.full(PLAN_STEPS, np.inf), np.zeros(PLAN_STEPS, dtype=np.int64)
        work = float(self._view.whole[row] + self._view.allowance[row])
        kind, end = offer_plan(self._inputs, row, work, until + self._view.slot, self._calendar, at, width)
        if kind < 0:
            return quote
        self._held.append(tenant)
        plans = Plans(at[None], width[None], np.array([kind]))
        reserve_s = float(self._view.deadline[row] - self._inputs.limit[row])
        plan = plans.of_row(0, float(at[np.isfinite(at)].max()))
        held = HeldPlan(self._view.kinds[kind], replace(plan, steps=tuple(dropwhile(_is_empty, plan.steps))))
        return replace(quote, counter_offer=end + reserve_s, offer_until=until, held=held)


def _is_empty(step: tuple[float, int]) -> bool:
    return step[1] == 0


@compiled
def offer_plan(
    inputs: PlanInputs, job: int, work: float, since: float, calendar: Calendar, at: Floats, width: Ints
) -> tuple[int, float]:  # fmt: skip
    """Reserve and write the plan for ``work`` iterations that begins at ``since`` or later and ends first.

    Returns its kind, -1 if there is none, and its end.
    """
    best, best_cap, best_end = -1, -1, np.inf
    again, now = inputs.again[job], inputs.now
    for kind in range(len(inputs.levels)):
        times, free, count = calendar.times[kind], calendar.free[kind], calendar.sizes[kind]
        k = int(np.searchsorted(times[:count], since, side="right"))
        later, free_later = np.empty(count + 2), np.empty(count + 2, dtype=np.int64)
        later[0], free_later[0], later[1], free_later[1] = now, 0, since, free[k - 1]
        later[2 : 2 + count - k], free_later[2 : 2 + count - k] = times[k:count], free[k:count]
        for cap in range(inputs.depth[kind, job]):
            end = finish_time(
                later, free_later, 2 + count - k, inputs.levels[kind, job], inputs.rates[kind, job],
                inputs.pauses[kind, job], inputs.starts[job], inputs.depth[kind, job], cap, 0, now, work, again,
                np.inf, inputs.slot,
            )  # fmt: skip
            if end < best_end:
                best, best_cap, best_end = kind, cap, end
    if best >= 0:
        calendar.sizes[best] = reserve(
            calendar.times[best], calendar.free[best], calendar.sizes[best], inputs.levels[best, job],
            inputs.pauses[best, job],
            inputs.depth[best, job], best_cap, again, since, best_end + inputs.ends[job], inputs.slot, at, width,
        )  # fmt: skip
    return best, best_end + inputs.ends[job]
