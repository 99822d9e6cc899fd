"""Answering jobs one by one against a plan of everybody already promised."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from penstock.core import Plan, Quote, Verdict, format_duration
from penstock.policies.planning import Layout
from penstock.policies.view import Bools, Ints, Standing, View

Planner = Callable[[View, Ints], Layout]
"""Lays out exactly these rows."""


def admit_singly(view: View, rows: Ints, plan: Planner) -> Sequence[Quote]:
    """Promise each row whose deadline and everybody else's hold together; the first in ``rows`` is asked first."""
    members = np.flatnonzero(view.standing == Standing.PROMISED)
    lost = _missed(plan(view, members), members)
    quotes = []
    for row in rows:
        if not math.isfinite(view.deadline[row]):
            quotes.append(best_effort(view, row))
            continue
        with_row = np.append(members, row)
        layout = plan(view, with_row)
        missed = _missed(layout, with_row)
        if missed[-1] or (missed[:-1] & ~lost).any():
            quotes.append(turned_down(view, row))
        else:
            members, lost = with_row, np.append(lost, False)
            quotes.append(promised(view, row, layout))
    return quotes


def best_effort(view: View, row: int) -> Quote:
    reason = "it has no deadline and runs on what is free"
    return Quote(job_id=view.jobs[row].id, verdict=Verdict.BEST_EFFORT, reason=reason)


def promised(view: View, row: int, layout: Layout) -> Quote:
    plan = plan_of(layout, row)
    early = format_duration(float(view.deadline[row]) - plan.end)
    return Quote(
        job_id=view.jobs[row].id, verdict=Verdict.PROMISED, finish_at=plan.end,
        devices=max(width for _, width in plan.steps), device_seconds=plan.device_seconds(),
        reason=f"planned to finish {early} before its deadline, with every earlier promise kept",
    )  # fmt: skip


def turned_down(view: View, row: int) -> Quote:
    """Refuse a hard deadline; run a soft one at best effort."""
    alone = view.now + float(view.remaining[row] / view.top_rate[row])
    if alone > view.deadline[row]:
        late = format_duration(alone - float(view.deadline[row]))
        reason = f"even alone on the cluster it would end {late} after its deadline"
    else:
        reason = "finishing it in time would break promises already made"
    if not view.hard[row]:
        return Quote(job_id=view.jobs[row].id, verdict=Verdict.BEST_EFFORT, reason=f"{reason}; it runs when it can")
    return Quote(job_id=view.jobs[row].id, verdict=Verdict.REFUSED, reason=reason)


def plan_of(layout: Layout, row: int) -> Plan:
    """One row of a layout as a value, cut at the job's own end."""
    end = float(layout.finish[row])
    pairs = zip(layout.plans.at[row].tolist(), layout.plans.width[row].tolist(), strict=True)
    return Plan(tuple((at, width) for at, width in pairs if at < end), end)


def _missed(layout: Layout, rows: Ints) -> Bools:
    return np.isinf(layout.finish[rows])
