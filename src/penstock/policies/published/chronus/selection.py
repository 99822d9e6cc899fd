"""Who runs in the lease that begins, and which of its deadlines each soft job is to keep: a mixed-integer program.

As in the paper: X[j,k] says that job j runs in lease k, S[j,v] that it keeps its deadline v; every accepted job keeps
one, gets the leases it needs before it, and the devices of a lease suffice. The objective is the value kept, and with
little weight the use of the first lease: as much as possible, or as little as possible while somebody waits who has no
reservation.

Ours: leases far ahead are counted in bundles of 2, 4, 8, ... (X is then a number of leases), which makes the program as
small as the logarithm of the horizon; so what it says is a proposal. It is taken only if everybody still finds single
leases by the greedy placement, and otherwise, or if HiGHS does not prove its answer best within its limits, things stay
as they are. Without scipy the greedy placement decides alone.
"""

import importlib.util
from typing import Any, NamedTuple

import numpy as np

from penstock.policies.columns import Bools, Floats, Ints
from penstock.policies.kind_view import KindView
from penstock.policies.published.chronus.leases import LeaseNeeds
from penstock.policies.published.chronus.reservations import NOBODY, Reservations

MOST_ROWS = 300
"""More accepted jobs than this are not put into one program; those with the least time left go in."""
PATIENCE_S = 1.0
_GAP = 0.005
_FIRST_LEASE_WEIGHT = 0.01


