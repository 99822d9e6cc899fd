"""The words for promises, refusals and answers that come later."""

import math

import numpy as np

from penstock.core import Plan, Quote, Verdict, format_duration
from penstock.policies.columns import Floats
from penstock.policies.deadline.inputs import PlanInputs
from penstock.policies.deadline.layout import Layout, earliest_end
from penstock.policies.view import View


def answer(view: View, row: int, layout: Layout, inputs: PlanInputs) -> Quote:
    """A promise for a row that is planned, and an honest word for another."""
    if not math.isfinite(view.deadline[row]):
        reason = "it has no deadline and runs on what is free"
        return Quote(job_id=view.jobs[row].id, verdict=Verdict.BEST_EFFORT, reason=reason)
    if math.isfinite(layout.finish[row]):
        return promised(view, row, layout)
    return turned_down(view, row, layout, inputs)


def promised(view: View, row: int, layout: Layout) -> Quote:
    """The end that the plan reaches at the latest, with what it takes."""
    plan = plan_of(layout, row, float(view.end_s[row]))
    early = format_duration(float(view.deadline[row]) - plan.end)
    return Quote(
        job_id=view.jobs[row].id, verdict=Verdict.PROMISED, finish_at=plan.end,
        devices=max((width for _, width in plan.steps), default=0), device_seconds=plan.device_seconds(),
        reason=f"planned to finish {early} before its deadline, with every earlier promise kept",
    )  # fmt: skip


def turned_down(view: View, row: int, layout: Layout, inputs: PlanInputs) -> Quote:
    """Refuse a hard deadline, with the earliest one that could be kept; run a soft one at best effort."""
    name, late = view.jobs[row].id, view.now + float(alone_s(view)[row]) - float(view.deadline[row])
    reason = "finishing it in time would break promises already made"
    if late > 0:
        reason = f"even alone on the cluster it would end {format_duration(late)} after its deadline"
    if not view.hard[row]:
        return Quote(job_id=name, verdict=Verdict.BEST_EFFORT, reason=f"{reason}; it runs when it can")
    offer = earliest_end(inputs, row, layout.calendar, False) + float(view.deadline[row] - inputs.limit[row])
    return Quote(job_id=name, verdict=Verdict.REFUSED, reason=reason, counter_offer=offer)


def later(view: View, row: int, refusal: Quote, last_chance: float) -> Quote:
    """Instead of a refusal: asked again as long as the job could make it alone."""
    patience = format_duration(last_chance - view.now)
    return Quote(
        job_id=refusal.job_id, verdict=Verdict.DEFERRED, answer_by=last_chance, counter_offer=refusal.counter_offer,
        reason=f"{refusal.reason}; it is asked again for {patience} and runs on free devices meanwhile",
    )  # fmt: skip


def alone_s(view: View) -> Floats:
    """How long each row would take with the cluster to itself from now on."""
    fastest = np.zeros(len(view))
    for kind, options in enumerate(view.by_kind):
        top = options.rates[np.arange(len(view)), np.maximum(options.depth - 1, 0)]
        fastest = np.maximum(fastest, np.where(view.depth[:, kind] > 0, top, 0.0))
    return np.where(view.width > 0, view.still_s, view.start_s) + view.remaining / fastest


def plan_of(layout: Layout, row: int, end_s: float) -> Plan:
    """One row of a layout as a value, cut at the job's own end."""
    last = float(layout.finish[row])
    pairs = zip(layout.plans.at[row].tolist(), layout.plans.width[row].tolist(), strict=True)
    return Plan(tuple((at, width) for at, width in pairs if at < last), last + end_s)
