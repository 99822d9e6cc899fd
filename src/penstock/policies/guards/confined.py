"""Jobs that may run on certain nodes only, under policies that hand out numbers of devices and not places.

The policy decides as if devices were all alike; what a confined job could use at most is what its nodes have. Where its
answer gives jobs more than the nodes have to which they are confined, these jobs are decided about by the same policy
on the devices of these nodes, and everybody else on what is left: nobody gets a place ahead of its turn by naming it.
Whoever can be moved is moved aside. Promised jobs and those that cannot resume stay where they are; a confined job
waits for them, and meanwhile nobody who came later and could not be moved either is started on its nodes.

A promise to a confined job is kept in place: it gets the fewest devices of its nodes that are enough at once, if no
other promise needs them, and keeps them to its end. So no plan of anybody has to know where devices are.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from penstock.core import Quote, Verdict, format_duration
from penstock.policies.admission import promised
from penstock.policies.base import Assignment, PlannedQuotes, Plans
from penstock.policies.columns import KEPT_WITHIN_S, Bools, Floats, Ints, Standing
from penstock.policies.guards.settled import Allocate, SettledRows, settle, settled_quotes
from penstock.policies.guards.within_bounds import fitted
from penstock.policies.view import View

Admit = Callable[[View, Ints], Sequence[Quote | None]]
_FAIR_ROUNDS = 8
"""After so many groups that were decided about by themselves, the next ones wait."""
_ANSWER_WITHIN_S = 1e-3
_NO_ROOM = "what its nodes have is promised to others, or held by jobs that cannot resume"


class RowCrowd(NamedTuple):
    """Rows that shall hold more devices of a kind than the nodes have to which they are confined."""

    rows: Ints
    kind: int
    room: int


class Seats(Protocol):
    """What is known about places while a decision is taken."""

    def confined(self, view: View) -> Bools:
        """Who may not run everywhere."""

    def crowd(self, view: View, decided: Assignment) -> RowCrowd | None:
        """A group for which its nodes are too small, by this assignment; none if everybody finds a place."""

    def room(self, view: View, row: int, taken: Mapping[int, int], until: float) -> int:
        """Devices that a row could have on those of its nodes that stay ``until`` then, beside promised jobs, those
        that cannot resume, and rows that have ``taken`` so many of theirs."""

    def stays_until(self, view: View, row: int) -> float:
        """Until when the devices that a row holds are there, as far as is known."""

    def blocked(self, view: View, decided: Assignment) -> Ints:
        """Confined rows that get nothing while too little of their nodes could be cleared for them."""

    def keep_clear(self, view: View, rows: Ints) -> None:
        """Who comes later than these rows and could not be moved is kept off their nodes in this decision."""


def allocate_confined(allocate: Allocate, view: View, seats: Seats) -> Assignment:
    """What is decided when confined jobs hold devices of their nodes alone.

    Once if nobody is confined or all find a place, and twice more for each group that does not.
    """
    confined = seats.confined(view)
    if not confined.any():
        return allocate(view)
    settled = promised_in_place(view, confined, seats)
    decided, settled = _seated(allocate, view, seats, settled)
    blocked = _in_turn(allocate, view, seats.blocked(view, decided))
    if len(blocked):
        seats.keep_clear(view, blocked)
        decided, _ = _seated(allocate, view, seats, settled)
    return replace(decided, wake_at=_woken(view, confined, decided))


def _seated(allocate: Allocate, view: View, seats: Seats, settled: SettledRows) -> tuple[Assignment, SettledRows]:
    decided, rounds = settle(view, settled, allocate), 0
    while (crowd := seats.crowd(view, decided)) is not None:
        rounds += 1
        shared = _shared(allocate, view, crowd) if rounds <= _FAIR_ROUNDS else _nothing(view, crowd.rows)
        settled = settled.joined(shared)
        decided = settle(view, settled, allocate)
    return decided, settled


def _shared(allocate: Allocate, view: View, crowd: RowCrowd) -> SettledRows:
    """The policy's own answer about these rows on what their nodes have; they may be stopped any time after it."""
    if not crowd.room:
        return _nothing(view, crowd.rows)
    rows = np.sort(crowd.rows)
    capacity = np.where(np.arange(len(view.conditions)) == crowd.kind, crowd.room, 0)
    answer = fitted(part := view.part(rows, capacity), allocate(part))
    return SettledRows(rows, _for_now(view, rows), answer.kinds, answer.widths)


