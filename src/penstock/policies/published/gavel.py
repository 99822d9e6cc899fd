"""Gavel: shares of time on every kind of device by a linear program, carried out in rounds."""

from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from penstock.core import require
from penstock.policies.columns import PLAN_STEPS, ROUNDING_S, Bools, Floats, Ints
from penstock.policies.greedy import by_priority
from penstock.policies.parameters import Parameter
from penstock.policies.published.rounds import Holding, RoundPolicy, Starts
from penstock.policies.view import View

DOLLARS_PER_HOUR = {"V100": 2.48, "P100": 1.46, "K80": 0.45}
"""Of Google Cloud in 2020, on demand; another kind counts like the dearest of these."""
_EXACT = 0.01
"""A finish-time fairness is found up to this share of it."""
_LEAST_SHARE = 1e-6
_SLACK = 1e-6


class Gavel(RoundPolicy):
    """Every kind of device is divided by time, so that an objective is best; rounds give every job its part.

    ``X[job, kind]`` is the share of its time that a job spends on a kind, on the devices it asks for: it adds up to at
    most 1 over kinds, and over jobs to at most the devices there are. ``max-min``: the least progress is most, beside a
    job's progress on an equal part of all kinds, counted per device. ``finish-time``: the worst finish time over that
    on 1/N of the cluster is least. ``makespan``: the last job is done first. ``cost``: most progress per dollar, summed
    over jobs. What the objective leaves open goes where it gives most progress.

    In every round the jobs and kinds that are due first go first. A pair that was served is due again one round over X
    later, which orders pairs as the paper's priority does, X over the time received; a job keeps its devices if it is
    served on the same kind again. What is left over goes to jobs that still wait, by arrival (Narayanan et al.,
    OSDI'20). Space sharing is left out; jobs of higher priority go first.

    Per round two linear programs of jobs x kinds variables (at most twenty for finish times), and
    O(jobs x kinds log jobs); in between O(jobs log jobs).
    """

    name: ClassVar[str] = "gavel"
    summary: ClassVar[str] = "shares of time on every kind by a linear program, in rounds; rigid"
    paper: ClassVar[str] = "Narayanan et al., OSDI'20"

    def __init__(
        self,
        objective: Annotated[
            Literal["max-min", "finish-time", "makespan", "cost"], Parameter("what the linear program is after")
        ] = "max-min",
        round_s: Annotated[float, Parameter("how long devices stay as they were given out", least=1.0)] = 360.0,
    ) -> None:
        self.objective = objective
        self.round_s = round_s
        require("scipy.optimize", extra="optimum", why="the policy gavel")

    def starts(self, view: View) -> Starts:
        able = [(each.depth > 0) & (each.requested <= view.capacity[k]) for k, each in enumerate(view.by_kind)]
        counts = [np.where(fits, each.requested, 0) for fits, each in zip(able, view.by_kind, strict=True)]
        return Starts(np.stack(counts, axis=1), np.stack([each.requested_rate for each in view.by_kind], axis=1))

    def begin(self, view: View, remembered: Floats) -> Holding:
        starts = self.starts(view)
        shares = self.shares(view, starts)
        given = shares > _LEAST_SHARE
        stride = self.round_s / np.maximum(shares, _LEAST_SHARE)
        kept = min(len(view.kinds), PLAN_STEPS - 1)
        due = np.full(shares.shape, np.inf)
        due[:, :kept] = remembered[:, :kept]
        due = np.where(np.isfinite(due), np.clip(due, view.now - stride, view.now + stride), view.now + stride / 2)
        holding = _by_due(view, starts, np.where(given, due, np.inf))
        served = (holding.widths > 0)[:, None] & (holding.kinds[:, None] == np.arange(len(view.kinds)))
        remembered[:, :kept] = np.where(given, due + np.where(served, stride, 0.0), np.inf)[:, :kept]
        return holding

    def shares(self, view: View, starts: Starts) -> Floats:
        """X: (rows, kinds) shares of the time."""
        rates = np.where(starts.counts > 0, starts.rates, 0.0)
        able = np.flatnonzero(rates.max(axis=1, initial=0.0) > 0)
        shares = np.zeros(rates.shape)
        if len(able):
            program = _Program.of(rates[able], starts.counts[able], view.capacity)
            shares[able] = _OBJECTIVES[self.objective](program, view, able)
        return shares


def _by_due(view: View, starts: Starts, due: Floats) -> Holding:
    """The pairs of row and kind that are due first, as far as devices go, each row on one kind."""
    holding, free = Holding.nothing(view), view.capacity.copy()
    for rows in by_priority(view, view.sequence.argsort()):
        order = np.argsort(due[rows], axis=None, kind="stable")
        for place, kind in zip(*np.unravel_index(order, due[rows].shape), strict=True):
            row = int(rows[place])
            count = int(starts.counts[row, kind])
            if np.isfinite(due[row, kind]) and not holding.widths[row] and 0 < count <= free[kind]:
                holding.give(row, int(kind), count)
                free[kind] -= count
    return holding


