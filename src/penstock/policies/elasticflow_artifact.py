"""ElasticFlow with the decisions of its public simulator."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from penstock.core import Quote, Verdict
from penstock.policies.base import Allocation, Policy
from penstock.policies.greedy import take_in_order
from penstock.policies.two_level_plan import Batch, give_idle, plan
from penstock.policies.view import Floats, Ints, Standing, View


class ElasticFlowArtifact(Policy):
    """What the public ElasticFlow simulator decides, as a policy like any other.

    It differs from the paper: all jobs that ask at the same time are let in or turned away together, plans have two
    levels, and idle devices go where device-time grows most (see :mod:`penstock.policies.two_level_plan`). Under
    ``penstock simulate`` this name replays the public simulator's whole world, to replicate its numbers; in the
    scheduler it promises nothing, because those plans do not hold under overhead. Curves are read at 1, 2, 4, ...
    devices; a job that cannot run so gets what it asked for if that is left over. O(devices x jobs x breakpoints).
    """

    name: ClassVar[str] = "elasticflow-artifact"
    summary: ClassVar[str] = "ElasticFlow as its public simulator runs it, to replicate published numbers"
    paper: ClassVar[str] = "github.com/pkusys/ElasticFlow"

    def admit(self, view: View, rows: Ints) -> Sequence[Quote]:
        in_time = self._all_in_time(view, rows)
        return [_answer(view, row, in_time) for row in rows.tolist()]

    def allocate(self, view: View) -> Allocation:
        batch = _batch(view, np.arange(len(view)))
        plans = give_idle(plan(view.now, _slot(view), view.capacity, batch), batch)
        widths = plans.width.copy()
        others = view.order(view.submitted)
        others = others[batch.top[others] == 0]
        widths += take_in_order(others, view.requested, view.capacity - int(widths.sum()))
        return Allocation(widths, plans.next_change)

    def _all_in_time(self, view: View, rows: Ints) -> bool:
        """Whether the plan for everybody, the new ones included, is in time for everybody."""
        inside = np.flatnonzero(view.standing >= Standing.ADMITTED)
        everybody = np.concatenate((inside, rows))
        batch = _batch(view, everybody)
        plans = plan(view.now, _slot(view), view.capacity, batch)
        return bool((plans.real_end <= batch.deadline)[batch.top > 0].all())


def _answer(view: View, row: int, in_time: bool) -> Quote:
    refused = bool(view.hard[row]) and not in_time
    return Quote(
        job_id=view.jobs[row].id, verdict=Verdict.REFUSED if refused else Verdict.BEST_EFFORT,
        reason="with the jobs that came at the same time somebody would be late" if refused else "it is planned for",
    )  # fmt: skip


def _slot(view: View) -> float:
    return max(view.slot, 1.0)


def _batch(view: View, rows: Ints) -> Batch:
    rates, top = _on_powers_of_two(view, rows)
    return Batch(view.deadline[rows], view.remaining[rows], rates, top)


def _on_powers_of_two(view: View, rows: Ints) -> tuple[Floats, Ints]:
    """Rates on 1, 2, 4, ... devices, and how many of those widths each row can use without a gap."""
    powers = 2 ** np.arange(view.levels.shape[1])
    matches = view.levels[rows] == powers
    matches &= np.arange(view.levels.shape[1]) < view.depth[rows][:, None]
    top = np.cumprod(matches, axis=1).sum(axis=1)
    return np.where(matches, view.rates[rows], 1.0), top
