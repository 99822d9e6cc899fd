"""The words for promises, refusals and answers that come later."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock.core import Plan, Quote, Verdict, format_duration
from penstock.policies.columns import Floats, Ints, Standing
from penstock.policies.deadline.inputs import PlanInputs
from penstock.policies.deadline.layout import Layout, earliest_ends
from penstock.policies.deadline.promises import device_seconds
from penstock.policies.view import View

_NO_DEADLINE = "it has no deadline and runs on what is free"
_IN_THE_WAY = "finishing it in time would break promises already made"
_COSTLY = "more is asked for than the devices can do, and cheaper jobs are promised first"


class _Case(NamedTuple):
    """What there is to say about a row that is not planned."""

    name: str
    last_chance: float
    """The latest time it could start, alone on the cluster, and still be in time."""
    offer: float
    """The deadline that could be promised now, beside the promises made."""
    costly: bool
    hard: bool


def answers(view: View, rows: Ints, layout: Layout, inputs: PlanInputs, affordable: float) -> Sequence[Quote | None]:
    """A promise for each row that is planned, and an honest word for the others; nothing where that was said before."""
    chances, costly = last_chances(view), device_seconds(inputs) > affordable
    planned, waits = np.isfinite(layout.finish), (chances >= view.now) & (costly | view.hard)
    silent = waits & (view.standing == Standing.DEFERRED)
    told = rows[~planned[rows] & ~silent[rows] & np.isfinite(view.deadline[rows])]
    offers = earliest_ends(inputs, told, layout.calendar) + view.deadline[told] - inputs.limit[told]
    cases = {
        row: _Case(view.jobs[row].id, float(chances[row]), float(offer), bool(costly[row]), bool(view.hard[row]))
        for row, offer in zip(told.tolist(), offers, strict=True)
    }
    quotes: list[Quote | None] = []
    for row in rows.tolist():
        if not math.isfinite(view.deadline[row]):
            quotes.append(Quote(job_id=view.jobs[row].id, verdict=Verdict.BEST_EFFORT, reason=_NO_DEADLINE))
        elif planned[row]:
            quotes.append(promised(view, row, layout))
        elif silent[row]:
            quotes.append(None)
        else:
            quotes.append(deferred(view.now, cases[row]) if waits[row] else refused(view.now, cases[row]))
    return quotes


def has_news(view: View, rows: Ints) -> bool:
    """Whether anybody was not answered at all, or can no longer be told to wait."""
    return bool((view.standing[rows] != Standing.DEFERRED).any() or (last_chances(view)[rows] < view.now).any())


def last_chances(view: View) -> Floats:
    """The latest time each job could start, alone on the cluster, and still be in time."""
    return view.deadline - alone_s(view)


def promised(view: View, row: int, layout: Layout) -> Quote:
    """The end that the plan reaches at the latest, with what it takes."""
    plan = plan_of(layout, row)
    soonest = float(layout.soonest[row])
    early = format_duration(float(view.deadline[row]) - soonest)
    return Quote(
        job_id=view.jobs[row].id, verdict=Verdict.PROMISED, finish_at=soonest,
        devices=max((width for _, width in plan.steps), default=0), device_seconds=plan.device_seconds(),
        reason=f"planned to finish {early} before its deadline, with every earlier promise kept",
    )  # fmt: skip


def refused(now: float, case: _Case) -> Quote:
    """Refuse a hard deadline, with the earliest one that could be kept; run a soft one at best effort."""
    late = now - case.last_chance
    reason = _IN_THE_WAY
    if late > 0:
        reason = f"even alone on the cluster it would end {format_duration(late)} after its deadline"
    if not case.hard:
        return Quote(job_id=case.name, verdict=Verdict.BEST_EFFORT, reason=f"{reason}; it runs when it can")
    return Quote(job_id=case.name, verdict=Verdict.REFUSED, reason=reason, counter_offer=case.offer)


def deferred(now: float, case: _Case) -> Quote:
    """Instead of a refusal: asked again as long as the job could make it alone."""
    patience, reason = format_duration(case.last_chance - now), _COSTLY if case.costly else _IN_THE_WAY
    return Quote(
        job_id=case.name, verdict=Verdict.DEFERRED, answer_by=case.last_chance, counter_offer=case.offer,
        reason=f"{reason}; it is asked again for {patience} and runs on free devices meanwhile",
    )  # fmt: skip


def alone_s(view: View) -> Floats:
    """How long each row would take with the cluster to itself from now on."""
    fastest = np.zeros(len(view))
    for kind, options in enumerate(view.by_kind):
        top = options.rates[np.arange(len(view)), np.maximum(options.depth - 1, 0)]
        fastest = np.maximum(fastest, np.where(view.depth[:, kind] > 0, top, 0.0))
    return np.where(view.width > 0, view.still_s, view.start_s) + view.remaining / fastest


def plan_of(layout: Layout, row: int) -> Plan:
    """One row of a layout as a value, cut at the job's own end."""
    end = float(layout.finish[row])
    pairs = zip(layout.plans.at[row].tolist(), layout.plans.width[row].tolist(), strict=True)
    return Plan(tuple((at, width) for at, width in pairs if at < end), end)
