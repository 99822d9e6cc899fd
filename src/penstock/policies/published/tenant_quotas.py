"""Quotas of tenants as limits in devices of any kind, and taking jobs in order within them."""

import numpy as np

from penstock.policies.base import Assignment
from penstock.policies.columns import Floats, Ints
from penstock.policies.view import View
from penstock.tools import compiled

_ROUNDING = 1e-9


def quota_devices(view: View) -> Floats:
    """What each tenant may hold: its quota where it has one, else its share of all devices, rounded down."""
    tenants = view.tenants
    total = int(view.capacity.sum()) + int(view.held_elsewhere.sum())
    shares = np.floor(total * tenants.entitled / max(float(tenants.entitled.sum()), _ROUNDING) + _ROUNDING)
    return np.where(tenants.quotas > 0, tenants.quotas, shares)


def requested_widths(view: View) -> Ints:
    """What every row holds, or asked for on the kind it is bound to."""
    requested = np.stack([options.requested for options in view.by_kind], axis=1)
    return np.where(view.width > 0, view.width, requested[np.arange(len(view)), view.bound])


def on_bound_kinds(view: View, widths: Ints) -> Assignment:
    """These widths, everybody on the kind it is bound to."""
    return Assignment(view.bound, widths, tuple(np.inf for _ in view.kinds))


@compiled
def take_within(
    order: Ints, demand: Ints, kind: Ints, tenant: Ints, free: Ints, used: Ints, limits: Floats, alone: bool,
    blocking: bool,
) -> Ints:  # fmt: skip
    """Widths when each job in ``order`` gets its demand if devices are ``free`` and its tenant stays in its limit.

    With ``alone`` a tenant that holds nothing may start a job wider than its whole limit, which would never run
    otherwise. With ``blocking`` nobody overtakes a job of the same tenant and kind that has to wait. What is given out
    is taken from ``free`` and added to ``used``. O(jobs).
    """
    widths = np.zeros(len(demand), dtype=np.int64)
    blocked = np.zeros((len(used), len(free)), dtype=np.bool_)
    for job in order:
        who, what, wanted = tenant[job], kind[job], demand[job]
        if blocked[who, what]:
            continue
        within = used[who] + wanted <= limits[who] or (alone and used[who] == 0 and wanted > limits[who])
        if within and wanted <= free[what]:
            widths[job] = wanted
            free[what] -= wanted
            used[who] += wanted
        elif blocking:
            blocked[who, what] = True
    return widths
