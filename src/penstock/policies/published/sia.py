"""Sia: one option for every job by an integer program, round after round."""

from typing import Annotated, ClassVar

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
_MOST_NODES = 1000
"""Of the search tree: what was found by then is taken. A limit in seconds would make decisions depend on the clock."""


class Sia(RoundPolicy):
    """Every round, of all options of all jobs the set with the most goodput, where each job's own scale is the unit.

    An option's goodput counts in units of the job's worst option, times the fewest devices it can use; one other than
    the present loses what a change costs. With ``power`` p below 0 the program minimises the sum of goodput^p over the
    jobs that run and of ``waiting`` for each that does not, which is more than any job that runs adds; 0.01 for every
    change besides. A job starts on the fewest devices and at most doubles in a round (Jayaram Subramanya et al.,
    SOSP'23). Goodput is the rate of the job's curve: of samples that count, where its batch follows its devices.
    Options are those of the curve, not only powers of two and whole nodes; jobs of higher priority are placed first.

    Per round one integer program of jobs x options variables, exact in all but degenerate cases; in between
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
        worst = np.where(real, rates, np.inf).min(axis=1, initial=np.inf, keepdims=True)
        fewest = np.where(real, least_counts(view), np.inf).min(axis=1, initial=np.inf, keepdims=True)
        goodput = np.where(real, rates / worst * fewest, 1.0)
        changes = np.arange(rates.shape[1]) != view.held[:, None]
        goodput *= np.where(changes, change_factor(view)[:, None], 1.0)
        return np.asarray(goodput**self.power + np.where(changes, CHANGE_COST, 0.0))


def _most_gain(gains: Floats, able: Bools, counts: Ints, kinds: Ints, free: Ints) -> Ints:
    """The option of every row, at most one, with which the sum of gains is most; -1 for none."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    row, option = np.nonzero(able & (gains > 0))
    options = np.full(len(gains), -1)
    if not len(row):
        return options
    column, many = np.arange(len(row)), len(row)
    once = csr_array((np.ones(many), (row, column)), (len(gains), many))
    devices = csr_array((counts[row, option].astype(float), (kinds[option], column)), (len(free), many))
    found = milp(
        -gains[row, option], integrality=np.ones(many), bounds=Bounds(0.0, 1.0),
        constraints=[LinearConstraint(once, -np.inf, 1.0), LinearConstraint(devices, -np.inf, free.astype(float))],
        options={"node_limit": _MOST_NODES},
    )  # fmt: skip
    if found.x is not None:
        picked = found.x > 0.5
        options[row[picked]] = option[picked]
    return options
