"""Jobs that cannot resume keep what they hold: the policy decides about the others, on the devices that are left.

Whoever begins again when its devices change is not resized, moved or stopped for work that nobody was promised. So
under every policy such jobs are taken out of the view, with their devices, until their projected ends. Only where a
promise to somebody else would be missed by that do they come back into the view, those with the least behind them
first, and no more of them than it takes.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.core import Quote
from penstock.policies.base import Admission, Assignment, Policy
from penstock.policies.columns import KEPT_WITHIN_S, Floats, Ints, Standing
from penstock.policies.guards.settled import SettledRows, settle, settled_quotes
from penstock.policies.view import View


def allocate_undisturbed(policy: Policy, view: View) -> Assignment:
    """What the policy decides when no job that cannot resume is disturbed without need.

    As many times as it takes doublings to count such jobs if a promise is in danger, else once.
    """
    held = undisturbed(view)
    if not len(held.rows):
        return policy.allocate(view)
    tried: list[Assignment] = []
    for kept in _choices(view, held):
        tried.append(settle(view, kept, policy.allocate))
        if not len(tried[-1].late):
            break
    return next(decided for decided in tried if decided.keeps_promises_of(tried[-1]))


def admit_undisturbed(admission: Admission[View], view: View, rows: Ints) -> Sequence[Quote | None]:
    """The answers when promised jobs that cannot resume keep what they hold."""
    held = undisturbed(view)
    kept = held.only(view.standing[held.rows] == Standing.PROMISED)
    if not len(kept.rows):
        return admission.admit(view, rows)
    return settled_quotes(view, kept, admission.admit(view.without(kept), kept.places_of(rows)))


def undisturbed(view: View) -> SettledRows:
    """Who holds devices and would begin again on others; promised ones only if they are in time as they are."""
    rows = (~view.resumable & (view.width > 0)).nonzero()[0]
    if not len(rows):
        return SettledRows.none()
    held = SettledRows.as_they_are(view, rows, ends_as_they_are(view, rows))
    limits = view.deadline[rows] - view.overhead.every_round_s + KEPT_WITHIN_S
    return held.only((view.standing[rows] != Standing.PROMISED) | (held.ends <= limits))


def ends_as_they_are(view: View, rows: Ints) -> Floats:
    """On certain terms: the slowest speed on at least so many devices, with a decision in every slot."""
    rates = np.array([_slowest_rate(view, row) for row in rows.tolist()]) * view.working_share(view.slot)
    return np.asarray(view.now + view.still_s[rows] + view.remaining[rows] / rates)


def _slowest_rate(view: View, row: int) -> float:
    options, width = view.by_kind[int(view.bound[row])], int(view.width[row])
    depth = int(options.depth[row])
    rates = options.rates[row, :depth] * (1.0 - options.doubts[row, :depth])
    enough = options.levels[row, :depth] >= width
    return float(rates[enough].min() if enough.any() else rates[-1])


def _choices(view: View, held: SettledRows) -> Iterator[SettledRows]:
    """All of them, then one less, two, four, …; promised ones stay."""
    promised = view.standing[held.rows] == Standing.PROMISED
    order = np.lexsort((view.executed[held.rows], promised))
    free = len(order) - int(np.count_nonzero(promised))
    count = 0
    while True:
        kept = np.zeros(len(order), dtype=bool)
        kept[order[count:]] = True
        yield held.only(kept)
        if count == free:
            return
        count = min(max(2 * count, 1), free)
