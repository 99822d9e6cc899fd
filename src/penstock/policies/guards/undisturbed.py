"""Jobs that cannot resume keep what they hold: the policy decides about the others, on the devices that are left.

Whoever begins again when its devices change is not resized, moved or stopped for work that nobody was promised. So
under every policy such jobs are taken out of the view, with their devices, until their projected ends. Only where a
promise to somebody else would be missed by that do they come back into the view, those that lose the least work first,
and no more of them than it takes. A new promise is made without their devices wherever it can be.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.core import Quote, Verdict
from penstock.policies.base import Admission, Assignment, PlannedQuotes, Policy
from penstock.policies.columns import KEPT_WITHIN_S, Floats, Ints, Standing
from penstock.policies.guards.settled import SettledRows, settle, settled_quotes
from penstock.policies.view import View

_SPARED = 4
"""Of the jobs that a promise interrupts together, so many are tried to be spared one by one."""


def allocate_undisturbed(policy: Policy, view: View) -> Assignment:
    """What the policy decides when no job that cannot resume is disturbed without need.

    As many times as it takes doublings to count such jobs if a promise is in danger, and some more, else once.
    """
    held = undisturbed(view)
    if not len(held.rows):
        return policy.allocate(view)
    order, tried = _least_lost_first(view, held), list[tuple[int, Assignment]]()
    for count in _doublings(len(order)):
        tried.append((count, settle(view, held.without(order[:count]), policy.allocate)))
        if not len(tried[-1][1].late):
            break
    count, decided = next(each for each in tried if each[1].keeps_promises_of(tried[-1][1]))
    return _spared(policy, view, held, order[:count], decided)


def admit_undisturbed(admission: Admission[View], view: View, rows: Ints) -> Sequence[Quote | None]:
    """The answers when promised jobs that cannot resume keep what they hold.

    A deadline that can be promised beside all other such jobs is promised first, so that none of them is interrupted.
    """
    held = undisturbed(view)
    stays = np.isinf(held.ends) & ~np.isin(held.rows, rows)
    kept = held.only((view.standing[held.rows] == Standing.PROMISED) | stays)
    others = held.only(~np.isin(held.rows, rows))
    if len(others.rows) == len(kept.rows) or not np.isfinite(view.deadline[rows]).any():
        return _admitted(admission, view, kept, rows)
    quotes = dict(zip(rows.tolist(), spared := _admitted(admission, view, others, rows), strict=True))
    promised = np.array([row for row, quote in quotes.items() if quote and quote.verdict is Verdict.PROMISED], np.int64)
    plans = PlannedQuotes.plans_of(spared)
    if plans is None or not len(promised):
        return _admitted(admission, view, kept, rows)
    standing = view.standing.copy()
    standing[promised] = Standing.PROMISED
    if len(asked := rows[~np.isin(rows, promised)]):
        later = _admitted(admission, view.told(standing, plans), kept, asked)
        quotes |= zip(asked.tolist(), later, strict=True)
        plans = PlannedQuotes.plans_of(later) or plans
    return PlannedQuotes([quotes[row] for row in rows.tolist()], plans)


def _admitted(admission: Admission[View], view: View, kept: SettledRows, rows: Ints) -> Sequence[Quote | None]:
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
    return held.only((view.standing[rows] != Standing.PROMISED) | (held.ends <= limits) | np.isinf(held.ends))


def ends_as_they_are(view: View, rows: Ints) -> Floats:
    """On certain terms: the slowest speed on at least so many devices, with a decision in every slot."""
    rates = _slowest_rates(view, rows) * view.working_share(view.slot)
    return np.asarray(view.now + view.still_s[rows] + view.remaining[rows] / rates)


def _slowest_rates(view: View, rows: Ints) -> Floats:
    return np.array([_slowest_rate(view, row) for row in rows.tolist()])


def _slowest_rate(view: View, row: int) -> float:
    options, width = view.by_kind[int(view.bound[row])], int(view.width[row])
    depth = int(options.depth[row])
    rates = options.rates[row, :depth] * (1.0 - options.doubts[row, :depth])
    enough = options.levels[row, :depth] >= width
    return float(rates[enough].min() if enough.any() else rates[-1])


def _least_lost_first(view: View, held: SettledRows) -> Ints:
    """Rows by the device-seconds of work that they would do again; promised ones come last.

    To stop a job whose devices are gone then helps no other job.
    """
    rows = held.rows[np.isfinite(held.ends)]
    promised = view.standing[rows] == Standing.PROMISED
    done = np.maximum(view.whole[rows] - view.remaining[rows], 0.0)
    lost = done / _slowest_rates(view, rows) * view.width[rows]
    return np.asarray(rows[np.lexsort((-view.sequence[rows], lost, promised))])


def _spared(policy: Policy, view: View, held: SettledRows, stopped: Ints, decided: Assignment) -> Assignment:
    """The decision in which jobs of ``stopped`` keep devices that no promise needs, the dearest job first."""

    def loses(row: int) -> bool:
        return bool(decided.widths[row] != view.width[row] or decided.kinds[row] != view.bound[row])

    for row in stopped[::-1][:_SPARED].tolist():
        if len(stopped) > 1 and loses(row):
            fewer = settle(view, held.without(stopped[stopped != row]), policy.allocate)
            if fewer.keeps_promises_of(decided):
                stopped, decided = stopped[stopped != row], fewer
    return decided


def _doublings(most: int) -> Iterator[int]:
    """0, 1, 2, 4, ..., and ``most``."""
    count = 0
    yield count
    while count < most:
        count = min(max(2 * count, 1), most)
        yield count
