"""Astraea: long-term fairness of device-time, first among tenants and then among the jobs of each."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from penstock.policies.base import Allocation, KindPolicy, Plans
from penstock.policies.columns import Bools, Floats, Ints
from penstock.policies.fairness import fairness_class, quotient
from penstock.policies.kind_view import KindView
from penstock.policies.parameters import Parameter

Order = Literal["job-reward", "fairness", "class-fairness", "2das", "srtf", "smallest", "fifo"]
FAR_BELOW = 0.2
"""A tenant that holds less than this part of its share goes first, whatever it held before."""
FIRST_RESPONSE_S = 120.0
"""What a job in its first lease keeps its devices for, whoever is new."""
_ROUNDING = 1e-6


class Astraea(KindPolicy):
    """Devices go in leases to the tenant whose use is least against its share, and there to the job treated worst.

    Every lease that ends puts its devices up again, so nobody's length has to be known; while nobody waits, leases are
    renewed without a decision. In the first phase tenants are offered devices one job at a time: whoever is far below
    its share right now, then whoever used least of what its share came to over the last day. In the second phase each
    tenant spends what it was offered on its jobs, in ``order``; starving ones go first, and with ``blocking`` nobody
    overtakes the first that does not fit. A job that never ran may take the devices of one that got them a moment ago
    (Ye et al., TPDS 2021).

    Unlike the published simulator, jobs wider than their tenant's share are not dropped: they borrow. Where it weighs
    how likely a job is to end in its next lease (``job-reward``), it looks up a histogram of the past; here it is what
    is known of the job's own speed. O(jobs log jobs + grants x tenants).
    """

    name: ClassVar[str] = "astraea"
    summary: ClassVar[str] = "long-term fairness of tenants, then of their jobs, in leases; needs no durations"
    paper: ClassVar[str] = "Ye et al., TPDS'21"

    def __init__(
        self,
        order: Annotated[Order, Parameter("which job of a tenant goes first")] = "job-reward",
        lease_s: Annotated[float, Parameter("how long a job may keep what it was given", least=1.0)] = 900.0,
        starving_s: Annotated[float, Parameter("a job that waited so long goes first", least=1.0)] = 21600.0,
        delay_s: Annotated[float, Parameter("a lease this young may end for a new job", least=0.0)] = 300.0,
        classes: Annotated[int, Parameter("classes of fairness that count as equal", least=1)] = 5,
        blocking: Annotated[bool, Parameter("whether nobody overtakes the first job that does not fit")] = True,
    ) -> None:
        self.order = order
        self.lease_s = lease_s
        self.starving_s = starving_s
        self.delay_s = delay_s
        self.classes = classes
        self.blocking = blocking

    def allocate(self, view: KindView) -> Allocation:
        ends = self._renewed(view)
        leased = (view.width > 0) & np.isfinite(ends) & (ends > view.now + _ROUNDING)
        starving = ~leased & (view.waiting >= self.starving_s)
        queues = _queues(view, ~leased, starving, self.keys(view))
        shares = _Shares.of(view, leased, self.lease_s)
        budgets = _budgets(view, queues, shares)
        kept = self._spend(view, queues, budgets, leased, starving, ends)
        return self._leases(view, kept, leased & kept, ends)

    def _renewed(self, view: KindView) -> Floats:
        """When leases end: one that ran out while nobody waited was renewed there and then, again and again."""
        ends = view.plan_at[:, 0]
        contested_at = float(view.stint_since.min(initial=view.now, where=view.width == 0))
        expired = (view.width > 0) & (ends < contested_at - _ROUNDING)
        leases = np.ceil((contested_at - _ROUNDING - np.where(expired, ends, contested_at)) / self.lease_s)
        return np.where(expired, ends + leases * self.lease_s, ends)

    def keys(self, view: KindView) -> tuple[Floats | Ints, ...]:
        """What the jobs of a tenant are sorted by, ascending."""
        fairness = quotient(view.attained, view.deserved)
        by_order: dict[str, Callable[[], tuple[Floats | Ints, ...]]] = {
            "job-reward": lambda: (fairness_class(fairness, self.classes), -self._likely_to_end(view) / view.requested),
            "fairness": lambda: (fairness,),
            "class-fairness": lambda: (fairness_class(fairness, self.classes),),
            "2das": lambda: (view.executed,),
            "srtf": lambda: (view.rigid_seconds,),
            "smallest": lambda: (view.requested,),
            "fifo": tuple,
        }
        return (*by_order[self.order](), view.submitted)

    def _likely_to_end(self, view: KindView) -> Floats:
        """How likely each row is to end within a lease: its part of the work that is left, at most all of it."""
        return np.minimum(self.lease_s / np.maximum(view.rigid_seconds, _ROUNDING), 1.0)

    def _spend(
        self, view: KindView, queues: "list[Ints]", budgets: Ints, leased: Bools, starving: Bools, ends: Floats
    ) -> Bools:
        """Which rows hold devices: each tenant's jobs in order, as far as its budget goes."""
        kept, held = leased.copy(), np.bincount(view.tenant[leased], view.width[leased], len(budgets)).astype(np.int64)
        recent = self._recent(view, leased, ends)
        for tenant, queue in enumerate(queues):
            delayed = recent[tenant]
            for row in queue.tolist():
                width = int(view.requested[row])
                while delayed and view.executed[row] == 0.0 and held[tenant] + width > budgets[tenant]:
                    loser = delayed.pop()
                    kept[loser] = False
                    held[tenant] -= int(view.width[loser])
                if held[tenant] + width <= budgets[tenant]:
                    kept[row] = True
                    held[tenant] += width
                elif self.blocking or starving[row]:
                    break
        return kept

    def _recent(self, view: KindView, leased: Bools, ends: Floats) -> dict[int, list[int]]:
        """By tenant the leases that began a moment ago and may end for a new job, the job treated best last."""
        ran = view.now - (ends - self.lease_s)
        first = view.executed <= ran + _ROUNDING
        rows = (leased & (ran < self.delay_s) & (~first | (ran >= FIRST_RESPONSE_S))).nonzero()[0]
        fairness = quotient(view.attained[rows], view.deserved[rows])
        recent: dict[int, list[int]] = defaultdict(list)
        for row in rows[np.argsort(fairness, kind="stable")].tolist():
            recent[int(view.tenant[row])].append(row)
        return recent

    def _leases(self, view: KindView, kept: Bools, running: Bools, ends: Floats) -> Allocation:
        widths = np.where(running, view.width, np.where(kept, view.requested, 0))
        leases = Plans.none(len(view))
        leases.at[:, 0] = np.where(running, ends, np.where(kept, view.now + self.lease_s, math.inf))
        leases.width[:, 0] = widths
        starves = np.where(kept | (view.waiting >= self.starving_s), math.inf, view.stint_since + self.starving_s)
        starves = np.where(starves > view.now + _ROUNDING, starves, math.inf)
        contested = not kept.all()
        wake_at = min(float(leases.at.min()), float(starves.min())) if contested else math.inf
        return Allocation(widths, wake_at, leases)


