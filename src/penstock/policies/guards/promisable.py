"""Promises on devices that need not be given back: a tenant's own quota, and what is nobody's quota.

Somebody else's quota may be borrowed, but it comes back when its owner asks; a promise that counted on it would be
broken then. So each tenant is answered in a world without the quotas of the others, and within its own limits.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from penstock.core import Quote, Verdict
from penstock.policies.admission import ALONE, NO_RESERVE
from penstock.policies.base import Admission, PlannedQuotes, Plans
from penstock.policies.columns import Floats, Ints, Standing
from penstock.policies.guards.tenant_bounds import TenantBounds
from penstock.policies.measure_first import devices_text
from penstock.policies.view import View, offers_after


def admit_within_bounds(
    admission: Admission[View], view: View, bounds: TenantBounds, rows: Ints
) -> Sequence[Quote | None]:
    """The answers to these rows: tenant by tenant those with bounds of their own, then all others together."""
    quotes: dict[int, Quote | None] = {}
    plans: Plans | None = None
    for asked in _asked_together(view, bounds, rows):
        shown = promisable(view, bounds, tenant := int(view.tenant[asked[0]]))
        answers = admission.admit(shown, asked)
        rule = _rule(view, bounds, tenant, shown)
        quotes |= {row: _with_rule(view, row, quote, rule) for row, quote in zip(asked.tolist(), answers, strict=True)}
        if (laid_out := PlannedQuotes.plans_of(answers)) is not None:
            plans = _with_plans(plans or Plans(view.plan_at, view.plan_width, view.plan_kind), laid_out)
        standing = view.standing.copy()
        standing[[row for row in asked.tolist() if _is_promise(quotes[row])]] = Standing.PROMISED
        offers = view.offers
        for row in asked.tolist():
            if (quote := quotes[row]) is not None and (offers or quote.held is not None):
                offers = offers_after(offers, view.jobs[row], quote)
        view = view.told(standing, plans)
        view.offers = offers
    said = [quotes[row] for row in rows.tolist()]
    return said if plans is None else PlannedQuotes(said, plans)


def _rule(view: View, bounds: TenantBounds, tenant: int, shown: View) -> str:
    """Say which bounds keep devices from being promised to a tenant; empty if none does."""
    there, free, line = int(view.capacity.sum()), int(shown.capacity.sum()), bounds.lineages[tenant]
    if free >= there:
        return ""
    names = view.tenants.names
    limits = [each for each in line if bounds.ceiling[each] < there]
    found = [f"{names[each]} may hold at most {bounds.ceiling[each]:g}" for each in limits]
    quotas = [f"{names[each]} {bounds.guaranteed[each]}" for each in _beside(bounds, tenant) if bounds.guaranteed[each]]
    if quotas:
        found.append(f"quotas of other tenants ({', '.join(quotas)}) may be called in")
    return f"of the {devices_text(there)} only {free} can be promised to it: {' and '.join(found)} (`penstock tenants`)"


def _with_rule(view: View, row: int, quote: Quote | None, rule: str) -> Quote | None:
    """The answer with the rule before its reason, where devices that are kept from the tenant may be the reason."""
    if not rule or quote is None or _is_promise(quote) or quote.measured_on or not math.isfinite(view.deadline[row]):
        return quote
    if quote.reason.startswith(ALONE):
        return quote
    reason, then, rest = quote.reason.partition("; ")
    if " only 0 " not in rule and reason != NO_RESERVE:
        rule = f"{rule}, and on those {reason}"
    return replace(quote, reason=f"{rule}{then}{rest}")


def _is_promise(quote: Quote | None) -> bool:
    return quote is not None and quote.verdict is Verdict.PROMISED


def _with_plans(plans: Plans, laid_out: Plans) -> Plans:
    """Plans with others in the place of those that were laid out again."""
    again, joined = np.isfinite(laid_out.at[:, 0]), plans.copy()
    joined.at[again], joined.width[again], joined.kind[again] = (
        laid_out.at[again], laid_out.width[again], laid_out.kind[again],
    )  # fmt: skip
    return joined


def promisable(view: View, bounds: TenantBounds, tenant: int) -> View:
    """The view in which a tenant may be promised something.

    Of another's quota the part is missing that its owner's promises do not use; when the first of those ends, all of
    it.
    """
    line, beside = bounds.lineages[tenant], _beside(bounds, tenant)
    promised = np.flatnonzero(view.standing == Standing.PROMISED)
    peaks = bounds.totals(view.tenant[promised], view.plan_width[promised].max(axis=1, initial=0))
    reserved = sum(max(int(bounds.guaranteed[each] - peaks[each]), 0) for each in beside)
    free = without_devices(view.capacity, min(reserved, int(view.capacity.sum()))).copy()
    for each in line:
        if math.isfinite(bounds.ceiling[each]):
            others = int(peaks[bounds.parent < 0].sum() - peaks[each])
            free = np.minimum(free, int(bounds.ceiling[each]) + others)
    leases = [list[tuple[float, int]]() for _ in view.conditions]
    for each in beside:
        used = min(int(peaks[each]), int(bounds.guaranteed[each]))
        if used:
            _reserve_later(view, promised[bounds.within[each][view.tenant[promised]] > 0], used, leases)
    return view.part(np.arange(len(view)), free, leases)


def _beside(bounds: TenantBounds, tenant: int) -> list[int]:
    """Other tenants and groups with bounds, of a group and its members the group alone."""
    line = bounds.lineages[tenant]
    return [each for each in bounds.bounded if each not in line and int(bounds.parent[each]) in (-1, *line)]


def without_devices(capacity: Ints, devices: int) -> Ints:
    """So many fewer, of the kinds in proportion; never fewer than none."""
    whole = int(capacity.sum())
    return capacity - np.minimum(-(-capacity * devices // max(whole, 1)), capacity) if devices else capacity


def _asked_together(view: View, bounds: TenantBounds, rows: Ints) -> Iterator[Ints]:
    bounded = set(bounds.bounded)
    own = [position if bounded & set(line) else -1 for position, line in enumerate(bounds.lineages)]
    account = np.array(own, dtype=np.int64)[view.tenant[rows]]
    for each in np.unique(account)[::-1].tolist():
        yield rows[account == each]


def _reserve_later(view: View, rows: Ints, devices: int, leases: list[list[tuple[float, int]]]) -> None:
    """Devices of a quota that leave with the first promise of its owner that ends."""
    ends: Floats = np.where(np.isfinite(view.plan_at[rows]), view.plan_at[rows], -math.inf).max(axis=1)
    first = int(ends.argmin())
    leases[int(view.plan_kind[rows[first]])].append((float(ends[first]), devices))
