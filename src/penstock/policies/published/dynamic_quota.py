"""Dynamic quotas: idle devices are lent to tenants that are over theirs, and taken back when their owner comes."""

from typing import Annotated, ClassVar

import numpy as np

from penstock.policies.base import Assignment, Policy
from penstock.policies.parameters import Parameter
from penstock.policies.published.tenant_quotas import (
    on_bound_kinds,
    quota_devices,
    requested_widths,
    take_within,
)
from penstock.policies.view import View


class DynamicQuota(Policy):
    """Within its quota a tenant's jobs are never interrupted; up to ``stretch`` times its quota it may borrow.

    Who has run longest counts as within the quota first, then who came first. What is idle then goes to jobs beyond
    the quota of their tenants; they lose their devices as soon as a job within another's quota needs them. A job wider
    than its tenant's quota always borrows, and beyond the stretch if its tenant holds nothing else.

    This is the baseline of Astraea's artifact (Ye et al., TPDS 2021), where a borrower is killed and loses its work
    since the last lease; here it is suspended with its state. O(jobs log jobs) per decision.
    """

    name: ClassVar[str] = "dynamic-quota"
    summary: ClassVar[str] = "a quota for every tenant; what is idle is lent and taken back when its owner needs it"
    paper: ClassVar[str] = "Ye et al., TPDS'21 (a baseline there)"
    placement: ClassVar[str] = "best-fit"

    def __init__(
        self, stretch: Annotated[float, Parameter("times its quota that a tenant may hold at most", least=1.0)] = 1.2
    ) -> None:
        self.stretch = stretch

    def allocate(self, view: View) -> Assignment:
        runs = view.width > 0
        order = np.lexsort((view.sequence, np.where(runs, view.stint_since, view.now), ~runs, -view.priority))
        demand, quotas = requested_widths(view), quota_devices(view)
        free, used = view.capacity.copy(), view.held_elsewhere.copy()
        owned = take_within(order, demand, view.bound, view.tenant, free, used, quotas, False, False)
        others = order[owned[order] == 0]
        others = others[np.argsort(~runs[others], kind="stable")]
        lent = take_within(
            others, demand, view.bound, view.tenant, free, used, np.floor(quotas * self.stretch), True, False
        )  # fmt: skip
        return on_bound_kinds(view, owned + lent)
