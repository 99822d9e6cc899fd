"""Views by hand: one :class:`Row` per job, everything else as at the beginning of the world."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core import FREE, BestEffort, Curve, Deadline, Job, Overhead, Strictness, ValueStep, Work
from penstock.policies import ArrivalStatistics, KindConditions, KindView, View
from penstock.scheduler.columns import TableColumns
from penstock.scheduler.fairness import TenantFlows
from penstock.scheduler.table import JobTable
from penstock.scheduler.tenants import Tenants

_STATED = (
    "standing", "width", "executed", "attained", "deserved", "stint_since", "waited_before", "waited_s", "suspensions",
)  # fmt: skip
PROPORTIONAL = Curve.from_table({1: 1.0, 2: 2.0, 4: 4.0})


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A job and how it stands. ``left`` iterations of ``work`` remain (all of them unless said otherwise)."""

    work: float = 100.0
    left: float | None = None
    curve: Curve = PROPORTIONAL
    due: float | None = None
    soft: bool = False
    then: tuple[tuple[float, float], ...] = ()
    """(until when, what share of its value is left) of a soft deadline."""
    requested: int = 1
    at_least: int = 1
    at_most: int | None = None
    submitted: float = 0.0
    standing: int = 2
    width: int = 0
    executed: float = 0.0
    attained: float = 0.0
    deserved: float = 0.0
    tenant: str = "default"
    priority: int = 0
    stint_since: float = 0.0
    waited_before: float = 0.0
    waited_s: float = 0.0
    suspensions: int = 0
    plan: tuple[tuple[float, int], ...] = ()
    """(from when, how many) steps the policy laid out last time."""

    def job(self, number: int) -> Job:
        goal: Any = BestEffort()
        if self.due is not None:
            steps = tuple(ValueStep(at, value) for at, value in self.then)
            goal = Deadline(self.due, Strictness.SOFT if self.soft or steps else Strictness.HARD, steps)
        return Job(
            id=f"job-{number}",
            work=Work(self.work),
            curve=self.curve,
            goal=goal,
            submitted_at=self.submitted,
            requested=self.requested,
            at_least=self.at_least,
            at_most=self.at_most,
            tenant=self.tenant,
            priority=self.priority,
        )


def view(
    *rows: Row,
    now: float = 0.0,
    capacity: int = 4,
    slot: float = 0.0,
    interval: float | None = None,
    overhead: Overhead = FREE,
) -> KindView:
    """The same for a policy that looks at one kind of device at a time."""
    return whole_view(*rows, now=now, capacity=capacity, slot=slot, interval=interval, overhead=overhead).of_kind(0)


def whole_view(
    *rows: Row,
    now: float = 0.0,
    capacity: int = 4,
    slot: float = 0.0,
    interval: float | None = None,
    overhead: Overhead = FREE,
    arrivals: ArrivalStatistics | None = None,
    window: TenantFlows | None = None,
) -> View:
    table, tenants = JobTable(("gpu",)), Tenants()
    for number, row in enumerate(rows):
        table.add(row.job(number), number, now, bound=0, tenant=tenants.position(row.tenant), sizes=[capacity])
    for number, row in enumerate(rows):
        table.remaining[number] = row.work if row.left is None else row.left
        for name in _STATED:
            getattr(table, name)[number] = getattr(row, name)
        for step, (at, planned) in enumerate(row.plan):
            table.plan_at[number, step], table.plan_width[number, step] = at, planned
    used = slice(len(rows))
    conditions = KindConditions(name="gpu", capacity=capacity, interval=slot if interval is None else interval)
    for number in range(len(rows)):
        table.useful[number] = useful = table.most_useful(number)
        width = int(table.width[number])
        tenants.account.count(int(table.tenant[number]), jobs=1, held=width, useful=useful)
    if window is not None:
        tenants.account.integrals = tenants.account.integrals._replace(as_of=now, hour=np.array(window))
    return View(
        now=now,
        slot=slot,
        overhead=overhead,
        conditions=[conditions],
        jobs=table.jobs,
        columns=TableColumns(table, table.projected(now, used), used, lambda: table.deserved[used]),
        tenant=table.tenant[used],
        bound=table.bound[used],
        options=[table.options[0].shown(used)],
        tenants=lambda: tenants.table(table.tenant[used], table.attained[used], now, capacity),
        arrivals=lambda: arrivals or ArrivalStatistics.none(),
        leases=[[]],
    )
