"""Answering jobs one by one against a plan of everybody already promised."""

import math
from collections.abc import Sequence

import numpy as np

from penstock.core import Plan, Quote, Verdict, format_duration
from penstock.policies.columns import Ints
from penstock.policies.filling import finish_time, profile_of
from penstock.policies.kind_view import KindView
from penstock.policies.planning import PlanLayout, PlanTerms, extend


def admit_singly(view: KindView, rows: Ints, kept: PlanLayout, terms: PlanTerms) -> Sequence[Quote]:
    """Promise each row whose deadline and everybody else's hold together; the first in ``rows`` is asked first.

    ``kept`` is how the promises made so far are kept, ``terms`` what a new promise must pass.
    """
    return answers(view, rows, extend(view, kept, rows[np.isfinite(view.deadline[rows])], terms), terms)


def answers(view: KindView, rows: Ints, layout: PlanLayout, terms: PlanTerms) -> Sequence[Quote]:
    """A promise for each row that is planned, and an honest word for the others."""
    planned = layout.planned
    return [_answer(view, row, layout, bool(planned[row]), terms) for row in rows.tolist()]


def _answer(view: KindView, row: int, layout: PlanLayout, taken: bool, terms: PlanTerms) -> Quote:
    if not math.isfinite(view.deadline[row]):
        reason = "it has no deadline and runs on what is free"
        return Quote(job_id=view.jobs[row].id, verdict=Verdict.BEST_EFFORT, reason=reason)
    return promised(view, row, layout) if taken else turned_down(view, row, layout, terms)


def promised(view: KindView, row: int, layout: PlanLayout) -> Quote:
    plan = plan_of(layout, row)
    early = format_duration(float(view.deadline[row]) - plan.end)
    return Quote(
        job_id=view.jobs[row].id, verdict=Verdict.PROMISED, finish_at=plan.end,
        devices=max((width for _, width in plan.steps), default=0), device_seconds=plan.device_seconds(),
        reason=f"planned to finish {early} before its deadline, with every earlier promise kept",
    )  # fmt: skip


def turned_down(view: KindView, row: int, layout: PlanLayout, terms: PlanTerms) -> Quote:
    """Refuse a hard deadline, with the earliest one that could be kept; run a soft one at best effort."""
    alone = view.now + float(view.alone_s[row])
    if alone > view.deadline[row]:
        late = format_duration(alone - float(view.deadline[row]))
        reason = f"even alone on the cluster it would end {late} after its deadline"
    else:
        reason = "finishing it in time would break promises already made"
    if not view.hard[row]:
        return Quote(job_id=view.jobs[row].id, verdict=Verdict.BEST_EFFORT, reason=f"{reason}; it runs when it can")
    offer = earliest_finish(view, row, layout, terms)
    return Quote(job_id=view.jobs[row].id, verdict=Verdict.REFUSED, reason=reason, counter_offer=offer)


def earliest_finish(view: KindView, row: int, layout: PlanLayout, terms: PlanTerms) -> float:
    """When the job would end on what the plan leaves: the deadline that could be promised now."""
    times, free, count = profile_of(view.now, view.capacity, layout.rows, layout.plans.at, layout.plans.width, 0)
    top = int(view.depth[row]) - 1
    reserve = float(view.deadline[row] - terms.limit[row])
    return reserve + finish_time(
        times, free, count, view.levels[row], terms.rates[row], terms.pauses[row], terms.starts[row],
        view.depth[row], top, 0, float(view.remaining[row]), math.inf,
    )  # fmt: skip


def plan_of(layout: PlanLayout, row: int) -> Plan:
    """One row of a layout as a value, cut at the job's own end."""
    end = float(layout.finish[row])
    pairs = zip(layout.plans.at[row].tolist(), layout.plans.width[row].tolist(), strict=True)
    return Plan(tuple((at, width) for at, width in pairs if at < end), end)