class _Program(NamedTuple):
    """Rates and devices of each pair of row and kind (0 where a row cannot run), and the devices of each kind."""

    rates: Floats
    counts: Ints
    capacity: Ints
    pairs: Bools
    limits: Any
    """The matrix of "at most all of its time" per row and "at most all devices" per kind, over the pairs."""

    @classmethod
    def of(cls, rates: Floats, counts: Ints, capacity: Ints) -> "_Program":
        from scipy.sparse import csr_array

        row, kind = np.nonzero(rates)
        column = np.arange(len(row))
        values = np.concatenate((np.ones(len(row)), counts[row, kind]))
        places = (np.concatenate((row, len(rates) + kind)), np.concatenate((column, column)))
        limits = csr_array((values, places), shape=(len(rates) + len(capacity), len(row)))
        return cls(rates, counts, capacity, rates > 0, limits)

    def on_equal_part(self) -> Floats:
        """Rate of each row that spends its time on the kinds in proportion to their devices."""
        return np.asarray(self.rates @ (self.capacity / max(int(self.capacity.sum()), 1)))

    def isolated(self) -> Floats:
        """Rate of each row with 1/N of every kind to itself."""
        part = self.capacity / len(self.rates) / np.maximum(self.counts, 1) * self.pairs
        part /= np.maximum(part.sum(axis=1, keepdims=True), 1.0)
        return np.asarray((self.rates * part).sum(axis=1))

    def most_of(self, worth: Floats, least: Floats | None = None) -> Floats:
        """X with the largest sum of ``worth`` x X; each row has at least the ``least`` share of its best rate."""
        least = np.zeros(len(self.rates)) if least is None else least
        shares = np.zeros(self.rates.shape)
        shares[self.pairs] = np.clip(self._solve(-worth[self.pairs], -least), 0.0, 1.0)
        return shares

    def evenly(self, needs: Floats) -> tuple[float, Floats]:
        """The most z for which each row's rate can be z times what it needs, and an X with that."""
        needs = needs / self.rates.max(axis=1)
        scale = float(needs.max())
        needs = needs / scale
        found = self._solve(np.append(np.zeros(self.limits.shape[1]), -1.0), np.zeros(len(needs)), needs)
        most = max(float(found[-1]), 0.0)
        return most / scale, self.most_of(self.relative, most * (1.0 - _SLACK) * needs)

    @property
    def relative(self) -> Floats:
        """Rates as shares of each row's best."""
        return np.asarray(self.rates / self.rates.max(axis=1, keepdims=True))

    def _solve(self, cost: Floats, most: Floats, needs: Floats | None = None) -> Floats:
        """The least ``cost`` x (X, z), where z times ``needs`` minus each row's relative rate is at ``most`` that."""
        from scipy.optimize import linprog
        from scipy.sparse import csr_array, hstack, vstack

        row, kind = np.nonzero(self.pairs)
        column = np.arange(len(row))
        matrix = vstack((self.limits, csr_array((-self.relative[row, kind], (row, column)), (len(most), len(row)))))
        if needs is not None:
            of_z = np.concatenate((np.zeros(self.limits.shape[0]), needs))
            matrix = hstack((matrix, csr_array(of_z[:, None])))
        bounds = np.concatenate((np.ones(len(self.rates)), self.capacity.astype(float), most))
        found = linprog(cost, A_ub=matrix, b_ub=bounds)
        best: Floats = np.zeros(len(cost)) if found.x is None else found.x
        return best


def _max_min(program: _Program, _view: View, _rows: Ints) -> Floats:
    return program.evenly(program.on_equal_part() / program.counts.max(axis=1))[1]


def _makespan(program: _Program, view: View, rows: Ints) -> Floats:
    return program.evenly(np.maximum(view.remaining[rows], ROUNDING_S))[1]


def _finish_time(program: _Program, view: View, rows: Ints) -> Floats:
    """By bisection over the worst finish time beside that on 1/N, between what is past and what 1/N would give."""
    elapsed, left = view.now - view.submitted[rows], np.maximum(view.remaining[rows], ROUNDING_S)
    alone = np.maximum(view.whole[rows], left) / program.isolated()
    low, high = float((elapsed / alone).max()), float(((elapsed + left / program.isolated()) / alone).max())
    found = program.evenly(left / np.maximum(high * alone - elapsed, ROUNDING_S))[1]
    while high - low > _EXACT * high:
        middle = (low + high) / 2
        reached, shares = program.evenly(left / np.maximum(middle * alone - elapsed, ROUNDING_S))
        if reached >= 1.0 - _SLACK:
            high, found = middle, shares
        else:
            low = middle
    return found


def _cost(program: _Program, view: View, _rows: Ints) -> Floats:
    dearest = max(DOLLARS_PER_HOUR.values())
    dollars = np.array([DOLLARS_PER_HOUR.get(kind, dearest) for kind in view.kinds]) * np.maximum(program.counts, 1)
    return program.most_of(program.relative / dollars)


_OBJECTIVES = {"max-min": _max_min, "finish-time": _finish_time, "makespan": _makespan, "cost": _cost}
