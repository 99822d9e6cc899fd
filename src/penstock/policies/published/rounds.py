"""Rounds: devices stay as they were given out until the round is over; who comes meanwhile starts on what is free.

The end of the round is kept as the plan of the jobs that hold devices, in the first column; the others are for what a
policy has to remember about a row from round to round. A round ends early where jobs hold more devices than are left.
"""

from typing import NamedTuple

import numpy as np

from penstock.policies.base import Assignment, Plans, Policy
from penstock.policies.columns import ROUNDING_S, Bools, Floats, Ints
from penstock.policies.view import View

_LEAST_FACTOR = 1e-3


class Holding(NamedTuple):
    """What every row holds: so many devices (0: none) of a kind."""

    kinds: Ints
    widths: Ints

    @classmethod
    def nothing(cls, view: View) -> "Holding":
        return cls(view.bound.copy(), np.zeros(len(view), dtype=np.int64))

    def free(self, view: View) -> Ints:
        """Devices of each kind that no row holds; below zero where rows hold more than there are."""
        held = np.bincount(self.kinds, weights=self.widths, minlength=len(view.capacity))
        return np.asarray(view.capacity - held.astype(np.int64))

    def give(self, row: int, kind: int, count: int) -> None:
        self.kinds[row], self.widths[row] = kind, count


class Starts(NamedTuple):
    """(rows, kinds) the devices that waiting rows would start on, 0 where they cannot run, and the rate on them."""

    counts: Ints
    rates: Floats


class RoundPolicy(Policy):
    """Base of policies that give all devices out anew every ``round_s`` seconds."""

    round_s: float

    def begin(self, view: View, remembered: Floats) -> Holding:
        """Who holds what in the next round; ``remembered`` is kept for the round after it, infinite where new."""
        raise NotImplementedError

    def starts(self, view: View) -> Starts:
        """What waiting rows would start on while a round lasts."""
        raise NotImplementedError

    def allocate(self, view: View) -> Assignment:
        end = round_end(view, self.round_s)
        remembered = np.where(view.plan_width[:, 1:] == 0, view.plan_at[:, 1:], np.inf)
        if end > view.now:
            holding = Holding(view.bound.copy(), view.width.copy())
        else:
            end = view.now + self.round_s
            holding = self.begin(view, remembered) if len(view) else Holding.nothing(view)
        fill(view, holding, self.starts(view))
        plans = Plans.none(len(view))
        plans.at[:, 0], plans.at[:, 1:] = np.where(holding.widths > 0, end, np.inf), remembered
        plans.width[:, 0], plans.kind[:] = holding.widths, holding.kinds
        wake_at = end if holding.widths.any() else np.inf
        return Assignment(holding.kinds, holding.widths, (wake_at,) * len(view.kinds), plans)


def round_end(view: View, round_s: float) -> float:
    """When the present round ends; ``now`` if none is under way."""
    ends = view.plan_at[:, 0]
    inside = ends[(view.width > 0) & (ends > view.now + ROUNDING_S) & (ends <= view.now + round_s + ROUNDING_S)]
    fits = (Holding(view.bound, view.width).free(view) >= 0).all()
    return float(inside.min()) if len(inside) and fits else view.now


def fill(view: View, holding: Holding, starts: Starts) -> None:
    """Start waiting rows by priority and arrival, each on the kind where it is fastest of those with devices left."""
    free = holding.free(view)
    order = np.lexsort((view.sequence, -view.priority))
    for row in order[holding.widths[order] == 0].tolist():
        fits = (starts.counts[row] > 0) & (starts.counts[row] <= free)
        if not fits.any():
            continue
        kind = int(np.where(fits, starts.rates[row], -1.0).argmax())
        holding.give(row, kind, int(starts.counts[row, kind]))
        free[kind] -= starts.counts[row, kind]


def real_options(view: View) -> Bools:
    """(rows, options) which options are there, no repetitions, on kinds that have so many devices now."""
    real = [
        (np.arange(each.levels.shape[1]) < each.depth[:, None]) & (each.levels <= free)
        for each, free in zip(view.by_kind, view.capacity.tolist(), strict=True)
    ]
    return np.concatenate(real, axis=1)


def least_counts(view: View) -> Ints:
    """(rows, options) the fewest devices that each row can use of the kind of each option."""
    return np.concatenate(
        [np.repeat(each.levels[:, :1], each.levels.shape[1], axis=1) for each in view.by_kind], axis=1
    )


def in_reach(view: View) -> Bools:
    """(rows, options) what a row may hold next: real options of the fewest devices, or of up to twice what it holds."""
    return real_options(view) & (view.option_count <= np.maximum(least_counts(view), 2 * view.width[:, None]))


def least_starts(view: View) -> Starts:
    """Waiting rows start on the fewest devices that they can use."""
    counts = [np.where(each.depth > 0, each.levels[:, 0], 0) for each in view.by_kind]
    return Starts(np.stack(counts, axis=1), np.stack([each.rates[:, 0] for each in view.by_kind], axis=1))


def change_factor(view: View) -> Floats:
    """What is left of the goodput of rows that hold devices if these change: (age - S) / (age + S), where a change
    costs S seconds; 1 for rows that hold none.

    Sia and Pollux subtract S for every change so far, which views do not count; here it is one.
    """
    age, cost = view.now - view.submitted, view.resize_s + view.overhead.change_s
    factor = (age - cost) / np.maximum(age + cost, ROUNDING_S)
    return np.where(view.width > 0, np.clip(factor, _LEAST_FACTOR, 1.0), 1.0)


def devices_of(view: View, rows: Ints, options: Ints) -> Ints:
    """Devices of each kind that rows take with these options, -1 being none."""
    taken = options >= 0
    counts = view.option_count[rows[taken], options[taken]]
    return np.bincount(view.option_kind[options[taken]], counts, len(view.capacity)).astype(np.int64)


def chosen(view: View, options: Ints) -> Holding:
    """Every row holds the option chosen for it; -1 is nothing."""
    assignment = view.choose(options)
    return Holding(assignment.kinds.copy(), assignment.widths.copy())
