"""Themis: finish-time fairness."""

import math
from typing import Annotated, ClassVar

import numpy as np

from penstock.policies.base import Allocation, KindPolicy, Plans
from penstock.policies.columns import Floats
from penstock.policies.greedy import serve_in_order
from penstock.policies.kind_view import KindView
from penstock.policies.parameters import Parameter


class Themis(KindPolicy):
    """Devices go, lease by lease, to the jobs treated worst so far.

    A job's rho is its expected finish time here over its finish time on a private 1/N of the cluster. Jobs whose lease
    runs (its end is kept as their plan) keep their devices; when one ends, all devices without a lease are offered in
    order of falling rho. This is the leasing core of Mahajan et al. (NSDI'20); their auction, which makes bidding
    truthful among rival tenants, is not needed where the scheduler knows every rho itself. O(jobs log jobs).
    """

    name: ClassVar[str] = "themis"
    summary: ClassVar[str] = "finish-time fairness: leases go to the jobs treated worst so far"
    paper: ClassVar[str] = "Mahajan et al., NSDI'20"

    def __init__(
        self, lease_s: Annotated[float, Parameter("how long a job may keep what it was given", least=1.0)] = 1200.0
    ) -> None:
        self.lease_s = lease_s

    def allocate(self, view: KindView) -> Allocation:
        ends = view.plan_at[:, 0]
        leased = (view.width > 0) & (ends > view.now + 1e-6) & np.isfinite(ends)
        widths = serve_in_order(view, lambda: view.order(np.where(leased, 0, 1), -view.priority, -self.rho(view)))
        leases = Plans.none(len(view))
        leases.at[:, 0] = np.where(leased & (widths > 0), ends, np.where(widths > 0, view.now + self.lease_s, math.inf))
        leases.width[:, 0] = widths
        return Allocation(widths, float(leases.at.min(initial=math.inf)), leases)

    def rho(self, view: KindView) -> Floats:
        """Finish time shared over finish time alone; above 1 is worse than a private share."""
        shared = (view.now - view.submitted) + view.rigid_seconds
        fair_share = np.minimum(max(view.capacity, 1) / len(view) / view.requested, 1.0)
        total = np.array([job.work.iterations for job in view.jobs]) / view.requested_rate
        return shared / (total / fair_share)
