"""Why a job loses its devices, in words: for whom, by which rule, and when it is expected to go on.

A job that is stopped for others is owed an explanation. It is made from the same view and the same answer that the
decision is made of, only when somebody is stopped and somebody keeps stories.
"""

import math
from collections.abc import Mapping

import numpy as np

from penstock.core import format_duration
from penstock.policies import Assignment, Floats, Ints, Standing, View

SUSPENDED = "suspended: "
"""What every explanation begins with."""
_NAMED = 2
"""So many of those who get the devices are named."""


def preemption_reasons(view: View, assignment: Assignment, losing: Ints, policy: str) -> Mapping[int, str]:
    """By key, for each row that loses everything it holds. O(rows log rows)."""
    gain = np.where(assignment.kinds == view.bound, assignment.widths - view.width, assignment.widths)
    ends = _ends(view, assignment)
    return {
        int(view.sequence[row]): _reason(view, assignment, gain, ends, row, policy) for row in losing.tolist()
    }  # fmt: skip


def _reason(view: View, assignment: Assignment, gain: Ints, ends: Floats, row: int, policy: str) -> str:
    kind = int(view.bound[row])
    gaining = np.flatnonzero((gain > 0) & (assignment.kinds == kind))
    first = gaining[np.lexsort((view.sequence[gaining], -gain[gaining], -view.priority[gaining]))]
    one = view.width[row] == 1
    devices, go = ("its device", "goes") if one else (f"its {view.width[row]} devices", "go")
    if not len(first):
        return f"{SUSPENDED}{devices} may not be used now ({policy}); {_outlook(view, assignment, ends, row)}"
    whom = " and ".join(dict.fromkeys(named_job(view, row, other) for other in first[:_NAMED].tolist()))
    if len(first) > _NAMED:
        whom += f" and {len(first) - _NAMED} more"
    why = _rule(view, row, first, policy)
    return f"{SUSPENDED}{devices} {go} to {whom}, {why}; {_outlook(view, assignment, ends, row)}"


def named_job(view: View, row: int, other: int) -> str:
    """A job of the same tenant by its id; of others only whose it is."""
    if view.tenant[row] == view.tenant[other]:
        return f"job {view.jobs[other].id}"
    return f"a job of {view.jobs[other].tenant}"


def _rule(view: View, row: int, gaining: Ints, policy: str) -> str:
    if (view.standing[gaining] == Standing.PROMISED).any():
        return "which was promised a deadline"
    if view.bounds is not None:
        owners = view.tenant[gaining]
        short = view.tenants.held[owners] < view.bounds.guaranteed[owners]
        if short.any() and view.tenant[row] not in owners[short]:
            return "whose tenant takes its quota back"
    if view.priority[gaining[0]] > view.priority[row]:
        return "which has a higher priority"
    return f"which {policy} puts first"


def _outlook(view: View, assignment: Assignment, ends: Floats, row: int) -> str:
    """When it will have devices again: by its plan, or when enough of those that run are done."""
    at = math.inf
    if assignment.plans is not None:
        later = (assignment.plans.width[row] > 0) & (assignment.plans.at[row] > view.now)
        at = float(assignment.plans.at[row].min(initial=math.inf, where=later))
    if math.isinf(at):
        at = _enough_free_at(view, assignment, ends, row)
    if math.isinf(at):
        return "nobody can say yet when it goes on"
    return f"it is expected to go on in about {format_duration(max(at - view.now, 0.0))} if nobody else comes"


def _enough_free_at(view: View, assignment: Assignment, ends: Floats, row: int) -> float:
    kind = int(view.bound[row])
    running = np.flatnonzero((assignment.kinds == kind) & (assignment.widths > 0))
    order = running[np.argsort(ends[running], kind="stable")]
    free = view.conditions[kind].capacity - int(assignment.widths[running].sum())
    least = int(view.by_kind[kind].levels[row, 0])
    if free >= least:
        return math.inf
    enough = np.flatnonzero(free + np.cumsum(assignment.widths[order]) >= least)
    return float(ends[order[enough[0]]]) if len(enough) else math.inf


def _ends(view: View, assignment: Assignment) -> Floats:
    """When each row would be done at the width it has from now on."""
    ends = np.full(len(view), math.inf)
    for kind, options in enumerate(view.by_kind):
        rows = np.flatnonzero((assignment.kinds == kind) & (assignment.widths > 0))
        level = (options.levels[rows] >= assignment.widths[rows, None]).argmax(axis=1)
        rate = options.rates[rows, level]
        still = np.where(view.width[rows] > 0, view.still_s[rows], view.start_s[rows])
        ends[rows] = view.now + still + view.remaining[rows] / np.where(rate > 0, rate, np.nan)
    return np.asarray(np.nan_to_num(ends, nan=math.inf, posinf=math.inf))
