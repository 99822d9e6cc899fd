"""Who has reserved which leases, and places for more.

A reservation takes the latest leases before a deadline in which the devices of a job are free, so that the near future
stays free for whoever comes later. When somebody finds no place, everybody is placed afresh: wide jobs first, then
those with the fewest leases to spare. Reservations live in the plans of the rows, so nothing else is remembered.
"""

from dataclasses import dataclass, replace

import numpy as np

from penstock.policies.base import Plans
from penstock.policies.columns import PLAN_STEPS, Bools, Floats, Ints
from penstock.policies.kind_view import KindView
from penstock.policies.published.chronus.leases import LeaseClock, LeaseNeeds
from penstock.tools import compiled

NOBODY = -1
"""The step of a row that has no reservation."""


@dataclass(frozen=True, slots=True, eq=False)
class Reservations:
    """``taken[i, k]``: row i holds its devices in lease k; ``step[i]``: which of its deadlines that keeps."""

    taken: Bools
    step: Ints
    free: Ints
    """Devices that nobody has reserved, in each lease."""

    @classmethod
    def kept(cls, view: KindView, needs: LeaseNeeds) -> "Reservations":
        """Those made before, without those that no longer keep any deadline."""
        count = int(needs.until.max(initial=0)) + 1
        taken = leases_of_plans(view.plan_at, view.plan_width, needs.clock.first, needs.clock.length, count)
        step = kept_steps(taken, needs.seconds, needs.first_s, needs.later_s, needs.until)
        free = free_leases(taken, step, view.requested, view.capacity)
        if free.min(initial=0) < 0:
            return cls.none(view, count)
        return cls(taken, step, free)

    @classmethod
    def none(cls, view: KindView, count: int) -> "Reservations":
        rows = len(view)
        return cls(np.zeros((rows, count), dtype=bool), np.full(rows, NOBODY), np.full(count, view.capacity))

    @property
    def rows(self) -> Ints:
        return np.flatnonzero(self.step != NOBODY)

    @property
    def now(self) -> Bools:
        """Who holds its devices in lease 0."""
        return np.asarray(self.taken[:, 0])

    def with_row(self, view: KindView, needs: LeaseNeeds, row: int, steps: Ints) -> "Reservations | None":
        """One more row, by the first of these ``steps`` that it finds a place for beside the others."""
        for step in steps.tolist():
            leases = latest_leases(
                self.free, int(view.requested[row]), float(needs.cautious_s[row]), float(needs.first_s[row]),
                float(needs.later_s[row]), int(needs.until[row, step]),
            )  # fmt: skip
            if leases.any():
                taken, chosen = self.taken.copy(), self.step.copy()
                taken[row], chosen[row] = leases, step
                return Reservations(taken, chosen, self.free - leases * int(view.requested[row]))
        return None

    def afresh(
        self, view: KindView, needs: LeaseNeeds, step: Ints, first: Bools | None = None
    ) -> "Reservations | None":
        """Everybody placed again by the given steps, those in ``first`` with lease 0; None if somebody finds none."""
        rows = np.flatnonzero(step != NOBODY)
        until = needs.until[rows, step[rows]]
        spare = until - np.ceil(needs.cautious_s[rows] / np.maximum(needs.later_s[rows], 1e-9))
        order = rows[np.lexsort((view.sequence[rows], -until, spare, -view.requested[rows]))]
        begins = np.zeros(len(view), dtype=bool) if first is None else first
        taken, free, fits = place_all(
            order, view.capacity, len(self.free), begins, view.requested, needs.cautious_s, needs.first_s,
            needs.later_s, needs.until, step,
        )  # fmt: skip
        return Reservations(taken, step, free) if fits else None

    def joined(self, view: KindView, needs: LeaseNeeds, row: int) -> "Reservations | None":
        """One more row that has to be done by its first deadline, if need be by placing everybody afresh."""
        beside = self.with_row(view, needs, row, np.zeros(1, dtype=np.int64))
        if beside is not None or not _could_fit(view, needs, row):
            return beside
        step = self.step.copy()
        step[row] = 0
        return self.afresh(view, needs, step)

    def without_row(self, view: KindView, row: int) -> "Reservations":
        taken, step = self.taken.copy(), self.step.copy()
        taken[row], step[row] = False, NOBODY
        return replace(self, taken=taken, step=step, free=self.free + self.taken[row] * int(view.requested[row]))

    def plans(self, view: KindView, clock: LeaseClock) -> Plans:
        plans = Plans.none(len(view))
        write_plans(self.rows, self.taken, view.requested, clock.first, clock.length, view.now, plans.at, plans.width)
        return plans

    def end_of(self, row: int, clock: LeaseClock) -> float:
        """When the last lease of a row ends."""
        return float((clock.first + int(np.flatnonzero(self.taken[row]).max(initial=0)) + 1) * clock.length)


