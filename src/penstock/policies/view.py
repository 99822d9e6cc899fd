"""The world as a policy sees it: one table of jobs over all kinds of devices.

A job's *options* are the ways in which it could run: so many devices of one kind, with the speed, the doubt and the
power that go with it. A policy that weighs kinds against each other, tenants or a capacity that changes over time reads
this view and chooses one option per row. Columns are read-only; what is seldom needed is computed when it is asked for.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.core import FREE, Job, Overhead, Quote, Verdict
from penstock.policies.arrivals import ArrivalStatistics
from penstock.policies.base import Assignment, Plans
from penstock.policies.columns import ROUNDING_S, Floats, Ints
from penstock.policies.guards.tenant_bounds import TenantBounds
from penstock.policies.job_columns import ColumnSource, JobColumns, ReplacedColumns, SomeRows
from penstock.policies.kind_options import KindOptions
from penstock.policies.kind_view import KindView
from penstock.policies.tenant_table import TenantTable

if TYPE_CHECKING:
    from penstock.policies.guards.settled import SettledRows

Number = TypeVar("Number", np.int64, np.float64)


class KindConditions(NamedTuple):
    """One kind of device at the moment of a decision."""

    name: str
    capacity: int
    """Devices that work."""
    interval: float
    """Recent mean time between decisions about this kind (at least the slot)."""
    decided: bool = True
    """Whether this decision is about it; jobs of other kinds are not in the view."""


class Offer(NamedTuple):
    """A counter-offer that is held: whose it is, and what it reserves until it expires."""

    job: Job
    quote: Quote

    def serves(self, job: Job) -> bool:
        """Whether a job asks for the same work, by the deadline that was offered or later."""
        same = replace(
            job, id=self.job.id, goal=self.job.goal, submitted_at=self.job.submitted_at, curve=self.job.curve,
            costs=self.job.costs, priority=self.job.priority,
        )  # fmt: skip
        in_time = job.submitted_at <= self.quote.offer_until and job.deadline >= self.quote.counter_offer - ROUNDING_S
        return in_time and same == self.job


def offers_after(held: Sequence[Offer], job: Job, quote: Quote) -> list[Offer]:
    """The offers that are held after an answer: with the one it makes, or without the one the promised job accepted."""
    if quote.held is not None:
        return [*held, Offer(job, quote)]
    used = next((offer for offer in held if offer.serves(job)), None) if quote.verdict is Verdict.PROMISED else None
    return [offer for offer in held if offer is not used]


class View(JobColumns):
    """Everything a decision may depend on. Rows are in no particular order; ``sequence`` is the order of arrival."""

    tenant: Ints
    """Position in :attr:`tenants`."""
    bound: Ints
    """The kind a row holds devices of, or would be given by a policy that looks at one kind at a time."""

    def __init__(
        self,
        *,
        now: float,
        slot: float,
        overhead: Overhead = FREE,
        conditions: Sequence[KindConditions],
        jobs: Sequence[Job],
        columns: ColumnSource,
        tenant: Ints,
        bound: Ints,
        options: Sequence[KindOptions],
        tenants: Callable[[], TenantTable],
        arrivals: Callable[[], ArrivalStatistics] = ArrivalStatistics.none,
        leases: Sequence[Sequence[tuple[float, int]]],
        bounds: TenantBounds | None = None,
        offers: Sequence[Offer] = (),
        is_planned: bool = False,
        worked_out: object = None,
        has_settled: bool = False,
        staying: frozenset[int] = frozenset(),
    ) -> None:
        self.now = now
        self.slot = slot
        self.overhead = overhead
        self.conditions = conditions
        self.jobs = jobs
        self.by_kind = options
        """The options of all rows, one table per kind."""
        self.tenant = tenant
        self.bounds = bounds
        """What tenants are guaranteed and may hold at most, for whoever sees to it; None if nobody has bounds."""
        self.bound = bound
        self.offers = offers
        """Counter-offers whose devices nobody else is promised."""
        self.is_planned = is_planned
        """Whether the plans at hand were laid out by the admission of this very decision."""
        self.worked_out = worked_out
        """What that admission worked out besides, if it was about the same rows, devices and offers."""
        self.has_settled = has_settled
        """Whether rows have been taken out that keep their devices: for them promised jobs make room where they can."""
        self.staying = staying
        """Sequence numbers of jobs whose devices are gone when they end: their nodes take no more jobs."""
        self._columns = columns
        self._tenants = tenants
        self._leases = leases
        self._arrivals = arrivals
        self.__dict__.update(columns.ready)

    def gather(self, name: str) -> Any:
        return self._columns[name]

    def __len__(self) -> int:
        return len(self.jobs)

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.conditions)

    @cached_property
    def capacity(self) -> Ints:
        """Devices that work, per kind."""
        return np.array([each.capacity for each in self.conditions], dtype=np.int64)

    def capacity_steps(self, kind: int) -> tuple[tuple[float, int], ...]:
        """Capacity of a kind from now on: (from when, how many) as leases end and nodes drain, in order of time."""
        left, steps = self.conditions[kind].capacity, [(self.now, self.conditions[kind].capacity)]
        for until, devices in sorted(self._leases[kind]):
            left -= devices
            steps.append((max(until, self.now), max(left, 0)))
        return tuple(steps)

    def without(self, settled: "SettledRows") -> "View":
        """The same world without some rows, and without the devices that are settled to be theirs until they end."""
        rows, ends, on, held = settled
        left, kinds = np.delete(np.arange(len(self)), rows), range(len(self.conditions))
        free = np.array([each.capacity - int(held[on == kind].sum()) for kind, each in enumerate(self.conditions)])
        ends = np.maximum(ends, self.now + ROUNDING_S)
        back = [(on == kind) & np.isfinite(ends) for kind in kinds]
        given_back = [list(zip(ends[mine].tolist(), (-held[mine]).tolist(), strict=True)) for mine in back]
        part = self.part(left, free, given_back)
        part.has_settled = True
        if self.bounds is not None:
            more = np.bincount(self.tenant[rows], weights=held, minlength=len(self.tenants.names)).astype(np.int64)
            part.__dict__["held_elsewhere"] = self.held_elsewhere + more
        return part

    def told(self, standing: Ints, plans: Plans | None = None) -> "View":
        """The same world in which jobs have been told something else, by these plans."""
        every, told = np.arange(len(self)), dict[str, Any](standing=standing)
        if plans is not None:
            told |= {"plan_at": plans.at, "plan_width": plans.width, "plan_kind": plans.kind}
        view = self.part(every, self.capacity, columns=ReplacedColumns(self._columns, told))
        view.is_planned |= plans is not None
        return view

    def without_offers(self) -> "View":
        """The same world in which no counter-offer is held."""
        part = self.part(np.arange(len(self)), self.capacity)
        part.offers = ()
        return part

    def part(
        self,
        rows: Ints,
        capacity: Ints,
        leases: Sequence[Sequence[tuple[float, int]]] = (),
        *,
        columns: ColumnSource | None = None,
    ) -> "View":
        """Only some rows, in ascending order, on so many devices of each kind, of which more leave than are known to
        leave anyway."""
        conditions = [
            here._replace(capacity=free) for here, free in zip(self.conditions, capacity.tolist(), strict=True)
        ]
        everybody = len(rows) == len(self)
        more = leases or [()] * len(conditions)
        if columns is None:
            columns = self._columns if everybody else SomeRows(partial(getattr, self), rows)
        return View(
            now=self.now, slot=self.slot, overhead=self.overhead, conditions=conditions, columns=columns,
            jobs=self.jobs if everybody else [self.jobs[row] for row in rows.tolist()],
            tenant=self.tenant[rows], bound=self.bound[rows],
            options=self.by_kind if everybody else [
                KindOptions(SomeRows(partial(getattr, each), rows)) for each in self.by_kind
            ],
            tenants=lambda: self.tenants, arrivals=lambda: self.arrivals,
            leases=[[*known, *new] for known, new in zip(self._leases, more, strict=True)], bounds=self.bounds,
            offers=self.offers, is_planned=self.is_planned, has_settled=self.has_settled, staying=self.staying,
        )  # fmt: skip

    def working_share(self, interval: float) -> float:
        """What decisions that far apart leave of everybody's time."""
        return 1.0 - min(self.overhead.every_round_s / max(interval, 1.0), 0.9)

    @cached_property
    def tenants(self) -> TenantTable:
        return self._tenants()

    @cached_property
    def held_elsewhere(self) -> Ints:
        """Devices that jobs of each tenant hold which are not up for decision."""
        here = np.bincount(self.tenant, weights=self.width, minlength=len(self.tenants.names))
        return np.asarray(self.tenants.held - here.astype(np.int64))

    @cached_property
    def narrowest(self) -> Ints:
        """The fewest devices each row can run on, of the kind it is bound to; 1 if it cannot run there."""
        narrowest = np.ones(len(self), dtype=np.int64)
        for kind, options in enumerate(self.by_kind):
            np.copyto(narrowest, options.levels[:, 0], where=(self.bound == kind) & (options.depth > 0))
        return narrowest

    @cached_property
    def narrow_run_s(self) -> Floats:
        """How long each row runs from its beginning on the fewest devices, of the kind it is bound to."""
        run_s = np.full(len(self), np.inf)
        for kind, options in enumerate(self.by_kind):
            here = (self.bound == kind) & (options.depth > 0)
            np.divide(self.whole, options.rates[:, 0], out=run_s, where=here)
        return run_s

    @cached_property
    def alone_s(self) -> Floats:
        """How long each row would take with the cluster to itself from now on."""
        fastest = np.zeros(len(self))
        for options in self.by_kind:
            top = options.rates[np.arange(len(self)), np.maximum(options.depth - 1, 0)]
            fastest = np.maximum(fastest, np.where(options.depth > 0, top, 0.0))
        return np.where(self.width > 0, self.still_s, self.start_s) + self.remaining / fastest

    @cached_property
    def arrivals(self) -> ArrivalStatistics:
        """What has been asked for lately."""
        return self._arrivals()

    @cached_property
    def option_kind(self) -> Ints:
        """(O,) the kind of every option, the same for all rows."""
        counts = [each.levels.shape[1] for each in self.by_kind]
        return np.repeat(np.arange(len(counts)), counts)

    @cached_property
    def option_count(self) -> Ints:
        """(rows, O) devices of each option; 0 is no option at all."""
        return _side_by_side([each.levels for each in self.by_kind])

    @cached_property
    def option_rate(self) -> Floats:
        """(rows, O) iterations per second."""
        return _side_by_side([each.rates for each in self.by_kind])

    @cached_property
    def option_doubt(self) -> Floats:
        """(rows, O) the share by which the rate may turn out lower."""
        return _side_by_side([each.doubts for each in self.by_kind])

    @cached_property
    def option_watts(self) -> Floats:
        """(rows, O) power of all devices of an option together; zero where nothing is known."""
        return _side_by_side([each.watts for each in self.by_kind])

    @cached_property
    def depth(self) -> Ints:
        """(rows, kinds) how many options of each kind are real; what follows them repeats the last."""
        return np.stack([each.depth for each in self.by_kind], axis=1)

    @cached_property
    def held(self) -> Ints:
        """The option each row holds now; -1 if it holds nothing, or a width that is none of its options."""
        same = (self.option_count == self.width[:, None]) & (self.option_kind[None, :] == self.bound[:, None])
        same &= (self.width > 0)[:, None]
        return np.where(same.any(axis=1), same.argmax(axis=1), -1)

    def choose(self, options: Ints, wake_at: float = np.inf) -> Assignment:
        """The assignment in which every row holds the option chosen for it; -1 is nothing."""
        rows, chosen = np.arange(len(self)), np.maximum(options, 0)
        widths = np.where(options >= 0, self.option_count[rows, chosen], 0)
        kinds = np.where(options >= 0, self.option_kind[chosen], self.bound)
        return Assignment(kinds, widths, tuple(wake_at for _ in self.kinds))

    def rows_of(self, kind: int) -> Ints | None:
        """The rows bound to a kind; ``None`` where that is everybody."""
        return None if len(self.conditions) == 1 else (self.bound == kind).nonzero()[0]

    def of_kind(self, kind: int) -> KindView:
        """The rows bound to one kind of device, for a policy that looks at one at a time; no copy if there is one."""
        here = self.conditions[kind]
        return KindView(
            now=self.now, slot=self.slot, overhead=self.overhead, capacity=here.capacity, interval=here.interval,
            everybody=self.jobs, columns=self._columns, options=self.by_kind[kind], rows=self.rows_of(kind),
            tenancy=self.tenant, tenant_table=lambda: self.tenants,
        )  # fmt: skip


def _side_by_side(parts: list[NDArray[Number]]) -> NDArray[Number]:
    """One matrix over all kinds, without a copy where there is one."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
