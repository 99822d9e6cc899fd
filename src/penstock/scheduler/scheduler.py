"""The scheduler: events in, instructions out.

No clock, no thread, no socket, no randomness: time is what events say it is. The simulator feeds it from a trace, the
live system from the world, and both carry out the same instructions. Decisions are at least one slot apart; events in
between are recorded at once and acted upon by the next decision.

What happens is split in two. :meth:`Scheduler.apply` and :meth:`Scheduler.apply_decision` change the state and ask
nobody; :meth:`Scheduler.decide` asks policy, admission, placement and costs and changes nothing. Whoever keeps a log
writes events and decisions; reading it again needs no policy. :meth:`Scheduler.handle` does all of it at once.
"""

import copy
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.core import (
    FREE,
    Amendment,
    Cluster,
    Curve,
    Decision,
    Event,
    EventError,
    Instruction,
    InvariantError,
    Job,
    Quote,
    Tenant,
    Wake,
)
from penstock.placement import Placement, placement_named
from penstock.policies import STINT_COSTS, Admission, AnyPolicy, Floats, TenantTable
from penstock.scheduler.backlog import backlog
from penstock.scheduler.costs import CostModel, ExpectedCosts
from penstock.scheduler.deciding import Decider, take_back
from penstock.scheduler.holdings import Draft
from penstock.scheduler.rates import CurveRates, RateModel
from penstock.scheduler.recording import to_decision
from penstock.scheduler.records import FINAL, JobState
from penstock.scheduler.state import State
from penstock.scheduler.story import Story

_ROUNDING = 1e-9
_WORTHWHILE = 2.0
"""Decisions are at least this many times as far apart as one costs everybody, so that work gets done in between."""


