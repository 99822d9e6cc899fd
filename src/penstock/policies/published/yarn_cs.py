"""YARN's capacity scheduler: a fixed quota for every tenant, first come, first served within it."""

from typing import ClassVar

import numpy as np

from penstock.policies.base import Assignment, Policy
from penstock.policies.greedy import still_held
from penstock.policies.published.tenant_quotas import on_bound_kinds, quota_devices, requested_widths, take_within
from penstock.policies.view import View


class YarnCapacity(Policy):
    """Every tenant has its quota and never more; its jobs start in order of arrival and are never interrupted.

    The quota is the one that was set, else the tenant's share of the devices. Nobody overtakes a job of the same
    tenant, and idle devices of others are not lent: the baseline of Tiresias' and Astraea's evaluations (Vavilapalli
    et al., SoCC'13). Unlike there, a job wider than its tenant's whole quota is not dropped: it starts when its
    tenant holds nothing else. O(jobs log jobs) per decision.
    """

    name: ClassVar[str] = "yarn-cs"
    summary: ClassVar[str] = "a fixed quota for every tenant, first come, first served within it, nothing lent"
    paper: ClassVar[str] = "Vavilapalli et al., SoCC'13 (capacity scheduler)"
    placement: ClassVar[str] = "best-fit"

    def allocate(self, view: View) -> Assignment:
        arrival = np.lexsort((view.sequence, -view.priority))
        waiting = arrival[view.width[arrival] == 0]
        held = still_held(view)
        busy = np.bincount(view.bound, weights=held, minlength=len(view.kinds)).astype(np.int64)
        started = take_within(
            waiting, requested_widths(view), view.bound, view.tenant, view.capacity - busy, view.tenants.held.copy(),
            quota_devices(view), True, True,
        )  # fmt: skip
        return on_bound_kinds(view, held + started)
