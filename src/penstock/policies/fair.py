"""For shared clusters: every tenant gets its share in the long run, and inside of that jobs are done soon."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar

from penstock.core import Quote
from penstock.policies.columns import Ints
from penstock.policies.fair_order import BOUND, LEASE_S, Bound, Lease
from penstock.policies.parameters import Parameter
from penstock.policies.queue_head import STARVING_S, Starving
from penstock.policies.unified import Unified
from penstock.policies.view import View


class Fair(Unified):
    """Long-term fairness first, of tenants and then of jobs; expected remaining device-time next. Nothing is promised.

    Tenants that used less than ``bound`` of what they deserved in the last day go first. Then jobs go in classes of
    the long-term fairness they would end with if they ran from now on, the worst first, and inside a class the one
    that needs the fewest device-seconds. Elastic jobs begin on the fewest devices they can use; what is idle goes where
    it gains most. Promises that were given before are kept. Ours, on Astraea's measure (Ye et al., TPDS 2021).
    O(jobs x breakpoints) per decision.
    """

    name: ClassVar[str] = "fair"
    summary: ClassVar[str] = "tenants and jobs get what they deserve in the long run, then who is soon done; elastic"
    paper: ClassVar[str] = "ours, on Astraea's measure of fairness"

    def __init__(
        self,
        bound: Bound = BOUND,
        classes: Annotated[int, Parameter("classes of fairness that count as equal", least=1)] = 5,
        lease_s: Lease = LEASE_S,
        starving_s: Starving = STARVING_S,
    ) -> None:
        super().__init__(bound, lease_s, starving_s)
        self.fair_order = replace(self.fair_order, classes=classes)

    def admit(self, view: View, rows: Ints) -> Sequence[Quote | None]:
        return self._let_in(view.jobs, rows)