def _nothing(view: View, rows: Ints) -> SettledRows:
    rows = np.sort(rows)
    return SettledRows(rows, _for_now(view, rows), view.bound[rows], np.zeros_like(rows))


def _for_now(view: View, rows: Ints) -> Floats:
    """Nobody promised them anything, so that others may count on their devices from the next decision on."""
    return np.full(len(rows), view.now + max(view.slot, 1.0))


def _in_turn(allocate: Allocate, view: View, blocked: Ints) -> Ints:
    """Those of them to whom the policy would give devices if they were there."""
    if not len(blocked):
        return blocked
    return blocked[allocate(view.part(blocked, view.capacity)).widths > 0]


def _woken(view: View, confined: Bools, decided: Assignment) -> tuple[float, ...]:
    """Just after the last chance of the first one that waits for an answer, to tell it."""
    chances = view.deadline - view.alone_s + _ANSWER_WITHIN_S
    waits = confined & (view.standing == Standing.DEFERRED) & (chances > view.now)
    first = float(chances[waits].min(initial=math.inf))
    return tuple(min(each, first) for each in decided.wake_at)


def promised_in_place(view: View, confined: Bools, seats: Seats) -> SettledRows:
    """What confined rows hold that were promised their deadlines: as before if they are in time, else what it takes."""
    rows = np.flatnonzero(confined & (view.standing == Standing.PROMISED) & np.isfinite(view.deadline))
    settled = SettledRows.none()
    waits = view.width[rows] == 0  # they get what is left in the order in which they were promised it
    for row in rows[np.lexsort((np.where(waits, view.sequence[rows], view.deadline[rows]), waits))].tolist():
        settled = settled.joined(_in_place(view, row, settled, seats))
    return settled


def _in_place(view: View, row: int, settled: SettledRows, seats: Seats) -> SettledRows:
    """The devices it holds, if it is in time on them; or the fewest that are, or else the most that can be had."""
    held, limit = int(view.width[row]), _limit(view, row)
    in_time, end = limit + KEPT_WITHIN_S, safe_end(view, row, held) if held else math.inf
    ends = {held: end if end <= seats.stays_until(view, row) else math.inf}
    width = held
    if ends[held] > in_time:
        taken = dict(zip(settled.rows.tolist(), settled.widths.tolist(), strict=True))
        others = {level: safe_end(view, row, level) for level in _levels(view, row) if level != held}
        ends |= {level: end for level, end in others.items() if level <= seats.room(view, row, taken, end)}
        width = _fewest_in_time(ends, _cautious_limit(view, row)) or _fewest_in_time(ends, limit)
        width = width or min(ends, key=lambda level: (ends[level], level))
    one = np.array([row])
    return SettledRows(one, np.array([ends[width]]), view.bound[one], np.array([width]))


def _fewest_in_time(ends: Mapping[int, float], limit: float) -> int:
    return min((width for width, end in ends.items() if end <= limit), default=0)


def _levels(view: View, row: int) -> list[int]:
    options = view.by_kind[int(view.bound[row])]
    levels: list[int] = options.levels[row, : int(options.depth[row])].tolist()
    return levels


def _limit(view: View, row: int) -> float:
    return float(view.deadline[row] - view.overhead.every_round_s)


def _cautious_limit(view: View, row: int) -> float:
    """With a reserve for one unforeseen change and for a slow start and end."""
    return _limit(view, row) - view.overhead.worst_s - float(view.reserve_s[row])


