"""Our default: promise what can surely be kept, keep trying for the rest, leave nothing idle."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from penstock.core import Quote, Verdict, format_duration
from penstock.policies.admission import answers
from penstock.policies.base import Allocation
from penstock.policies.columns import Floats, Ints, Standing
from penstock.policies.filling import usable
from penstock.policies.greedy import by_priority
from penstock.policies.kind_view import KindView
from penstock.policies.planned_policy import PlannedPolicy
from penstock.policies.planning import PlanLayout, PlanTerms, best_layout, extend, fit_in, lay_out, promised_rows
from penstock.tools import compiled

REPLANNED_JOBS = 2000
"""Jobs planned again per decision to make room for others: some ten milliseconds."""


ANSWER_WITHIN_S = 1e-3


class DeadlinePolicy(PlannedPolicy):
    """As many deadlines as possible, and every promise kept.

    * *Promises*: minimum satisfactory shares in deadline order, as in ElasticFlow, but counting on the worst that
      rescheduling can do, so that a promise survives it. In a burst the cheapest job is asked first: a deadline met is
      a deadline met, whatever it costs.
    * *Deferred answers*: a job that cannot be promised is not turned away while it could still make it alone. It is
      asked again at every decision, and meanwhile planned beside the promised jobs, on likely instead of certain terms,
      wherever that harms nobody.
    * *Idle devices*, highest priority first: a first share for everybody who has none; then nobody is disturbed without
      need; then the job that gains most speed per device, if it lives long enough to earn back the pause.

    O(jobs x breakpoints) per decision, and again per job that is asked.
    """

    name: ClassVar[str] = "deadline"
    summary: ClassVar[str] = "our default: promises proof against overhead, cheap jobs first, retries, nothing idle"
    paper: ClassVar[str] = "ours, from ElasticFlow's minimum satisfactory share"
    overhead_proof: ClassVar[bool] = True
    keeps_promises: ClassVar[bool] = True

    def admit(self, view: KindView, rows: Ints) -> Sequence[Quote]:
        certain = surely(view)
        cheap_first = rows[np.argsort(device_seconds(view)[rows], kind="stable")]
        asked = cheap_first[np.isfinite(view.deadline[cheap_first])]
        layout = _promise(view, kept_promises(view, certain), asked, certain)
        quotes = answers(view, rows, layout, certain)
        return [_or_later(view, row, quote) for row, quote in zip(rows.tolist(), quotes, strict=True)]

    def allocate(self, view: KindView) -> Allocation:
        certain = surely(view)
        cheap_first = view.order(device_seconds(view))
        layout = kept_promises(view, certain)
        hopeful = _hopeful(view, layout, cheap_first)
        if len(hopeful):
            terms = _mixed(view, layout, certain)
            layout = _make_room(view, fit_in(view, layout.in_time(), hopeful, terms), hopeful, terms)
        widths = layout.widths_at(view.now)
        widening = _widening(view)
        for rows in by_priority(view, cheap_first):
            _use_idle(
                widths, view.width, rows, view.remaining, view.levels, view.rates, view.depth, widening, view.capacity
            )
        return Allocation(widths, min(layout.plans.next_change(view.now), _next_answer(view)), layout.plans)


def last_chances(view: KindView) -> Floats:
    """The latest time each job could start, alone on the cluster, and still be in time."""
    return view.deadline - view.alone_s


def _next_answer(view: KindView) -> float:
    """Just after the last chance of the first deferred job that waits, to tell it; not if that stops everybody."""
    if view.overhead.every_round_s > 0:
        return np.inf
    waits = (view.standing == Standing.DEFERRED) & (view.width == 0)
    return float(last_chances(view)[waits].min(initial=np.inf)) + ANSWER_WITHIN_S


def device_seconds(view: KindView) -> Floats:
    """What each job still costs at its most economical width."""
    return view.levels[:, 0] * view.remaining / view.rates[:, 0]


def _promise(view: KindView, kept: PlanLayout, candidates: Ints, terms: PlanTerms) -> PlanLayout:
    """Add the candidates that fit in, if planning everybody afresh then still reaches everybody; else one by one.

    A promise that only one particular plan can keep does not survive the first surprise.
    """
    fitted = fit_in(view, kept, candidates, terms)
    fresh = lay_out(view, fitted.rows, terms)
    sound = not (fresh.missed & ~kept.missed).any()
    return _make_room(view, fresh if sound else kept, candidates, terms)


def _make_room(view: KindView, layout: PlanLayout, candidates: Ints, terms: PlanTerms) -> PlanLayout:
    """See for the cheapest candidates whether others could make room for them.

    That means planning everybody again, so how many are tried depends on how many there are.
    """
    others = candidates[~layout.planned[candidates]]
    return extend(view, layout, others[: 1 + REPLANNED_JOBS // (1 + len(layout.rows))], terms)


def kept_promises(view: KindView, certain: PlanTerms) -> PlanLayout:
    """A plan that keeps the promises made, if need be with what was held in reserve for them."""
    layout = best_layout(view, promised_rows(view), certain)
    return best_layout(view, layout.rows, certain, probably(view)) if layout.missed.any() else layout


def surely(view: KindView) -> PlanTerms:
    """What holds whatever the rescheduling: a decision every slot, and for a new promise one unforeseen change.

    A new promise also counts on the slowest speed and the longest start that were seen.
    """
    is_promised = view.standing == Standing.PROMISED
    reserve = np.where(is_promised, 0.0, view.overhead.worst_s + view.reserve_s)
    doubts = np.where(is_promised[:, None], 0.0, view.doubts)
    return _terms(view, view.rates * (1.0 - doubts), view.slot, view.deadline - reserve)


def probably(view: KindView) -> PlanTerms:
    """What holds if decisions go on to be as frequent as lately."""
    return _terms(view, view.rates, view.interval, view.deadline)


def _mixed(view: KindView, layout: PlanLayout, certain: PlanTerms) -> PlanTerms:
    """Certain terms for the promised, likely ones for the hopeful; who has missed already just has to end some day."""
    likely = probably(view)
    is_promised = (view.standing == Standing.PROMISED)[:, None]
    limit = np.where(layout.missed, np.inf, view.deadline)
    rates = np.where(is_promised, certain.rates, likely.rates)
    return PlanTerms(rates, certain.pauses, certain.starts, certain.work, limit)


def _terms(view: KindView, rates: Floats, interval: float, limit: Floats) -> PlanTerms:
    lost = min(view.overhead.every_round_s / max(interval, 1.0), 0.9)
    pauses = _change_pauses(view) + view.resize_s[:, None]
    work = view.remaining + view.still_s * view.held_rate
    return PlanTerms(rates * (1.0 - lost), pauses, view.start_s - view.resize_s, work, limit)


def _change_pauses(view: KindView) -> Floats:
    return view.overhead.change_s + view.overhead.per_doubling_s * np.log2(view.levels)


def _widening(view: KindView) -> Floats:
    """What a wider level costs: nothing more than a narrow one for a job that has yet to start."""
    return _change_pauses(view) + np.where(view.width > 0, view.resize_s, 0.0)[:, None]


def _hopeful(view: KindView, layout: PlanLayout, cheap_first: Ints) -> Ints:
    """Jobs with a deadline that the plan does not reach: broken promises first, then deferred and soft ones."""
    broken = layout.missed[cheap_first]
    unpromised = ((view.standing != Standing.PROMISED) & np.isfinite(view.deadline))[cheap_first]
    return np.concatenate((cheap_first[broken], cheap_first[unpromised]))


def _or_later(view: KindView, row: int, quote: Quote) -> Quote:
    """Instead of a refusal: ask again as long as the job could make it alone."""
    last_chance = float(last_chances(view)[row])
    if quote.verdict is not Verdict.REFUSED or last_chance < view.now:
        return quote
    patience = format_duration(last_chance - view.now)
    return Quote(
        job_id=quote.job_id, verdict=Verdict.DEFERRED, answer_by=last_chance, counter_offer=quote.counter_offer,
        reason=f"{quote.reason}; it is asked again for {patience} and runs on free devices meanwhile",
    )  # fmt: skip


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
        still_a_level = levels[job][usable(levels[job], depth[job], held[job])] == held[job]
        if widths[job] < held[job] and still_a_level and held[job] - widths[job] <= idle:
            idle -= held[job] - widths[job]
            widths[job] = held[job]
    while idle > 0:
        job = _best_to_widen(widths, held, order, remaining, levels, rates, depth, pauses, idle)
        if job < 0:
            return
        wider = levels[job][usable(levels[job], depth[job], widths[job]) + 1]
        idle -= wider - widths[job]
        widths[job] = wider


@compiled
def _best_to_widen(
    widths: Ints, held: Ints, order: Ints, remaining: Floats, levels: Ints, rates: Floats, depth: Ints, pauses: Floats,
    idle: int,
) -> int:  # fmt: skip
    """The job whose next level adds most speed, relative to one device, per device; -1 if it pays for nobody."""
    best, best_gain = -1, 0.0
    for job in order:
        level = usable(levels[job], depth[job], widths[job])
        if level < 0 or level + 1 >= depth[job] or levels[job][level + 1] - widths[job] > idle:
            continue
        slow, fast = rates[job][level], rates[job][level + 1]
        pause = 0.0 if levels[job][level + 1] == held[job] else pauses[job][level + 1]
        if remaining[job] / slow - remaining[job] / fast <= pause:
            continue
        gain = (fast - slow) / (rates[job][0] * (levels[job][level + 1] - widths[job]))
        if gain > best_gain:
            best, best_gain = job, gain
    return best
