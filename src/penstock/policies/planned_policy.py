"""What policies that lay out plans have in common: they can say what they are up to."""

import numpy as np

from penstock.core import Source, format_duration
from penstock.policies.base import KindPolicy
from penstock.policies.columns import Standing
from penstock.policies.filling import width_at
from penstock.policies.kind_view import KindView
from penstock.policies.measure_first import weakest_source
from penstock.policies.view import View

_NOT_KNOWN = "; when it ends is not known yet: its speed was never measured"
_PLAN_IS_OLD = "; its plan is older than its present speed: it is planned anew at the next decision"
_ROUNDED_S = 1.0
_TOLD = {
    Standing.UNANSWERED: "it has not been answered yet",
    Standing.DEFERRED: "its deadline cannot be promised yet",
    Standing.ADMITTED: "nothing is promised to it",
    Standing.PROMISED: "its deadline is promised",
}


class PlannedPolicy(KindPolicy):
    """A policy that returns plans with its allocations."""

    def explain(self, view: KindView, row: int) -> str:
        return explain_plan(view, row)


def explain_plan(view: KindView | View, row: int) -> str:
    """What a row was told, what it holds, and what its plan says."""
    needed = int(width_at(view.plan_at[row], view.plan_width[row], view.now))
    told, held = _TOLD[int(view.standing[row])], int(view.width[row])
    then = _until(view, row) if weakest_source(view.jobs[row]) is not Source.GUESSED else _NOT_KNOWN
    devices = "1 device" if held == 1 else f"{held} devices"
    if not held:
        return f"{told}; it waits{then}"
    if needed >= held:
        return f"{told}; it holds the {devices} its plan needs{then}"
    why = f"{needed} by plan, the others were idle" if needed else "they were idle"
    return f"{told}; it holds {devices}: {why}{then}"


def _until(view: KindView | View, row: int) -> str:
    later = np.flatnonzero((view.plan_at[row] > view.now) & np.isfinite(view.plan_at[row]))
    if not len(later):
        return ""
    step = int(later[0])
    width, wait_s = int(view.plan_width[row, step]), float(view.plan_at[row, step]) - view.now
    wait = format_duration(wait_s)
    if width:
        return f"; planned: {width} devices in {wait}"
    if len(later) > 1:
        return f"; planned: a break in {wait}"
    return f"; planned: done within {wait}" if wait_s + _ROUNDED_S >= view.alone_s[row] else _PLAN_IS_OLD