def safe_end(view: View, row: int, width: int) -> float:
    """When it will have ended on so many devices from now on, on certain terms: the slowest speed on at least so many,
    with a decision in every slot."""
    options, held = view.by_kind[int(view.bound[row])], int(view.width[row])
    depth = int(options.depth[row])
    rates = options.rates[row, :depth] * (1.0 - options.doubts[row, :depth])
    enough = options.levels[row, :depth] >= width
    rate = float(rates[enough].min() if enough.any() else rates[-1]) * view.working_share(view.slot)
    left, still = float(view.remaining[row] + view.allowance[row]), float(view.still_s[row])
    if width != held:
        left = left if view.resumable[row] or not held else float(view.whole[row])
        still = float(max(view.start_s[row], view.resize_s[row] + view.end_s[row]) if held else view.start_s[row])
        still += view.overhead.change_s + view.overhead.per_doubling_s * math.log2(width)
    return view.now + still + left / rate if rate > 0 else math.inf


def admit_confined(admit: Admit, allocate: Allocate, view: View, rows: Ints, seats: Seats) -> Sequence[Quote | None]:
    """The answers when a promise to a confined job counts on its nodes alone.

    What the policy promises is promised if the job can hold enough devices of its nodes from now to its end and nobody
    else's promise is missed by that. Two more decisions for each such job.
    """
    confined = seats.confined(view)
    if not confined.any():
        return admit(view, rows)
    kept = promised_in_place(view, confined, seats)
    answers = admit(view.without(kept), kept.places_of(rows)) if len(kept.rows) else admit(view, rows)
    quotes = dict(zip(rows.tolist(), answers, strict=True))
    quotes |= {row: _not_held(quote) for row, quote in quotes.items() if confined[row] and quote is not None}
    asked = [row for row, quote in quotes.items() if confined[row] and _is_promise(quote)]
    standing = view.standing.copy()
    standing[[row for row, quote in quotes.items() if _is_promise(quote) and not confined[row]]] = Standing.PROMISED
    plans = PlannedQuotes.plans_of(settled_quotes(view, kept, answers))
    for row in sorted(asked, key=lambda row: int(view.sequence[row])):
        longer = _promisable(allocate, view.told(standing, plans), row, kept, seats)
        quotes[row] = _in_words(view, row, longer)
        kept = kept if longer is None else longer
    said = [quotes[row] for row in rows.tolist()]
    return said if plans is None else PlannedQuotes(said, plans)


def _not_held(quote: Quote) -> Quote:
    """Plans do not know places, so no offer to a confined job can be held."""
    return quote if quote.held is None else replace(quote, held=None, offer_until=math.inf)


def _is_promise(quote: Quote | None) -> bool:
    return quote is not None and quote.verdict is Verdict.PROMISED


def _promisable(allocate: Allocate, view: View, row: int, kept: SettledRows, seats: Seats) -> SettledRows | None:
    """What is settled if this row is promised its deadline as well; none if it cannot be."""
    alone = _in_place(view, row, kept, seats)
    if not alone.widths[0] or alone.ends[0] > _cautious_limit(view, row):
        return None
    longer, before = kept.joined(alone), kept.joined(_nothing(view, alone.rows))
    return longer if settle(view, longer, allocate).keeps_promises_of(settle(view, before, allocate)) else None


def _in_words(view: View, row: int, settled: SettledRows | None) -> Quote | None:
    name, deadline = view.jobs[row].id, float(view.deadline[row])
    if settled is not None:
        at = int(np.searchsorted(settled.rows, row))
        plans = Plans.none(1)
        plans.at[0, 0], plans.width[0, 0] = view.now, settled.widths[at]
        end = float(settled.ends[at])
        return promised(name, deadline, plans.of_row(0, end), end)
    chance = deadline - float(view.alone_s[row])
    if not view.hard[row]:
        return Quote(job_id=name, verdict=Verdict.BEST_EFFORT, reason=f"{_NO_ROOM}; it runs when it can")
    if chance < view.now:
        return Quote(job_id=name, verdict=Verdict.REFUSED, reason=_NO_ROOM)
    if view.standing[row] == Standing.DEFERRED:
        return None
    patience = format_duration(chance - view.now)
    reason = f"{_NO_ROOM}; it is asked again for {patience} and runs when it can meanwhile"
    return Quote(job_id=name, verdict=Verdict.DEFERRED, reason=reason, answer_by=chance)