def _could_fit(view: KindView, needs: LeaseNeeds, row: int) -> bool:
    until = int(needs.until[row, 0])
    most = float(needs.first_s[row]) + (until - 1) * float(needs.later_s[row])
    return until > 0 and view.requested[row] <= view.capacity and most >= needs.cautious_s[row]


@compiled
def leases_of_plans(plan_at: Floats, plan_width: Ints, first: int, length: float, count: int) -> Bools:
    """Which leases the plans cover, from lease 0 on: a plan may begin within a lease and ends with one."""
    taken = np.zeros((len(plan_at), count), dtype=np.bool_)
    for row in range(len(plan_at)):
        for step in range(PLAN_STEPS - 1):
            if not np.isfinite(plan_at[row, step + 1]):
                break
            if plan_width[row, step] > 0:
                begin = int(np.floor(plan_at[row, step] / length + 1e-9)) - first
                end = int(np.floor(plan_at[row, step + 1] / length + 1e-9)) - first
                for k in range(max(begin, 0), min(end, count)):
                    taken[row, k] = True
    return taken


@compiled
def kept_steps(taken: Bools, seconds: Floats, first_s: Floats, later_s: Floats, until: Ints) -> Ints:
    """The first deadline that the leases of each row keep; NOBODY without any."""
    steps = np.full(len(taken), -1, dtype=np.int64)
    for row in range(len(taken)):
        left = seconds[row]
        for k in range(taken.shape[1]):
            if taken[row, k]:
                left -= first_s[row] if k == 0 else later_s[row]
                if left <= 1e-6:
                    for step in range(until.shape[1]):
                        if until[row, step] > k:
                            steps[row] = step
                            break
                    break
    return steps


@compiled
def free_leases(taken: Bools, step: Ints, devices: Ints, capacity: int) -> Ints:
    """Devices left in each lease; rows that keep nothing give their leases back."""
    free = np.full(taken.shape[1], capacity)
    for row in range(len(taken)):
        if step[row] < 0:
            taken[row] = False
            continue
        for k in range(taken.shape[1]):
            if taken[row, k]:
                free[k] -= devices[row]
    return free


@compiled
def latest_leases(free: Ints, devices: int, seconds: float, first_s: float, later_s: float, until: int) -> Bools:
    """The latest leases before ``until`` that together are worth ``seconds``; none if there are too few.

    A plan has room for a few stretches of leases: whoever would need more of them finds no place.
    """
    taken = np.zeros(len(free), dtype=np.bool_)
    left, stretches, was_taken = seconds, 0, False
    for k in range(min(until, len(free)) - 1, -1, -1):
        fits = free[k] >= devices and (later_s if k > 0 else first_s) > 0.0
        if fits:
            stretches += 0 if was_taken else 1
            if 2 * stretches > PLAN_STEPS - 2:
                break
            taken[k] = True
            left -= first_s if k == 0 else later_s
            if left <= 1e-6:
                return taken
        was_taken = fits
    taken[:] = False
    return taken


@compiled
def place_all(
    order: Ints, capacity: int, count: int, begins: Bools, devices: Ints, cautious_s: Floats, first_s: Floats,
    later_s: Floats, until: Ints, step: Ints,
) -> tuple[Bools, Ints, bool]:  # fmt: skip
    """Reservations for all rows in ``order`` on an empty cluster, and whether everybody found a place."""
    taken = np.zeros((len(devices), count), dtype=np.bool_)
    free = np.full(count, capacity)
    for row in order:
        if begins[row]:
            free[0] -= devices[row]
    if free[0] < 0:
        return taken, free, False
    for row in order:
        wanted = cautious_s[row]
        if begins[row]:
            free[0] += devices[row]
            wanted -= first_s[row]
        leases = np.zeros(count, dtype=np.bool_)
        if wanted > 1e-6:
            before = free[0]
            if begins[row]:
                free[0] = 0
            leases = latest_leases(free, devices[row], wanted, first_s[row], later_s[row], until[row, step[row]])
            free[0] = before
            if not leases.any():
                return taken, free, False
        if begins[row]:
            leases[0] = True
        taken[row] = leases
        for k in range(count):
            if leases[k]:
                free[k] -= devices[row]
    return taken, free, True


@compiled
def write_plans(
    rows: Ints, taken: Bools, devices: Ints, first: int, length: float, now: float, at: Floats, width: Ints
) -> None:  # fmt: skip
    """Each stretch of leases as two steps of a plan, its beginning and its end."""
    for row in rows:
        step, was_taken = 0, False
        for k in range(taken.shape[1]):
            if taken[row, k] != was_taken:
                at[row, step] = max((first + k) * length, now)
                width[row, step] = devices[row] if taken[row, k] else 0
                was_taken, step = taken[row, k], step + 1
        if was_taken:
            at[row, step], width[row, step] = (first + taken.shape[1]) * length, 0
