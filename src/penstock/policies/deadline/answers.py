"""The words for promises, refusals and answers that come later."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from penstock.core import Plan, Quote, Source, Verdict, format_duration
from penstock.policies.admission import IN_THE_WAY, no_deadline, promised, turned_down, value_text
from penstock.policies.columns import Bools, Floats, Ints, Standing
from penstock.policies.deadline.inputs import PlanInputs
from penstock.policies.deadline.layout import Layout, earliest_ends
from penstock.policies.deadline.offers import OfferBook
from penstock.policies.measure_first import counts_to_measure, devices_text
from penstock.policies.view import View

_NOT_MEASURED = (
    "it would be in time on {devices} if it were as fast there as predicted, but that was never measured: it is"
    " measured there first"
)
_COSTLY = "more is asked for than the devices can do, and cheaper jobs are promised first"


def answers(
    view: View, rows: Ints, layout: Layout, inputs: PlanInputs, costly: Bools, hold_s: float
) -> Sequence[Quote | None]:
    """A promise for each row that is planned, and an honest word for the others; nothing where that was said before.

    Counter-offers to rejected jobs are held for ``hold_s``.
    """
    chances, planned = last_chances(view), np.isfinite(layout.finish)
    measured_on = counts_to_measure(view, rows[~planned[rows]])
    waits = (chances >= view.now) & (costly | view.hard | (measured_on > 0))
    silent = waits & (view.standing == Standing.DEFERRED)
    told = rows[~planned[rows] & ~silent[rows] & np.isfinite(view.deadline[rows])]
    offers = np.full(len(view), np.inf)
    offers[told] = earliest_ends(inputs, told, layout.calendar) + view.deadline[told] - inputs.limit[told]

    def answer(row: int) -> Quote | None:
        name, deadline, chance, offer = view.jobs[row].id, float(view.deadline[row]), chances[row], float(offers[row])
        if not math.isfinite(deadline):
            return no_deadline(name)
        if planned[row]:
            plan = layout.plans.of_row(row, layout.finish[row])
            quote = promised(name, deadline, plan, float(layout.soonest[row]))
            return replace(quote, reason=quote.reason + _basis(view, row, plan, int(layout.plans.kind[row]), inputs))
        if silent[row]:
            return None
        if waits[row]:
            count = int(measured_on[row])
            reason = _NOT_MEASURED.format(devices=devices_text(count)) if count else IN_THE_WAY
            reason = _COSTLY if costly[row] and not count else reason
            return replace(deferred(name, view.now, float(chance), offer, reason), measured_on=count)
        hard, worth = bool(view.hard[row]), value_text(view.jobs[row], offer)
        quote = turned_down(name, float(view.now - chance), hard=hard, offer=offer, worth=worth)
        return offers_held.held_for(row, quote) if hard and hold_s > 0 else quote

    offers_held = OfferBook(view, inputs, layout.calendar, hold_s, len(rows))
    return [answer(row) for row in rows.tolist()]


def _basis(view: View, row: int, plan: Plan, kind: int, inputs: PlanInputs) -> str:
    """Say which speed a promise rests on, where the job was never measured on the devices of its plan."""
    scaling = view.jobs[row].curve.scaling(view.kinds[kind])
    if scaling is None or scaling.source is not Source.PREDICTED or not scaling.doubts:
        return ""
    count = max((width for _, width in plan.steps if width and not scaling.is_measured(width)), default=0)
    if not count:
        return ""
    level = int((inputs.levels[kind, row] < count).sum())
    rate = float(inputs.rates[kind, row, min(level, int(inputs.depth[kind, row]) - 1)])
    return f"; it counts on {rate:.3g} iterations a second on {devices_text(count)}, where it was never measured"


def has_news(view: View, rows: Ints) -> bool:
    """Whether anybody was not answered at all, or can no longer be told to wait."""
    return bool((view.standing[rows] != Standing.DEFERRED).any() or (last_chances(view)[rows] < view.now).any())


def last_chances(view: View) -> Floats:
    """The latest time each job could start, alone on the cluster, and still be in time."""
    return view.deadline - view.alone_s


def asked_again(view: View, row: int) -> Quote:
    """Instead of a promise that would need devices of earlier ones."""
    return deferred(view.jobs[row].id, view.now, float(last_chances(view)[row]), math.inf, IN_THE_WAY)


def deferred(name: str, now: float, last_chance: float, offer: float, reason: str) -> Quote:
    """Instead of a refusal: asked again as long as the job could make it alone."""
    patience = format_duration(last_chance - now)
    return Quote(
        job_id=name, verdict=Verdict.DEFERRED, answer_by=last_chance, counter_offer=offer,
        reason=f"{reason}; it is asked again for {patience} and runs on free devices meanwhile",
    )  # fmt: skip