@dataclass(slots=True)
class _Shares:
    """What tenants hold, used and were entitled to, as devices are offered to them."""

    held: Ints
    entitled: Floats
    used: Floats
    share_time: Floats
    lease_s: float

    @classmethod
    def of(cls, view: KindView, leased: Bools, lease_s: float) -> "_Shares":
        tenants = view.tenants
        entitled = view.capacity * tenants.entitled / max(float(tenants.entitled.sum()), _ROUNDING)
        held = np.bincount(view.tenant[leased], view.width[leased], len(tenants.names)).astype(np.int64)
        return cls(held, entitled, tenants.used_lately.copy(), tenants.entitled_lately + entitled * lease_s, lease_s)

    def next(self, candidates: Ints) -> int:
        """Who is offered something: the one farthest below its share now, then the one that used least of it."""
        now = self.held[candidates] / self.entitled[candidates]
        if now.min() < FAR_BELOW:
            return int(candidates[now.argmin()])
        return int(candidates[(self.used[candidates] / self.share_time[candidates]).argmin()])

    def grant(self, tenant: int, width: int) -> None:
        self.held[tenant] += width
        self.used[tenant] += width * self.lease_s


def _queues(view: KindView, waiting: Bools, starving: Bools, keys: Sequence[Floats | Ints]) -> list[Ints]:
    """The rows without a lease of every tenant, in the order in which they are served."""
    first = np.where(starving, view.submitted, math.inf)
    rows = view.order(-view.priority, first, *keys)
    rows = rows[waiting[rows]]
    tenant = view.tenant[rows]
    return [rows[tenant == each] for each in range(len(view.tenants.names))]


def _budgets(view: KindView, queues: list[Ints], shares: _Shares) -> Ints:
    """Devices that each tenant may hold: what it holds, and what it was offered job by job while some are free."""
    free = view.capacity - int(shares.held.sum())
    wanted = [iter(view.requested[queue].tolist()) for queue in queues]
    candidates = np.array([tenant for tenant, queue in enumerate(queues) if len(queue)], dtype=np.int64)
    while free > 0 and len(candidates):
        tenant = shares.next(candidates)
        width = next((width for width in wanted[tenant] if width <= free), None)
        if width is None:
            candidates = candidates[candidates != tenant]
            continue
        shares.grant(tenant, width)
        free -= width
    return shares.held
