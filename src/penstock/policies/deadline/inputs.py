"""What planning counts on: how fast every job runs where, what changes cost it, and by when it must be done.

Promises are made and kept on *certain* terms: the slowest speed that a curve admits, the most iterations that a metric
asks for in nine of ten cases, a decision in every slot, the end of the job included. Jobs that were promised nothing
are planned on *likely* ones.
"""

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.policies.columns import Bools, Floats, Ints
from penstock.policies.view import View
from penstock.tools import compiled

Number = TypeVar("Number", np.int64, np.float64)


class PlanInputs(NamedTuple):
    """Columns over the rows of a view, per kind of device where they depend on it; read by compiled loops."""

    now: float
    slot: float
    levels: Ints
    """(kinds, rows, L) widths, ascending; padded with the last."""
    rates: Floats
    """(kinds, rows, L) iterations per second."""
    pauses: Floats
    """(kinds, rows, L) seconds without progress after a change to that width."""
    depth: Ints
    """(kinds, rows) how many of the levels are real; 0 where the job cannot run."""
    resizes: Floats
    """Seconds of a pause that a job which has yet to start does not lose."""
    starts: Floats
    """Seconds more than a change that a start takes after having no devices."""
    ends: Floats
    """Seconds between the last step and the end."""
    held: Ints
    bound: Ints
    """The kind of the devices that are held."""
    ready: Floats
    """When the devices that are held make progress again."""
    remaining: Floats
    again: Floats
    """Iterations that are left whenever devices change, of a job that cannot resume; -1 for the others."""
    limit: Floats
    """By when each job must have ended."""
    prices: Floats
    """(kinds,) what a device-second of each kind is worth."""
    cost: Floats
    """What each job still costs at its most economical width, in device-seconds of the first kind."""
    patient: Bools
    """Whose plan begins as late as it may, because a job without a deadline is cheaper."""


_Shared = tuple[Floats, Floats, Floats, Floats, Ints, Ints, Floats, Floats, Floats, Floats]


class Terms(NamedTuple):
    """What holds whatever happens, with what a promise keeps in reserve and without, and what is likely."""

    cautious: PlanInputs
    strict: PlanInputs
    likely: PlanInputs


def terms_of(view: View) -> Terms:
    """The three of them, which share all that does not differ. O(rows x levels).

    Certain is the slowest speed and a decision in every slot; in so many slots there may be one decision more than
    slots. Reserves are for one unforeseen change and for a slow start and end.
    """
    overhead, interval = view.overhead, min(each.interval for each in view.conditions)
    levels, depth = _stacked([each.levels for each in view.by_kind]).copy(), np.array([k.depth for k in view.by_kind])
    surely = _stacked([_slowest(each.rates, each.doubts) for each in view.by_kind]) * view.working_share(view.slot)
    mostly = _stacked([each.rates for each in view.by_kind]) * view.working_share(interval)
    prices, likely_prices = kind_prices(surely, levels, depth), kind_prices(mostly, levels, depth)
    shared, (limit, cautious_limit), (cost, likely_cost), patient = _columns(
        float(view.now), overhead.change_s, overhead.per_doubling_s, overhead.every_round_s, overhead.worst_s, levels,
        surely, mostly, depth, prices, likely_prices, view.resize_s, view.start_s, view.end_s, view.reserve_s,
        view.width, view.bound, view.pause_s, view.resumable, view.whole, view.remaining, view.allowance, view.deadline,
    )  # fmt: skip
    pauses, resizes, starts, ends, held, bound, ready, again, remaining, expected = shared
    strict = PlanInputs(
        now=float(view.now), slot=float(view.slot), levels=levels, rates=surely, pauses=pauses, depth=depth,
        resizes=resizes, starts=starts, ends=ends, held=held, bound=bound, ready=ready, remaining=remaining,
        again=again, limit=limit, prices=prices, cost=cost, patient=patient,
    )  # fmt: skip
    likely = strict._replace(
        rates=mostly, limit=limit.copy(), prices=likely_prices, remaining=expected, cost=likely_cost
    )  # fmt: skip
    return Terms(strict._replace(limit=cautious_limit), strict, likely)


@compiled
def _columns(
    now: float, change_s: float, per_doubling_s: float, every_round_s: float, worst_s: float, levels: Ints,
    surely: Floats, mostly: Floats, depth: Ints, prices: Floats, likely_prices: Floats, resize_s: Floats,
    start_s: Floats, end_s: Floats, reserve_s: Floats, width: Ints, bound: Ints, pause_s: Floats, resumable: Bools,
    whole: Floats, remaining: Floats, allowance: Floats, deadline: Floats,
) -> tuple[_Shared, tuple[Floats, Floats], tuple[Floats, Floats], Bools]:  # fmt: skip
    """The columns of :class:`PlanInputs` that all terms share; strict and cautious limits; strict and likely costs;
    whose plan begins late."""
    pauses = change_s + per_doubling_s * np.log2(np.maximum(levels, 1)) + resize_s.reshape(-1, 1)
    again, left, limit = np.where(resumable, -1.0, whole), remaining + allowance, deadline - every_round_s
    cost = device_seconds(levels, surely, depth, prices, left)
    best_effort, patient = np.isinf(deadline), np.zeros(len(deadline), dtype=np.bool_)
    if best_effort.any():
        patient = cost > cost[best_effort].min()
    shared = (
        pauses, resize_s.copy(), start_s - end_s - resize_s, end_s.copy(), width.copy(), bound.copy(), now + pause_s,
        again, left, remaining.copy(),
    )  # fmt: skip
    likely_cost = device_seconds(levels, mostly, depth, likely_prices, remaining)
    return shared, (limit, limit - worst_s - reserve_s), (cost, likely_cost), patient


@compiled
def device_seconds(levels: Ints, rates: Floats, depth: Ints, prices: Floats, remaining: Floats) -> Floats:
    """What each job still costs at its most economical width, in device-seconds of the first kind."""
    least = np.full(len(remaining), np.inf)
    for kind in range(len(depth)):
        runs = depth[kind] > 0
        seconds = levels[kind, :, 0] * remaining * prices[kind] / np.where(runs, rates[kind, :, 0], 1.0)
        least = np.where(runs & (seconds < least), seconds, least)
    return least


def _slowest(rates: Floats, doubts: Floats) -> Floats:
    """What a job surely makes on so many devices or more."""
    if not doubts.any():
        return rates
    return np.minimum.accumulate((rates * (1.0 - doubts))[:, ::-1], axis=1)[:, ::-1]


def kind_prices(rates: Floats, levels: Ints, depth: Ints) -> Floats:
    """What a device of each kind does for the jobs that are here, compared with one of the first kind.

    The geometric mean over the jobs that can use both, so that a job goes where it is faster than others would be.
    """
    prices: Floats = np.ones(len(depth))
    for kind in range(1, len(depth)):
        both = (depth[0] > 0) & (depth[kind] > 0)
        if both.any():
            here, first = (rates[k, both, 0] / levels[k, both, 0] for k in (kind, 0))
            prices[kind] = np.exp(np.log(here / first).mean())
    return prices


def _stacked(parts: list[NDArray[Number]]) -> NDArray[Number]:
    """One array over all kinds, as wide as the widest; no copy where there is one."""
    if len(parts) == 1:
        return parts[0][None]
    wide = max(part.shape[1] for part in parts)
    return np.stack([np.pad(part, ((0, 0), (0, wide - part.shape[1])), mode="edge") for part in parts])
