"""Rows about which it is settled what they hold: the policy decides about the others, on the devices that are left."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from penstock.core import Quote
from penstock.policies.base import Assignment, PlannedQuotes, Plans
from penstock.policies.columns import Bools, Floats, Ints
from penstock.policies.view import View

Allocate = Callable[[View], Assignment]


class SettledRows(NamedTuple):
    """Rows in ascending order, what they hold from now on, and when they will have ended at the latest."""

    rows: Ints
    ends: Floats
    kinds: Ints
    widths: Ints

    @classmethod
    def none(cls) -> "SettledRows":
        return _NO_ROWS

    @classmethod
    def as_they_are(cls, view: View, rows: Ints, ends: Floats) -> "SettledRows":
        """They keep what they hold; what is out of use afterwards is never given back."""
        ends = np.where(np.isin(view.sequence[rows], list(view.staying)), np.inf, ends)
        return cls(rows, ends, view.bound[rows], view.width[rows])

    def only(self, chosen: Bools) -> "SettledRows":
        return SettledRows(self.rows[chosen], self.ends[chosen], self.kinds[chosen], self.widths[chosen])

    def without(self, rows: Ints) -> "SettledRows":
        """All but these rows of the view."""
        return self.only(~np.isin(self.rows, rows))

    def places_of(self, rows: Ints) -> Ints:
        """Where other rows are in the view without these."""
        return np.asarray(rows - np.searchsorted(self.rows, rows))

    def joined(self, other: "SettledRows") -> "SettledRows":
        """Both; what ``other`` says of a row holds."""
        mine = self.only(~np.isin(self.rows, other.rows))
        order = np.argsort(np.concatenate([mine.rows, other.rows]))
        rows, kinds = np.concatenate([mine.rows, other.rows]), np.concatenate([mine.kinds, other.kinds])
        ends, widths = np.concatenate([mine.ends, other.ends]), np.concatenate([mine.widths, other.widths])
        return SettledRows(rows[order], ends[order], kinds[order], widths[order])


_NOBODY: Ints = np.zeros(0, dtype=np.int64)
_NO_ROWS = SettledRows(_NOBODY, np.zeros(0), _NOBODY, _NOBODY)


def settle(view: View, settled: SettledRows, allocate: Allocate) -> Assignment:
    """What is decided about everybody else."""
    if not len(settled.rows):
        return allocate(view)
    return _merged(view, settled, _decided(allocate, view.without(settled)))


def settled_quotes(view: View, settled: SettledRows, quotes: Sequence[Quote | None]) -> Sequence[Quote | None]:
    """Answers of the view without the settled rows, with plans for all of them."""
    if (plans := PlannedQuotes.plans_of(quotes)) is None:
        return quotes
    left = np.delete(np.arange(len(view)), settled.rows)
    return PlannedQuotes(quotes, _merged_plans(view, settled, left, plans))


def _decided(allocate: Allocate, view: View) -> Assignment:
    if len(view):
        return allocate(view)
    return Assignment(view.bound, view.bound, tuple(np.inf for _ in view.kinds), Plans.none(0))


def _merged(view: View, settled: SettledRows, decided: Assignment) -> Assignment:
    left = np.delete(np.arange(len(view)), settled.rows)
    kinds, widths, pinned = view.bound.copy(), view.width.copy(), np.zeros(len(view), dtype=bool)
    kinds[left], widths[left] = decided.kinds, decided.widths
    kinds[settled.rows], widths[settled.rows], pinned[settled.rows] = settled.kinds, settled.widths, True
    if decided.pinned is not None:
        pinned[left] = decided.pinned
    missed = np.zeros(len(view), dtype=bool)
    missed[left[decided.late]] = True
    plans = None if decided.plans is None else _merged_plans(view, settled, left, decided.plans)
    return replace(decided, kinds=kinds, widths=widths, plans=plans, pinned=pinned, missed=missed)


def _merged_plans(view: View, settled: SettledRows, left: Ints, plans: Plans) -> Plans:
    merged = Plans.none(len(view))
    merged.at[left], merged.width[left], merged.kind[left] = plans.at, plans.width, plans.kind
    merged.kind[settled.rows] = settled.kinds
    holding = settled.only(settled.widths > 0)
    merged.at[holding.rows, 0], merged.width[holding.rows, 0] = view.now, holding.widths
    merged.at[holding.rows, 1] = holding.ends
    return merged
