"""What planning counts on: how fast every job runs where, what changes cost it, and by when it must be done.

Promises are made and kept on *certain* terms: the slowest speed that a curve admits, a decision in every slot, the end
of the job included. Jobs that were promised nothing are planned on *likely* ones.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from penstock.policies.columns import Floats, Ints
from penstock.policies.view import View


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
    limit: Floats
    """By when each job must have ended."""
    prices: Floats
    """(kinds,) what a device-second of each kind is worth."""
    patient: bool
    """Whether plans begin as late as they may, because there are jobs without a deadline that may be quicker."""


def certain(view: View, *, reserve: bool) -> PlanInputs:
    """Terms that hold whatever happens; with ``reserve`` also after one unforeseen change and a slow start and end."""
    limit = _latest_end(view)
    if reserve:
        limit = limit - view.overhead.worst_s - view.reserve_s
    return _inputs(view, _slowest, view.slot, limit)


def likely(view: View) -> PlanInputs:
    """Terms that hold if speeds are as stated and decisions as frequent as lately."""
    interval = min(each.interval for each in view.conditions)
    return _inputs(view, lambda rates, _: rates, interval, _latest_end(view))


def _slowest(rates: Floats, doubts: Floats) -> Floats:
    """What a job surely makes on so many devices or more."""
    return np.minimum.accumulate((rates * (1.0 - doubts))[:, ::-1], axis=1)[:, ::-1]


def _latest_end(view: View) -> Floats:
    """In so many slots there may be one decision more than slots."""
    return view.deadline - view.overhead.every_round_s


def _inputs(view: View, speed: Callable[[Floats, Floats], Floats], interval: float, limit: Floats) -> PlanInputs:
    share = 1.0 - min(view.overhead.every_round_s / max(interval, 1.0), 0.9)
    levels = _stacked([each.levels for each in view.by_kind])
    rates = _stacked([speed(each.rates, each.doubts) * share for each in view.by_kind])
    depth = np.stack([each.depth for each in view.by_kind])
    pauses: Floats = view.overhead.change_s + view.overhead.per_doubling_s * np.log2(np.maximum(levels, 1))
    columns = {
        "resizes": view.resize_s, "starts": view.start_s - view.end_s - view.resize_s, "ends": view.end_s,
        "held": view.width, "bound": view.bound, "ready": view.now + view.pause_s, "remaining": view.remaining,
        "limit": limit,
    }  # fmt: skip
    return PlanInputs(
        now=float(view.now), slot=float(view.slot), levels=levels, rates=rates,
        pauses=pauses + view.resize_s[:, None], depth=depth, prices=kind_prices(rates, levels, depth),
        patient=bool(np.isinf(view.deadline).any()), **{name: np.array(column) for name, column in columns.items()},
    )  # fmt: skip


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


def _stacked(parts: list[np.ndarray]) -> np.ndarray:
    """One array over all kinds, as wide as the widest; always a copy, so that loops are compiled for one layout."""
    wide = max(part.shape[1] for part in parts)
    return np.stack([np.pad(part, ((0, 0), (0, wide - part.shape[1])), mode="edge") for part in parts])
