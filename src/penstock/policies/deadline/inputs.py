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
    patient: Bools
    """Whose plan begins as late as it may, because a job without a deadline is cheaper."""


class Terms(NamedTuple):
    """What holds whatever happens, with what a promise keeps in reserve and without, and what is likely."""

    cautious: PlanInputs
    strict: PlanInputs
    likely: PlanInputs


def terms_of(view: View) -> Terms:
    """The three of them, which share all that does not differ.

    Reserves are for one unforeseen change and for a slow start and end.
    """
    strict = _strict(view)
    interval = min(each.interval for each in view.conditions)
    likely_rates = _stacked([each.rates for each in view.by_kind]) * view.working_share(interval)
    cautious = strict._replace(limit=strict.limit - view.overhead.worst_s - view.reserve_s)
    prices = kind_prices(likely_rates, strict.levels, strict.depth)
    likely = strict._replace(
        rates=likely_rates, limit=strict.limit.copy(), prices=prices, remaining=np.array(view.remaining)
    )
    return Terms(cautious, strict, likely)


def _strict(view: View) -> PlanInputs:
    """The slowest speeds and a decision in every slot; in so many slots there may be one decision more than slots."""
    levels, depth = _stacked([each.levels for each in view.by_kind]), np.stack([each.depth for each in view.by_kind])
    rates = _stacked([_slowest(each.rates, each.doubts) for each in view.by_kind]) * view.working_share(view.slot)
    pauses: Floats = view.overhead.change_s + view.overhead.per_doubling_s * np.log2(np.maximum(levels, 1))
    columns = {
        "resizes": view.resize_s, "starts": view.start_s - view.end_s - view.resize_s, "ends": view.end_s,
        "held": view.width, "bound": view.bound, "ready": view.now + view.pause_s,
        "remaining": view.remaining + view.allowance,
        "again": np.where(view.resumable, -1.0, view.whole), "limit": view.deadline - view.overhead.every_round_s,
    }  # fmt: skip
    best_effort = np.isinf(view.deadline)
    inputs = PlanInputs(
        now=float(view.now), slot=float(view.slot), levels=levels, rates=rates,
        pauses=pauses + view.resize_s[:, None], depth=depth, prices=kind_prices(rates, levels, depth),
        patient=np.zeros(len(view), dtype=bool), **{name: np.array(column) for name, column in columns.items()},
    )  # fmt: skip
    return inputs._replace(patient=_dearer(device_seconds(inputs), best_effort)) if best_effort.any() else inputs


def _dearer(cost: Floats, than: Bools) -> Bools:
    return np.asarray(cost > cost[than].min())


def device_seconds(inputs: PlanInputs) -> Floats:
    """What each job still costs at its most economical width, in device-seconds of the first kind."""
    counts, rates = inputs.levels[:, :, 0], inputs.rates[:, :, 0]
    costs = np.full(rates.shape, np.inf)
    np.divide(counts * inputs.remaining * inputs.prices[:, None], rates, out=costs, where=inputs.depth > 0)
    return np.asarray(costs.min(axis=0))


def _slowest(rates: Floats, doubts: Floats) -> Floats:
    """What a job surely makes on so many devices or more."""
    if not doubts.any():
        return rates
    return np.minimum.accumulate((rates * (1.0 - doubts))[:, ::-1], axis=1)[:, ::-1]


def kind_prices(rates: Floats, levels: Ints, depth: Ints) -> Floats:
    """What a device of each kind does for the jobs that are here, compared with one of the first kind.

    The geometric mean over the jobs that can use both, so that a job goes where it is faster than others would be.
    """
    prices = np.ones(len(depth))
    for kind in range(1, len(depth)):
        both = (depth[0] > 0) & (depth[kind] > 0)
        if both.any():
            here, first = (rates[k, both, 0] / levels[k, both, 0] for k in (kind, 0))
            prices[kind] = np.exp(np.log(here / first).mean())
    return prices


def _stacked(parts: list[NDArray[Number]]) -> NDArray[Number]:
    """One array over all kinds, as wide as the widest; always a copy, so that loops are compiled for one layout."""
    if len(parts) == 1:
        return np.array(parts[0][None], order="C")
    wide = max(part.shape[1] for part in parts)
    return np.stack([np.pad(part, ((0, 0), (0, wide - part.shape[1])), mode="edge") for part in parts])
