"""The words for promises, refusals and answers that come later."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from penstock.core import Plan, Quote, Source, Verdict, format_duration
from penstock.policies.admission import IN_THE_WAY, NO_RESERVE, no_deadline, promised, turned_down, value_text
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
_LEAVING = "devices that it needs leave before its deadline"
_RESERVED = "devices are reserved for jobs that have waited the longest, and what is left is not enough by its deadline"
_OFFERED = "the devices that it needs are held for counter-offers to other jobs"


class HeldBack(NamedTuple):
    """Rows to which a rule of the policy promises nothing yet, and that rule in words."""

    rows: Bools
    rule: str


def any_held_back(rules: Sequence[HeldBack]) -> Bools:
    """Which rows at least one of the rules holds back."""
    return np.asarray(np.logical_or.reduce([each.rows for each in rules]))


def answers(
    view: View, rows: Ints, layout: Layout, inputs: PlanInputs, rules: Sequence[HeldBack], hold_s: float
) -> Sequence[Quote | None]:
    """A promise for each row that is planned, and an honest word for the others; nothing where that was said before.

    Counter-offers to rejected jobs are held for ``hold_s``. O(rows) vector work, and more for each that is told
    something new.
    """
    in_time, has_deadline = np.isfinite(layout.finish[rows]), np.isfinite(view.deadline[rows])
    said: dict[int, Quote] = {row: no_deadline(view.jobs[row].id) for row in rows[~has_deadline].tolist()}
    for row in rows[has_deadline & in_time].tolist():
        end = float(layout.finish[row])
        plan = layout.plans.of_row(row, end)
        quote = promised(view.jobs[row].id, float(view.deadline[row]), plan, min(end, float(layout.soonest[row])))
        said[row] = replace(quote, reason=quote.reason + _basis(view, row, plan, int(layout.plans.kind[row]), inputs))
    if len(late := rows[has_deadline & ~in_time]):
        said |= _words_for_late(view, late, layout, inputs, rules, hold_s)
    return [said.get(row) for row in rows.tolist()]


def _words_for_late(
    view: View, rows: Ints, layout: Layout, inputs: PlanInputs, rules: Sequence[HeldBack], hold_s: float
) -> dict[int, Quote]:
    """What is said to rows that cannot be promised their deadlines, but to those that know it and wait on."""
    chances, measured_on, costly = last_chances(view), counts_to_measure(view, rows), any_held_back(rules)
    in_the_way = _in_the_way(view, layout)
    waits = (chances >= view.now) & (costly | view.hard | (measured_on > 0))
    told = rows[~(waits & (view.standing == Standing.DEFERRED))[rows]]
    offers = earliest_ends(inputs, told, layout.calendar) + view.deadline[told] - inputs.limit[told]
    held = OfferBook(view, inputs, layout.calendar, hold_s, len(rows))

    def word(row: int, offer: float) -> Quote:
        name, chance, count = view.jobs[row].id, float(chances[row]), int(measured_on[row])
        if waits[row]:
            reason = next((each.rule for each in rules if each.rows[row]), in_the_way)
            if count:
                reason = _NOT_MEASURED.format(devices=devices_text(count))
            return replace(deferred(name, view.now, chance, offer, reason), measured_on=count)
        hard, worth = bool(view.hard[row]), value_text(view.jobs[row], offer)
        quote = turned_down(name, view.now - chance, hard=hard, offer=offer, worth=worth, reason=in_the_way)
        return held.held_for(row, quote) if hard and hold_s > 0 else quote

    return {row: word(row, offer) for row, offer in zip(told.tolist(), offers.tolist(), strict=True)}


def _in_the_way(view: View, layout: Layout) -> str:
    """What keeps a job that could be in time alone on the cluster from being promised its deadline."""
    planned = layout.rows[np.isfinite(layout.finish[layout.rows])]
    if view.has_settled or (view.standing[planned] != Standing.ADMITTED).any():
        return IN_THE_WAY
    if len(planned):
        return _RESERVED
    if view.offers:
        return _OFFERED
    leaving = any(len(view.capacity_steps(kind)) > 1 for kind in range(len(view.kinds)))
    return _LEAVING if leaving else NO_RESERVE


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
