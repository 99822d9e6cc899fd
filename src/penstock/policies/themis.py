"""Themis: finish-time fairness."""

import math
from typing import ClassVar

import numpy as np

from penstock.policies.base import Allocation, Policy
from penstock.policies.greedy import serve_in_order
from penstock.policies.view import Floats, View


class Themis(Policy):
    """Devices go, lease by lease, to the jobs treated worst so far.

    A job's rho is its expected finish time here over its finish time on a private 1/N of the cluster. Jobs whose lease
    runs keep their devices; when one ends, all devices without a lease are offered in order of falling rho. This is the
    leasing core of Mahajan et al. (NSDI'20); their auction, which makes bidding truthful among rival tenants, is not
    needed where the scheduler knows every rho itself. O(jobs log jobs) per decision.
    """

    name: ClassVar[str] = "themis"
    summary: ClassVar[str] = "finish-time fairness: leases go to the jobs treated worst so far"
    paper: ClassVar[str] = "Mahajan et al., NSDI'20"

    def __init__(self, lease_s: float = 1200.0) -> None:
        self.lease_s = lease_s

    def allocate(self, view: View) -> Allocation:
        leased_for = np.where(view.width > 0, np.mod(view.now - view.stint_since, self.lease_s), 0.0)
        expired = (view.width == 0) | ((leased_for < 1e-6) & (view.now > view.stint_since))
        group = np.where(expired, 1, 0)
        widths = serve_in_order(view, lambda: view.order(group, -self.rho(view)))
        left = np.where(widths > 0, self.lease_s - leased_for, math.inf)
        return Allocation(widths, view.now + float(left.min(initial=math.inf)))

    def rho(self, view: View) -> Floats:
        """Finish time shared over finish time alone; above 1 is worse than a private share."""
        shared = (view.now - view.submitted) + view.rigid_seconds
        fair_share = np.minimum(max(view.capacity, 1) / len(view) / view.requested, 1.0)
        total = np.array([job.work.iterations for job in view.jobs]) / view.requested_rate
        return shared / (total / fair_share)
