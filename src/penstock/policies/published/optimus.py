"""Optimus: devices go where they shorten the remaining time most."""

import math
from typing import Annotated, ClassVar

import numpy as np

from penstock.policies.base import Allocation, KindPolicy, Plans
from penstock.policies.columns import Bools, Floats, Ints
from penstock.policies.greedy import by_priority, grow_by_gain, take_in_order
from penstock.policies.kind_view import KindView
from penstock.policies.parameters import Parameter

_ROUNDING = 1e-6


class Optimus(KindPolicy):
    """In rounds: everybody a first share, then each further one to the job whose remaining time falls most per device.

    The gain of a wider level is (time left now - time left then) / (devices added). Within a round nobody is resized;
    who comes is started on idle devices, and devices of jobs that end wait for the next round, whose time is kept as
    the plan of the jobs that run (Peng et al., EuroSys'18). Where there are more jobs than devices, those with the
    least time left are started first (reconstructed).

    The paper fits the loss curve to learn how many epochs are left and tells workers from parameter servers; here the
    work left is what the job states or reports, and a job has one kind of device. O((jobs + grants) log jobs).
    """

    name: ClassVar[str] = "optimus"
    summary: ClassVar[str] = "elastic, in rounds: devices go where they shorten the remaining time most"
    paper: ClassVar[str] = "Peng et al., EuroSys'18"

    def __init__(
        self, round_s: Annotated[float, Parameter("how long devices stay as they were given out", least=1.0)] = 600.0
    ) -> None:
        self.round_s = round_s

    def allocate(self, view: KindView) -> Allocation:
        placed = self._in_round(view)
        if placed.any() and int(view.width.sum()) <= view.capacity:
            end = float(view.plan_at[placed, 0].min())
            widths = _first_shares(view, view.width)
        else:
            end = view.now + self.round_s
            widths = self.shares(view)
        rounds = Plans.none(len(view))
        rounds.at[:, 0] = np.where(widths > 0, end, math.inf)
        rounds.width[:, 0] = widths
        return Allocation(widths, end if widths.any() else math.inf, rounds)

    def shares(self, view: KindView) -> Ints:
        """What everybody holds when a round begins."""
        widths = _first_shares(view, np.zeros_like(view.width))
        gains = marginal_gains(view)
        for rows in by_priority(view, view.order()):
            grow_by_gain(widths, rows, gains, view.levels, view.depth, view.capacity)
        return widths

    def _in_round(self, view: KindView) -> Bools:
        """Who was given devices in a round that is not over."""
        ends = view.plan_at[:, 0]
        return np.asarray((view.width > 0) & (ends > view.now + _ROUNDING) & (ends <= view.now + self.round_s))


def marginal_gains(view: KindView) -> Floats:
    """(rows, L - 1) seconds by which each next level shortens the remaining time, per device that it adds."""
    seconds = view.remaining[:, None] / view.rates
    added = np.diff(view.levels, axis=1)
    return np.divide(-np.diff(seconds, axis=1), added, out=np.zeros(added.shape), where=added > 0)


def _first_shares(view: KindView, held: Ints) -> Ints:
    """``held``, and the least level for everybody else while there are devices; the least time left first."""
    order = view.order_by_priority(view.remaining / view.rates[:, 0])
    waiting = order[held[order] == 0]
    return held + take_in_order(waiting, view.levels[:, 0], view.capacity - int(held.sum()))
