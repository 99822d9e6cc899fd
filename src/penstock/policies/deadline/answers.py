"""The words for promises, refusals and answers that come later."""

import math
from collections.abc import Sequence

import numpy as np

from penstock.core import Quote, Verdict, format_duration
from penstock.policies.admission import IN_THE_WAY, no_deadline, promised, turned_down, value_text
from penstock.policies.columns import Bools, Floats, Ints, Standing
from penstock.policies.deadline.inputs import PlanInputs
from penstock.policies.deadline.layout import Layout, earliest_ends
from penstock.policies.deadline.offers import OfferBook
from penstock.policies.view import View

_COSTLY = "more is asked for than the devices can do, and cheaper jobs are promised first"


def answers(
    view: View, rows: Ints, layout: Layout, inputs: PlanInputs, costly: Bools, hold_s: float
) -> Sequence[Quote | None]:
    """A promise for each row that is planned, and an honest word for the others; nothing where that was said before.

    Counter-offers to rejected jobs are held for ``hold_s``.
    """
    chances, planned = last_chances(view), np.isfinite(layout.finish)
    waits = (chances >= view.now) & (costly | view.hard)
    silent = waits & (view.standing == Standing.DEFERRED)
    told = rows[~planned[rows] & ~silent[rows] & np.isfinite(view.deadline[rows])]
    offers = np.full(len(view), np.inf)
    offers[told] = earliest_ends(inputs, told, layout.calendar) + view.deadline[told] - inputs.limit[told]

    def answer(row: int) -> Quote | None:
        name, deadline, chance, offer = view.jobs[row].id, float(view.deadline[row]), chances[row], float(offers[row])
        if not math.isfinite(deadline):
            return no_deadline(name)
        if planned[row]:
            end = float(layout.finish[row])
            return promised(name, deadline, layout.plans.of_row(row, end), min(end, float(layout.soonest[row])))
        if silent[row]:
            return None
        if waits[row]:
            return deferred(name, view.now, float(chance), offer, _COSTLY if costly[row] else IN_THE_WAY)
        hard, worth = bool(view.hard[row]), value_text(view.jobs[row], offer)
        quote = turned_down(name, float(view.now - chance), hard=hard, offer=offer, worth=worth)
        return offers_held.held_for(row, quote) if hard and hold_s > 0 else quote

    offers_held = OfferBook(view, inputs, layout.calendar, hold_s, len(rows))
    return [answer(row) for row in rows.tolist()]


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
