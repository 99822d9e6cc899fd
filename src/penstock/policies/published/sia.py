"""Sia: one option for every job by an integer program, round after round."""

import heapq
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from penstock.core import require
from penstock.policies.columns import Bools, Floats, Ints
from penstock.policies.greedy import by_priority
from penstock.policies.parameters import Parameter
from penstock.policies.published.rounds import (
    Holding,
    RoundPolicy,
    Starts,
    change_factor,
    chosen,
    devices_of,
    in_reach,
    least_counts,
    least_starts,
    real_options,
)
from penstock.policies.view import View

CHANGE_COST = 0.01
_GAP = 5e-3
"""Of the best sum of gains that there could be: the search ends when it is this close."""
_MOST_NODES = 16
"""Linear programs per decision: what was found by then is taken. With a limit in seconds it would depend on the clock.
"""
_WHOLE = 1e-6


class Sia(RoundPolicy):
    """Every round, of all options of all jobs the set with the most goodput, where each job's own scale is the unit.

    An option's goodput counts in units of the job's worst option, times the fewest devices it can use; one other than
    the present loses what a change costs. With ``power`` p below 0 the program minimises the sum of goodput^p over the
    jobs that run and of ``waiting`` for each that does not, which is more than any job that runs adds; 0.01 for every
    change besides. A job starts on the fewest devices and at most doubles in a round (Jayaram Subramanya et al.,
    SOSP'23). Goodput is the rate of the job's curve: of samples that count, where its batch follows its devices.
    Options are those of the curve, not only powers of two and whole nodes; jobs of higher priority are placed first.

    Per round an integer program of jobs x options variables by branch and bound, at most 16 linear programs; in between
    O(jobs log jobs).
    """

    name: ClassVar[str] = "sia"
    summary: ClassVar[str] = "the options of all jobs with the most goodput by an integer program, in rounds; elastic"
    paper: ClassVar[str] = "Jayaram Subramanya et al., SOSP'23"

    def __init__(
        self,
        power: Annotated[float, Parameter("p: the lower, the fairer", least=-10.0, most=-0.01)] = -0.5,
        waiting: Annotated[float, Parameter("what a job that waits costs; one that runs at most 1", least=1.0)] = 1.1,
        round_s: Annotated[float, Parameter("how long devices stay as they were given out", least=1.0)] = 60.0,
    ) -> None:
        self.power = power
        self.waiting = waiting
        self.round_s = round_s
        require("scipy.optimize", extra="optimum", why="the policy sia")

    def starts(self, view: View) -> Starts:
        return least_starts(view)

    def begin(self, view: View, remembered: Floats) -> Holding:
        del remembered
        gains, open_to = self.waiting - self.costs(view), in_reach(view)
        options, free = np.full(len(view), -1), view.capacity.copy()
        for rows in by_priority(view, view.sequence.argsort()):
            options[rows] = _most_gain(
                gains[rows], open_to[rows], view.option_count[rows], view.option_kind, free
            )  # fmt: skip
            free -= devices_of(view, rows, options[rows])
        return chosen(view, options)

    def costs(self, view: View) -> Floats:
        """(rows, options) what each option adds to the sum that is minimised."""
        rates, real = view.option_rate, real_options(view)
        worst, fewest = _least(rates, real), _least(least_counts(view), real)
        goodput = np.where(real, rates / worst * fewest, 1.0)
        changes = np.arange(rates.shape[1]) != view.held[:, None]
        goodput *= np.where(changes, change_factor(view)[:, None], 1.0)
        return np.asarray(goodput**self.power + np.where(changes, CHANGE_COST, 0.0))


def _least(values: Floats | Ints, real: Bools) -> Floats:
    """The least of each row, of real options; 1 where it has none."""
    least = np.where(real, values, np.inf).min(axis=1, initial=np.inf, keepdims=True)
    return np.where(np.isfinite(least), least, 1.0)


def _most_gain(gains: Floats, able: Bools, counts: Ints, kinds: Ints, free: Ints) -> Ints:
    """The option of every row, at most one, with which the sum of gains is most; -1 for none.

    By branch and bound, nearly exact: a relaxed program divides hardly more rows than there are kinds. (The integer
    solver of HiGHS prints into the program's output where it repairs a solution: ERGO-Code/HiGHS issue 2783.)
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, vstack

    row, option = np.nonzero(able & (gains > 0))
    choice = _Choices(row, gains[row, option], counts[row, option], kinds[option], free)
    column, many = np.arange(len(row)), len(row)
    once = csr_array((np.ones(many), (row, column)), (len(gains), many))
    devices = csr_array((choice.devices.astype(float), (choice.kind, column)), (len(free), many))
    matrix, most = vstack((once, devices)), np.concatenate((np.ones(len(gains)), free.astype(float)))
    best = choice.taken_in_order(column[:0])
    open_ends = [(-np.inf, 0, np.zeros(many), np.ones(many))] if many else []
    for node in range(_MOST_NODES):
        if not open_ends or -open_ends[0][0] <= choice.sum(best) * (1.0 + _GAP):
            break
        _, _, low, high = heapq.heappop(open_ends)
        found = linprog(-choice.gain, A_ub=matrix, b_ub=most, bounds=np.column_stack((low, high)))
        if found.x is None:
            continue
        rounded = choice.taken_in_order(np.argsort(-found.x, kind="stable")[: np.count_nonzero(found.x > _WHOLE)])
        best = max(best, rounded, key=choice.sum)
        divided = np.minimum(found.x, 1.0 - found.x)
        if divided.max() > _WHOLE:
            part = (column == divided.argmax()).astype(float)
            heapq.heappush(open_ends, (found.fun, 2 * node + 1, np.maximum(low, part), high))
            heapq.heappush(open_ends, (found.fun, 2 * node + 2, low, np.minimum(high, 1.0 - part)))
    options = np.full(len(gains), -1)
    options[row[best]] = option[best]
    return options


class _Choices(NamedTuple):
    """What may be chosen: its row, gain, devices and kind; and the devices that are free."""

    row: Ints
    gain: Floats
    devices: Ints
    kind: Ints
    free: Ints

    def sum(self, taken: Ints) -> float:
        return float(self.gain[taken].sum())

    def taken_in_order(self, first: Ints) -> Ints:
        """As far as devices go, those that come ``first``, then of the other rows those that gain most."""
        rest = np.argsort(-self.gain, kind="stable")
        free, served, taken = self.free.copy(), set[int](), list[int]()
        for at in (*first.tolist(), *rest.tolist()):
            if self.row[at] not in served and self.devices[at] <= free[self.kind[at]]:
                served.add(self.row[at])
                free[self.kind[at]] -= self.devices[at]
                taken.append(at)
        return np.array(taken, dtype=np.int64)