class Bundles(NamedTuple):
    """Leases counted together: bundle b is made of the leases from ``first[b]`` to ``first[b + 1]``."""

    first: Ints

    @classmethod
    def of(cls, leases: int) -> "Bundles":
        edges = [0, 1]
        while edges[-1] < leases:
            edges.append(edges[-1] + max(1, edges[-1] // 2))
        return cls(np.minimum(np.array(edges), max(leases, 1)))

    @property
    def sizes(self) -> Ints:
        return np.diff(self.first)

    def inside(self, until: int) -> Ints:
        """How many leases of each bundle end before lease ``until``."""
        return np.clip(until - self.first[:-1], 0, self.sizes)


def reselected(view: KindView, needs: LeaseNeeds, kept: Reservations, *, leave_room: bool) -> Reservations:
    """The reservations as they should be from this boundary on; those at hand where nothing better is found."""
    rows = kept.rows
    if len(rows) > MOST_ROWS:
        rows = rows[np.argsort(needs.until[rows, kept.step[rows]], kind="stable")[:MOST_ROWS]]
    if len(rows) and _may_gain(view, kept, rows) and importlib.util.find_spec("scipy") is not None:
        found = _solve(view, needs, kept, np.sort(rows), leave_room=leave_room)
        if found is not None:
            return found
    return kept.afresh(view, needs, kept.step) or kept


def _may_gain(view: KindView, kept: Reservations, rows: Ints) -> bool:
    """Whether anybody has reserved less than its full value."""
    return bool((view.step_value[rows, kept.step[rows]] < 1.0).any())


class _Program(NamedTuple):
    """One column per row and bundle, then one per row and deadline it could keep."""

    rows: Ints
    choice_row: Ints
    choice_step: Ints
    bundles: Bundles


def _solve(
    view: KindView, needs: LeaseNeeds, kept: Reservations, rows: Ints, *, leave_room: bool
) -> Reservations | None:
    bundles = Bundles.of(int(needs.until[rows].max(initial=1)))
    places, steps = np.nonzero(needs.until[rows] > 0)
    better = steps <= kept.step[rows][places]
    program = _Program(rows, places[better], steps[better], bundles)
    answer = _optimum(view, needs, kept, program, leave_room=leave_room)
    if answer is None:
        return None
    chosen, first = answer
    step = kept.step.copy()
    step[rows] = chosen
    begins = np.zeros(len(view), dtype=bool)
    begins[rows] = first
    return kept.afresh(view, needs, step, begins) or kept.afresh(view, needs, step)


def _optimum(
    view: KindView, needs: LeaseNeeds, kept: Reservations, program: _Program, *, leave_room: bool
) -> tuple[Ints, Bools] | None:
    """The step of every row and whether it holds lease 0, if a best answer was found in time."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    rows, count, choices = program.rows, len(program.bundles.sizes), len(program.choice_row)
    uses, width = len(rows) * count, view.requested[rows].astype(float)
    weight = np.zeros(uses + choices)
    weight[:uses:count] = width / max(view.capacity, 1) * (_FIRST_LEASE_WEIGHT if leave_room else -_FIRST_LEASE_WEIGHT)
    weight[uses:] = -view.step_value[rows[program.choice_row], program.choice_step]
    most = np.concatenate((np.tile(program.bundles.sizes, len(rows)), np.ones(choices)))
    found = milp(
        weight, integrality=np.ones(uses + choices), bounds=Bounds(0.0, most),
        constraints=[LinearConstraint(*each) for each in _constraints(view, needs, kept, program)],
        options={"time_limit": PATIENCE_S, "mip_rel_gap": _GAP, "node_limit": 200},
    )  # fmt: skip
    if found.status != 0 or found.x is None:
        return None
    used = np.round(found.x[:uses]).reshape(len(rows), count)
    kept_step = np.full(len(rows), NOBODY)
    picked = np.round(found.x[uses:]) > 0
    kept_step[program.choice_row[picked]] = program.choice_step[picked]
    return kept_step, used[:, 0] > 0


def _constraints(
    view: KindView, needs: LeaseNeeds, kept: Reservations, program: _Program
) -> list[tuple[Any, Any, Any]]:
    """One deadline each; enough leases before it; none after it; devices of every bundle."""
    from scipy.sparse import coo_array

    rows, bundles = program.rows, program.bundles
    count, choices = len(bundles.sizes), len(program.choice_row)
    uses = len(rows) * count
    shape_width, choice_column = uses + choices, uses + np.arange(choices)
    one = coo_array((np.ones(choices), (program.choice_row, choice_column)), shape=(len(rows), shape_width))
    column, of_row = np.arange(uses), np.repeat(np.arange(len(rows)), count)
    worth = np.repeat(needs.later_s[rows], count)
    worth[::count] = needs.first_s[rows]
    enough = coo_array(
        (
            np.concatenate((worth, -needs.cautious_s[rows][program.choice_row])),
            (np.concatenate((of_row, program.choice_row)), np.concatenate((column, choice_column))),
        ),
        shape=(len(rows), shape_width),
    )
    inside = np.array(
        [bundles.inside(int(each)) for each in needs.until[rows[program.choice_row], program.choice_step]]
    )
    late_rows = (program.choice_row[:, None] * count + np.arange(count)).ravel()
    late_columns = np.repeat(choice_column, count)
    none_after = coo_array(
        (
            np.concatenate((np.ones(uses), -inside.astype(float).ravel())),
            (np.concatenate((column, late_rows)), np.concatenate((column, late_columns))),
        ),
        shape=(uses, shape_width),
    )
    devices = coo_array(
        (np.repeat(view.requested[rows].astype(float), count), (column % count, column)), shape=(count, shape_width)
    )
    return [
        (one, 1.0, 1.0),
        (enough, 0.0, np.inf),
        (none_after, -np.inf, 0.0),
        (devices, -np.inf, _devices(view, kept, rows, bundles)),
    ]


def _devices(view: KindView, kept: Reservations, rows: Ints, bundles: Bundles) -> Floats:
    """Device-leases of each bundle, less those of rows that are not in the program."""
    free = np.zeros(int(bundles.first[-1]))
    known = min(len(free), len(kept.free))
    free[:known] = (kept.free + (kept.taken[rows] * view.requested[rows][:, None]).sum(axis=0))[:known]
    return np.add.reduceat(free, bundles.first[:-1])
