"""The words for promises, refusals and answers that come later."""

import math
from collections.abc import Sequence

import numpy as np

from penstock.core import Plan, Quote, Verdict, format_duration
from penstock.policies.columns import Floats, Ints, Standing
from penstock.policies.deadline.inputs import PlanInputs
from penstock.policies.deadline.layout import Layout, earliest_end
from penstock.policies.deadline.promises import device_seconds
from penstock.policies.view import View

_IN_THE_WAY = "finishing it in time would break promises already made"
_COSTLY = "more is asked for than the devices can do, and cheaper jobs are promised first"


def answers(view: View, rows: Ints, layout: Layout, inputs: PlanInputs, affordable: float) -> Sequence[Quote | None]:
    """A promise for each row that is planned, and an honest word for the others; nothing where that was said before."""
    chances, costs = last_chances(view), device_seconds(inputs)
    return [
        _answer(view, row, layout, inputs, float(chances[row]), costly=bool(costs[row] > affordable))
        for row in rows.tolist()
    ]


def _answer(
    view: View, row: int, layout: Layout, inputs: PlanInputs, last_chance: float, *, costly: bool
) -> Quote | None:
    if not math.isfinite(view.deadline[row]):
        reason = "it has no deadline and runs on what is free"
        return Quote(job_id=view.jobs[row].id, verdict=Verdict.BEST_EFFORT, reason=reason)
    if math.isfinite(layout.finish[row]):
        return promised(view, row, layout)
    waits = last_chance >= view.now and (costly or bool(view.hard[row]))
    if waits and view.standing[row] == Standing.DEFERRED:
        return None
    return (
        deferred(view, row, layout, inputs, last_chance, costly=costly) if waits else refused(view, row, layout, inputs)
    )


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


def refused(view: View, row: int, layout: Layout, inputs: PlanInputs) -> Quote:
    """Refuse a hard deadline, with the earliest one that could be kept; run a soft one at best effort."""
    name, late = view.jobs[row].id, view.now + float(alone_s(view)[row]) - float(view.deadline[row])
    reason = _IN_THE_WAY
    if late > 0:
        reason = f"even alone on the cluster it would end {format_duration(late)} after its deadline"
    if not view.hard[row]:
        return Quote(job_id=name, verdict=Verdict.BEST_EFFORT, reason=f"{reason}; it runs when it can")
    offer = _earliest_promise(view, row, layout, inputs)
    return Quote(job_id=name, verdict=Verdict.REFUSED, reason=reason, counter_offer=offer)


def deferred(view: View, row: int, layout: Layout, inputs: PlanInputs, last_chance: float, *, costly: bool) -> Quote:
    """Instead of a refusal: asked again as long as the job could make it alone."""
    patience, reason = format_duration(last_chance - view.now), _COSTLY if costly else _IN_THE_WAY
    return Quote(
        job_id=view.jobs[row].id, verdict=Verdict.DEFERRED, answer_by=last_chance,
        counter_offer=_earliest_promise(view, row, layout, inputs),
        reason=f"{reason}; it is asked again for {patience} and runs on free devices meanwhile",
    )  # fmt: skip


def _earliest_promise(view: View, row: int, layout: Layout, inputs: PlanInputs) -> float:
    """The deadline that could be promised now, beside the promises made."""
    return earliest_end(inputs, row, layout.calendar, False) + float(view.deadline[row] - inputs.limit[row])


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
