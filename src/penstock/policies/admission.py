"""Answering jobs one by one against a plan of everybody already promised."""

import math
from collections.abc import Sequence

import numpy as np

from penstock.core import Deadline, Job, Plan, Quote, Verdict, format_duration, percent_text
from penstock.policies.columns import Ints
from penstock.policies.filling import finish_time, profile_of
from penstock.policies.kind_view import KindView
from penstock.policies.planning import PlanLayout, PlanTerms, extend

IN_THE_WAY = "finishing it in time would break promises already made"
ALONE = "even alone on the cluster"
NO_RESERVE = "alone it could end in time, but without the reserve for delays that a promise keeps"


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
    name, deadline = view.jobs[row].id, float(view.deadline[row])
    if not math.isfinite(deadline):
        return no_deadline(name)
    if taken:
        end = float(layout.finish[row])
        return promised(name, deadline, layout.plans.of_row(row, end), end)
    late, hard = view.now + float(view.alone_s[row]) - deadline, bool(view.hard[row])
    return turned_down(name, late, hard=hard, offer=earliest_finish(view, row, layout, terms) if hard else math.inf)


def no_deadline(name: str) -> Quote:
    return Quote(job_id=name, verdict=Verdict.BEST_EFFORT, reason="it has no deadline and runs on what is free")


def promised(name: str, deadline: float, plan: Plan, end: float) -> Quote:
    """The deadline is promised; by its plan the job ends at ``end``."""
    early = format_duration(deadline - end)
    return Quote(
        job_id=name, verdict=Verdict.PROMISED, finish_at=end, deadline=deadline,
        devices=max((width for _, width in plan.steps), default=0), device_seconds=plan.device_seconds(),
        reason=f"planned to finish {early} before its deadline, with every earlier promise kept",
    )  # fmt: skip


def value_text(job: Job, done_at: float) -> str:
    """What a job whose value falls in steps is worth when it is done at the earliest that could be promised."""
    goal = job.goal
    if not (isinstance(goal, Deadline) and goal.then and math.isfinite(done_at)):
        return ""
    return f"; when it surely could be done, it is worth {percent_text(goal.value_at(done_at))} of its value"


def turned_down(
    name: str, late: float, *, hard: bool, offer: float, worth: str = "", reason: str = IN_THE_WAY
) -> Quote:
    """Refuse a hard deadline, with the earliest one that could be kept; run a soft one at best effort.

    ``late`` is by how much it would be late alone on the cluster, if that is above 0; else ``reason`` says what keeps
    it from being in time. ``worth`` says what a soft one is still worth.
    """
    if late > 0:
        reason = f"{ALONE} it would end {format_duration(late)} after its deadline"
    if not hard:
        return Quote(job_id=name, verdict=Verdict.BEST_EFFORT, reason=f"{reason}{worth}; it runs when it can")
    return Quote(job_id=name, verdict=Verdict.REFUSED, reason=reason, counter_offer=offer)


def earliest_finish(view: KindView, row: int, layout: PlanLayout, terms: PlanTerms) -> float:
    """When the job would end on what the plan leaves: the deadline that could be promised now."""
    times, free, count = profile_of(view.now, view.capacity, layout.rows, layout.plans.at, layout.plans.width, 0)
    top = int(view.depth[row]) - 1
    reserve = float(view.deadline[row] - terms.limit[row])
    return reserve + finish_time(
        times, free, count, view.levels[row], terms.rates[row], terms.pauses[row], terms.starts[row],
        view.depth[row], top, 0, float(view.remaining[row]), math.inf,
    )  # fmt: skip