class Scheduler:
    """Who runs when, where and on how many devices.

    ``policy`` decides widths and, unless another ``admission`` is given, answers jobs; ``placement`` defaults to what
    the policy prefers. ``slot`` is the shortest time between two decisions (longer if each costs everybody much).
    ``costs`` says what a decision costs the jobs it touches, ``rates`` how fast jobs run where they are placed,
    ``stint_costs`` how many times as long as its stop and start take a job holds its devices at least. With
    ``stories=False`` finished jobs are forgotten, so memory follows the jobs that are active; with stories that takes
    a :meth:`forget`.
    """

    def __init__(
        self,
        cluster: Cluster,
        policy: AnyPolicy,
        *,
        admission: Admission[Any] | None = None,
        placement: Placement | None = None,
        slot: float = 0.0,
        costs: CostModel | None = None,
        rates: RateModel | None = None,
        stint_costs: float = STINT_COSTS,
        stories: bool = True,
    ) -> None:
        self._decider = _decider(policy, admission, placement, costs, rates, stint_costs)
        bind = _promises_bind(self._decider)
        self._state = State(cluster, _slot(slot, self._decider), stories=stories, promises_bind=bind)

    @property
    def policy(self) -> AnyPolicy:
        return self._decider.policy

    @property
    def cluster(self) -> Cluster:
        return self._state.cluster

    @property
    def slot(self) -> float:
        return self._state.slot

    @property
    def emptying(self) -> frozenset[str]:
        """Nodes that take no more jobs and are left when those on them have ended."""
        closed = [(self.cluster.nodes[position], mask) for position, mask in self._state.holdings.closed.items()]
        return frozenset(node.name for node, mask in closed if mask == (1 << node.device_count) - 1)

    @property
    def now(self) -> float:
        """The time of the last event or decision."""
        return self._state.now

    @property
    def due_at(self) -> float:
        """When the next decision should be taken if no further event comes; it is due if that is not later than now."""
        return self._state.due_at

    def apply(self, event: Event) -> None:
        """Take in what happened. An event that does not fit raises :class:`EventError` and changes nothing."""
        self._state.apply(event)

    def decide(self, now: float) -> Decision:
        """What should change now, about the kinds of devices for which a decision is due; nothing changes by asking."""
        draft = self._decide(now)
        take_back(self._state.holdings, tuple(draft.wake_at))
        return to_decision(now, draft, self._state.holdings)

    def apply_decision(self, decision: Decision) -> None:
        """Carry out a decision; one that does not fit the state raises :class:`EventError` and changes nothing."""
        self._state.apply_decision(decision)

    def collect(self) -> list[Instruction]:
        """What the world must do because of everything applied since the last call, and when to come back."""
        sent, self._state.outbox = self._state.outbox, []
        if math.isfinite(due_at := self._state.due_at):
            sent.append(Wake(due_at))
        return sent

    def handle(self, *events: Event) -> list[Instruction]:
        """Take in what happened, in order of time, decide if that is due, and say what to do now.

        An event that does not fit raises :class:`EventError` and changes nothing; instructions that earlier events of
        the same call gave rise to are not lost but come with the next call.
        """
        state = self._state
        for event in events:
            state.apply(event)
        if self.is_due:
            state.apply_draft(state.now, self._decide(state.now))
        return self.collect()

    @property
    def is_due(self) -> bool:
        """Whether a decision is due at the time of the last event."""
        return self._state.due_at <= self._state.now + _ROUNDING

    def _decide(self, now: float) -> Draft:
        """With the grants on trial in the occupancy of each kind decided about."""
        if not now >= self.now:
            raise EventError(f"cannot decide at {now}: it is {self.now} already")
        kinds = self._state.holdings.kinds
        due = [kind for kind, state in kinds.items() if state.due_at <= now + _ROUNDING]
        if not due:
            return Draft(wake_at={})
        about = tuple(kinds) if self._decider.whole else due
        return self._decider.decide(self._state.holdings, self.cluster, self.slot, now, about)

    def reconfigure(
        self,
        at: float,
        policy: AnyPolicy,
        *,
        admission: Admission[Any] | None = None,
        placement: Placement | None = None,
        slot: float = 0.0,
        costs: CostModel | None = None,
        rates: RateModel | None = None,
    ) -> None:
        """Other rules from now on. Jobs, devices and promises stay; nobody asks again and no deadline is softened.

        Under a policy that keeps promises those made so far bind, with the plans that back them. Under one that
        promises nothing every promise is withdrawn, in the job's story and by a ``Withdraw`` instruction.
        """
        decider = _decider(policy, admission, placement, costs, rates)
        self._state.reconfigure(
            at, slot=_slot(slot, decider), policy=policy.name, keeps_promises=policy.keeps_promises,
            promises_bind=_promises_bind(decider),
        )  # fmt: skip
        self._decider = decider

    def forget(self, job_id: str) -> Story:
        """The story of a job that is over, for the last time: afterwards it is unknown here."""
        record = self._state.record(job_id)
        if record.state not in FINAL:
            raise EventError(f"job {job_id!r} is {record.state}; only jobs that are over can be forgotten")
        del self._state.records[job_id]
        return record.story or Story(job_id)

    def next_finish_at(self) -> float:
        """When the first running job will be done if nothing changes; inf if none runs."""
        table = self._state.holdings.table
        return float(np.minimum.reduce(table.finish_at[: len(table)])) if len(table) else math.inf

    def finishing_by(self, at: float) -> list[tuple[float, str]]:
        """Running jobs projected to be done by ``at``, with their times, in order."""
        table = self._state.holdings.table
        ends = table.finish_at[: len(table)]
        return sorted((float(ends[row]), table.jobs[row].id) for row in (ends <= at).nonzero()[0].tolist())

    def earliest_round(self, event_at: float) -> float:
        """When the scheduler could first decide if the next event came at ``event_at``."""
        return max(event_at, min([state.last_round for state in self._state.holdings.kinds.values()]) + self.slot)

    def is_active(self, job_id: str) -> bool:
        """Whether the job is known and not in a final state."""
        record = self._state.records.get(job_id)
        return record is not None and record.state not in FINAL

    def state_of(self, job_id: str) -> JobState:
        return self._state.record(job_id).state

    def job(self, job_id: str) -> Job:
        """The job as it is believed to be now: with the curve, the costs and the goal it was last given."""
        return self._state.record(job_id).job

    def quote_of(self, job_id: str) -> Quote | None:
        return self._state.record(job_id).quote

    def devices_of(self, job_id: str) -> tuple[int, ...]:
        return self._state.holdings.devices(self._state.record(job_id))

    def remaining(self, job_id: str, at: float | None = None) -> float:
        """Iterations left, as projected for ``at`` or the time of the last event."""
        record = self._state.record(job_id)
        if record.state in (*FINAL, JobState.FINISHING):
            return 0.0
        if record.paused is not None:
            return record.paused.remaining
        table = self._state.holdings.table
        later = self.now if at is None else max(at, self.now)
        return table.remaining_at(table.row_of[record.key], self.now, later)

    def rate_of(self, job_id: str) -> float:
        """Iterations per second it is believed to make now; zero without devices."""
        record = self._state.record(job_id)
        table = self._state.holdings.table
        row = table.row_of.get(record.key)
        return 0.0 if row is None else float(table.rate[row])

    def pause_ends_at(self, job_id: str) -> float:
        """Until when a job that holds devices is believed to make no progress on them."""
        record = self._state.record(job_id)
        table = self._state.holdings.table
        row = table.row_of.get(record.key)
        return -math.inf if row is None else float(table.resumes_at[row])

    def can_use(self, job_id: str, curve: Curve) -> bool:
        """Whether a job would have a width to run on if this were its curve."""
        return self._state.can_use(self._state.live(job_id), curve)

    def amended(self, job_id: str, amendment: Amendment) -> Job:
        """The job as it would be; raises :class:`EventError` where it could never run."""
        return self._state.amended_job(self._state.live(job_id), amendment)

    def kind_for(self, job: Job) -> str | None:
        """The kind this job runs fastest on, among those it accepts and that can hold it."""
        return self._state.kind_for(job)

    def seconds_alone(self, job: Job) -> float:
        """How long a job would run with the whole cluster to itself; infinite if it cannot run at all."""
        rate = self._state.top_rate(job)
        return job.work.iterations / rate if rate else math.inf

    def breach(self, job_id: str, at: float) -> str:
        """Why its promise is broken if an active job ends at a time, whatever the cause; empty if it is kept or nothing
        was promised."""
        return self._state.live(job_id).breach(at)

    def deserved(self, job_id: str, at: float) -> float:
        """Device-seconds that an active job deserved by then, if nothing happens before."""
        row = self._state.holdings.row(self._state.live(job_id))
        return float(self._state.holdings.deserved(slice(row, row + 1), at)[0])

    def active_count(self) -> int:
        return len(self._state.holdings.records)

    def active(self) -> list[str]:
        """Jobs that ask, wait or run, in order of arrival; paused and finishing ones do nothing of that."""
        return [record.job.id for _, record in sorted(self._state.holdings.records.items())]

    def paused(self) -> list[str]:
        """Jobs that ask for nothing until they are resumed, in order of arrival."""
        paused = [record for record in self._state.records.values() if record.state is JobState.PAUSED]
        return [record.job.id for record in sorted(paused, key=lambda record: record.key)]

    def capacity(self, kind: str) -> int:
        """Devices of a kind that work."""
        return self._state.holdings.kinds[kind].occupancy.capacity

    def backlog(self) -> dict[str, list[tuple[str, float, float]]]:
        """By kind: every active job, the device-seconds it still needs at its narrowest, and its projected end.

        The cheapest comes first; a job without devices has no projected end.
        """
        holdings = self._state.holdings
        return backlog(self._decider.view(holdings, self.slot, self.now), holdings.table)

    def why(self, job_id: str) -> Story:
        """Everything that happened to a job, and why it stands where it stands."""
        record = self._state.record(job_id)
        if record.story is None:
            raise EventError("this scheduler keeps no stories; create it with stories=True")
        now = ""
        if record.state is JobState.PAUSED:
            now = "paused: it asks for devices again when somebody resumes it"
        elif record.state is JobState.FINISHING:
            now = "finishing: it has given its devices back, and what is left of it needs none"
        elif record.state not in FINAL:
            view = self._decider.view(self._state.holdings, self.slot, self.now)
            now = self._decider.explain(self._state.holdings, view, self._state.holdings.row(record))
        return Story(job_id, record.story.entries.copy(), now)

    def tenant_settings(self) -> list[Tenant]:
        """Every tenant and every group that counts, in the order in which they appeared."""
        tenants = self._state.holdings.tenants
        return [each for each in tenants.known if each.name not in tenants.removed]

    def tenants(self, at: float | None = None) -> TenantTable:
        """What tenants hold, used and deserved, as of ``at`` or the last event."""
        return self._state.holdings.tenant_table(self.now if at is None else max(at, self.now))

    def tenant_flows(self) -> tuple[Floats, Floats]:
        """Devices that every tenant holds now, and those that it deserves, in the order of :meth:`tenants`."""
        holdings = self._state.holdings
        flows = holdings.tenants.account.flows(holdings.tenants.entitled(holdings.capacity))
        return flows.used, flows.deserved

    def is_group(self, tenant: str) -> bool:
        """Whether a tenant is the group of others, so that it has no jobs of its own."""
        return self._state.holdings.tenants.is_group(tenant)

    def fragmentation(self) -> float:
        """Share of free devices that sit in partly used nodes, over all kinds."""
        occupancies = [state.occupancy for state in self._state.holdings.kinds.values()]
        free = sum([occupancy.free for occupancy in occupancies])
        return sum([occupancy.fragmentation() * occupancy.free for occupancy in occupancies]) / free if free else 0.0

    def devices_held(self) -> int:
        occupancies = [state.occupancy for state in self._state.holdings.kinds.values()]
        return sum([occupancy.capacity - occupancy.free for occupancy in occupancies])

    def twin(self) -> "Scheduler":
        """An independent copy without stories, to try things out on.

        What never changes (jobs, policy, placement, cluster) is shared; jobs that are over are unknown to it.
        O(active jobs).
        """
        twin = Scheduler.__new__(Scheduler)
        twin._state = self._state.copy()
        old = self._decider
        twin._decider = Decider(
            old.policy, old.admission, old.placement, copy.deepcopy(old.costs), old.rates, old.stint_costs
        )
        return twin

    def to_data(self) -> dict[str, Any]:
        """The whole state as plain data with a version; policy, admission, placement and costs are not in it."""
        from penstock.scheduler.state_data import to_data

        return to_data(self._state)

    def still_data(self) -> dict[str, Any]:
        """What :meth:`to_data` gives, quickly: iterators stand for the lists of jobs, and what they give is made only
        when it is asked for. It is the state as it is now, whatever happens meanwhile."""
        from penstock.scheduler.state_data import still_data

        return still_data(self._state)

    @classmethod
    def from_data(
        cls,
        data: Mapping[str, Any],
        policy: AnyPolicy,
        *,
        admission: Admission[Any] | None = None,
        placement: Placement | None = None,
        costs: CostModel | None = None,
        rates: RateModel | None = None,
    ) -> "Scheduler":
        """The scheduler whose state :meth:`to_data` gave, under the given rules; nothing is decided by that."""
        from penstock.scheduler.state_data import from_data

        scheduler = cls.__new__(cls)
        scheduler._decider = _decider(policy, admission, placement, costs, rates)
        scheduler._state = from_data(data)
        return scheduler

    def validate(self) -> None:
        """Check every invariant of the state; raises :class:`InvariantError`. O(jobs + devices)."""
        from penstock.scheduler.invariants import check_holdings

        if self._state.broken:
            missed = ", ".join(self._state.broken)
            raise InvariantError(f"promised deadlines missed without an outside cause: {missed}")
        check_holdings(self._state.holdings, self.now, promises_bind=self._state.promises_bind)


def _decider(
    policy: AnyPolicy,
    admission: Admission[Any] | None,
    placement: Placement | None,
    costs: CostModel | None,
    rates: RateModel | None,
    stint_costs: float = STINT_COSTS,
) -> Decider:
    placing = placement or placement_named(policy.placement)
    return Decider(policy, admission or policy, placing, costs or ExpectedCosts(), rates or CurveRates(), stint_costs)


def _slot(slot: float, decider: Decider) -> float:
    return max(slot, _WORTHWHILE * decider.costs.overhead.every_round_s)


def _promises_bind(decider: Decider) -> bool:
    return decider.policy.overhead_proof or decider.costs.overhead == FREE
