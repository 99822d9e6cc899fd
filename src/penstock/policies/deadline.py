"""Our default: promise what can surely be kept, keep trying for the rest, leave nothing idle."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from penstock.core import Quote, Verdict, format_duration
from penstock.core.jit import compiled
from penstock.policies.admission import admit_singly
from penstock.policies.base import Allocation, Policy
from penstock.policies.filling import UNREACHABLE, lay, profile_of, smallest_share, usable
from penstock.policies.planning import Layout, Terms, best_layout
from penstock.policies.view import PLAN_STEPS, Floats, Ints, Standing, View


class DeadlinePolicy(Policy):
    """As many deadlines as possible, and every promise kept.

    * *Admission*: minimum satisfactory shares in deadline order, as ElasticFlow, but with the worst the overhead model
      can do reserved in advance, so that a promise survives rescheduling. In a burst the cheapest job is asked first:
      a deadline met is a deadline met, whatever it costs.
    * *Deferred answers*: a job that does not fit now is not turned away while it could still make it alone. It is asked
      again at every decision, and meanwhile runs on whatever the promised jobs leave, cheapest first; progress made
      that way often makes it fit.
    * *Idle devices*: first one share for everybody who has none, then nobody is disturbed without need, then the job
      that gains most speed per device, if it lives long enough to earn back the pause.

    O(jobs x breakpoints) per decision and per candidate.
    """

    name: ClassVar[str] = "deadline"
    summary: ClassVar[str] = "our default: overhead-proof promises, cheap jobs first, retries, nothing left idle"
    paper: ClassVar[str] = "ours, from ElasticFlow's minimum satisfactory share"

    def admit(self, view: View, rows: Ints) -> Sequence[Quote]:
        cheap_first = rows[np.argsort(device_seconds(view)[rows], kind="stable")]
        quotes = {quote.job_id: quote for quote in admit_singly(view, cheap_first, promised_layout)}
        return [_or_later(view, row, quotes[view.jobs[row].id]) for row in rows]

    def allocate(self, view: View) -> Allocation:
        layout = promised_layout(view, np.flatnonzero(view.standing == Standing.PROMISED))
        widths = layout.widths_at(view.now)
        cheap_first = view.order(device_seconds(view))
        hopeful = cheap_first[view.standing[cheap_first] == Standing.DEFERRED]
        _place_hopefuls(widths, view, layout, hopeful)
        pauses = view.overhead.change_s + view.overhead.per_doubling_s * np.log2(view.levels)
        _use_idle(
            widths, view.width, cheap_first, view.remaining, view.levels, view.rates, view.depth, pauses, view.capacity
        )  # fmt: skip
        return Allocation(widths, layout.plans.next_change(view.now), layout.plans)


def device_seconds(view: View) -> Floats:
    """What each job still costs at its most economical width."""
    return view.levels[:, 0] * view.remaining / view.rates[:, 0]


def promised_layout(view: View, members: Ints) -> Layout:
    order = members[np.lexsort((view.sequence[members], view.deadline[members]))]
    return best_layout(view, order, surely(view))


def surely(view: View) -> Terms:
    """What holds whatever the rescheduling: a decision every slot, and one unplanned change of devices."""
    return _terms(view, view.slot, view.deadline - view.overhead.worst_s)


def probably(view: View) -> Terms:
    """What holds if decisions go on to be as frequent as lately."""
    return _terms(view, view.interval, view.deadline)


def _terms(view: View, interval: float, limit: Floats) -> Terms:
    lost = min(view.overhead.every_round_s / max(interval, 1.0), 0.9)
    pauses = view.overhead.change_s + view.overhead.per_doubling_s * np.log2(view.levels)
    return Terms(view.rates * (1.0 - lost), pauses, limit)


def _or_later(view: View, row: int, quote: Quote) -> Quote:
    """Instead of a refusal: try again as long as the job could make it alone."""
    last_chance = float(view.deadline[row] - view.remaining[row] / view.top_rate[row])
    if quote.verdict is not Verdict.REFUSED or last_chance < view.now:
        return quote
    patience = format_duration(last_chance - view.now)
    return Quote(
        job_id=quote.job_id, verdict=Verdict.DEFERRED, answer_by=last_chance,
        reason=f"{quote.reason}; it is asked again for {patience} and runs on free devices meanwhile",
    )  # fmt: skip


def _place_hopefuls(widths: Ints, view: View, layout: Layout, hopeful: Ints) -> None:
    terms = probably(view)
    planned = np.flatnonzero(layout.plans.width.any(axis=1))
    times, free, count = profile_of(
        view.now, view.capacity, planned, layout.plans.at, layout.plans.width, len(hopeful)
    )  # fmt: skip
    _fill_hopefuls(
        widths, times, free, count, hopeful, view.remaining, terms.limit, view.width, view.levels, terms.rates,
        terms.pauses, view.depth,
    )  # fmt: skip


@compiled
def _fill_hopefuls(
    widths: Ints, times: Floats, free: Ints, count: int, order: Ints, remaining: Floats, limit: Floats, held: Ints,
    levels: Ints, rates: Floats, pauses: Floats, depth: Ints,
) -> None:  # fmt: skip
    at, width = np.empty(PLAN_STEPS), np.empty(PLAN_STEPS, dtype=np.int64)
    for job in order:
        level, end = smallest_share(
            times, free, count, levels[job], rates[job], pauses[job], depth[job], held[job], remaining[job], limit[job]
        )  # fmt: skip
        if level != UNREACHABLE:
            count = lay(times, free, count, levels[job], depth[job], level, end, at, width)
            widths[job] = width[0]


@compiled
def _use_idle(
    widths: Ints, held: Ints, order: Ints, remaining: Floats, levels: Ints, rates: Floats, depth: Ints,
    pauses: Floats, capacity: int,
) -> None:  # fmt: skip
    idle = capacity - widths.sum()
    for job in order:
        if widths[job] == 0 and levels[job][0] <= idle:
            widths[job] = levels[job][0]
            idle -= widths[job]
    for job in order:
        if widths[job] < held[job] and held[job] - widths[job] <= idle:
            idle -= held[job] - widths[job]
            widths[job] = held[job]
    while idle > 0:
        best, best_gain, best_width = -1, 0.0, 0
        for job in order:
            current = usable(levels[job], depth[job], widths[job])
            following = current + 1
            if current < 0 or following >= depth[job] or levels[job][following] - widths[job] > idle:
                continue
            gained = rates[job][following] - rates[job][current]
            saved = remaining[job] / rates[job][current] - remaining[job] / rates[job][following]
            if levels[job][following] != held[job] and saved <= pauses[job][following]:
                continue
            gain = gained / (rates[job][0] * (levels[job][following] - widths[job]))
            if gain > best_gain:
                best, best_gain, best_width = job, gain, levels[job][following]
        if best < 0:
            return
        idle -= best_width - widths[best]
        widths[best] = best_width
