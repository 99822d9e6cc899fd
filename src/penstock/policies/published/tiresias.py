"""Tiresias: least attained service in two dimensions, discretised."""

import math
from typing import Annotated, ClassVar

import numpy as np

from penstock.policies.base import Allocation, KindPolicy
from penstock.policies.columns import Bools, Ints
from penstock.policies.greedy import serve_in_order
from penstock.policies.kind_view import KindView
from penstock.policies.parameters import Parameter

LIMITS = (3250.0, 7200.0)
"""Device-seconds after which a job falls to the next queue, as in public re-implementations."""


_ROUNDING = 1e-6


class Tiresias(KindPolicy):
    """2D-LAS: who has used the least device-time goes first, without knowing how long anybody will run.

    Attained service (devices x time) puts a job into one of a few queues; within a queue jobs go by arrival, so two
    jobs of similar age do not preempt each other back and forth. A job that has waited ``promote`` times as long as it
    ever ran returns to the first queue for one more stint (Gu et al., NSDI'19). O(jobs log jobs) per decision.
    """

    name: ClassVar[str] = "tiresias"
    summary: ClassVar[str] = "least attained device-time first, in queues; needs no durations"
    paper: ClassVar[str] = "Gu et al., NSDI'19 (2D-LAS)"

    def __init__(
        self,
        limits: tuple[float, ...] = LIMITS,
        promote: Annotated[
            float, Parameter("a job returns to the first queue once it waited so many times what it ran", least=1.0)
        ] = 8.0,
    ) -> None:
        self.limits = np.asarray(limits)
        self.promote = promote

    def allocate(self, view: KindView) -> Allocation:
        queue = self.queues(view)
        widths = serve_in_order(view, lambda: view.order_by_priority(queue, view.submitted))
        return Allocation(widths, self._next_move(view, queue, widths))

    def queues(self, view: KindView) -> Ints:
        """0 is served first."""
        by_service = np.searchsorted(self.limits, view.attained + _ROUNDING, side="right")
        return np.where(self._promoted(view), 0, by_service)

    def _promoted(self, view: KindView) -> Bools:
        stint = np.where(view.width > 0, view.now - view.stint_since, 0.0)
        waited = np.where(view.width > 0, view.waited_before, view.waiting)
        ran_before = view.executed - stint
        still_fresh = stint * view.width + _ROUNDING < self.limits[0]
        return np.asarray((ran_before > 0) & (waited + _ROUNDING >= self.promote * ran_before) & still_fresh)

    def _next_move(self, view: KindView, queue: Ints, widths: Ints) -> float:
        """When the first job falls to the next queue, or returns to the first, if nothing else happens."""
        stint = np.where(view.width > 0, (view.now - view.stint_since) * view.width, 0.0)
        served = np.where(self._promoted(view), stint, view.attained)
        ahead = np.append(self.limits, math.inf)[queue] - served
        with np.errstate(divide="ignore", invalid="ignore"):
            falls = np.where(widths > 0, view.now + ahead / widths, math.inf)
        waits = (widths == 0) & (view.executed > 0)
        since = np.where(view.width > 0, view.now, view.stint_since)
        returns = np.where(waits, since + self.promote * view.executed, math.inf)
        moves = np.concatenate((falls, returns))
        return float(moves.min(initial=math.inf, where=moves > view.now + _ROUNDING))
