"""Which jobs there are and who holds which devices: how events and decisions change that.

Nothing here chooses. A job gains or loses devices because an event says so (its worker failed, its node was lost) or
because a decision does; both are applied the same way whether they come from a policy just asked or from a log.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from penstock.core import (
    Admit,
    Cluster,
    Decline,
    Defer,
    EventError,
    Grant,
    Instruction,
    Job,
    NodeChoice,
    Quote,
    Resize,
    Resume,
    Start,
    Suspend,
    Tenant,
    Verdict,
    Withdraw,
    counted,
    format_duration,
)
from penstock.policies import Floats, Ints, Offer, Plans, Standing, TenantTable, offers_after
from penstock.scheduler.arrivals import Arrivals
from penstock.scheduler.kinds import KindState
from penstock.scheduler.options import usable_levels
from penstock.scheduler.records import JobState, Record, Service
from penstock.scheduler.table import JobTable, Projection
from penstock.scheduler.tenants import Tenants

STANDING = {
    Verdict.PROMISED: Standing.PROMISED,
    Verdict.BEST_EFFORT: Standing.ADMITTED,
    Verdict.DEFERRED: Standing.DEFERRED,
}
_ANSWER: dict[Verdict, Callable[[Quote], Instruction]] = {
    Verdict.PROMISED: Admit,
    Verdict.BEST_EFFORT: Admit,
    Verdict.DEFERRED: Defer,
    Verdict.REFUSED: Decline,
}


class Draft(NamedTuple):
    """A decision with jobs as keys and columns over the rows that are left after it.

    ``wake_at`` has the kinds decided about. Rows of jobs that are refused are gone; the others stand as
    :meth:`JobTable.remove` leaves them if all kinds are decided about (``keys`` is ``None``), else as ``keys`` says.
    ``projection`` is the progress up to now where that has been computed already. The occupancies have the grants on
    trial.
    """

    wake_at: Mapping[str, float]
    quotes: Sequence[tuple[int, Quote]] = ()
    suspended: Sequence[int] = ()
    grants: Sequence[tuple[int, str, tuple[int, ...]]] = ()
    rates: Mapping[int, float] = MappingProxyType({})
    keys: Ints | None = None
    pauses: Floats | None = None
    plans: Plans | None = None
    projection: Projection | None = None
    reasons: Callable[[], Mapping[int, str]] = dict
    """Why jobs are suspended, by key; to be asked before anything is changed."""


class Holdings:
    """The table of jobs, and the devices of every kind with who holds them.

    ``confined`` has the nodes of those jobs, by key, that may not run everywhere.
    """

    def __init__(self, cluster: Cluster, slot: float) -> None:
        self.cluster = cluster
        self.kinds = {kind: KindState(cluster, kind, slot) for kind in cluster.kinds}
        self.table = JobTable(tuple(self.kinds))
        self.records: dict[int, Record] = {}
        self.confined: dict[int, NodeChoice] = {}
        self.tenants = Tenants()
        self.arrivals = Arrivals()
        self.closed: dict[int, int] = {}
        """Devices that take no more jobs, as masks by the position of their node."""
        self.retired: dict[int, int] = {}
        """Those of them that are out of use by now."""
        self.offers: list[Offer] = []
        """Counter-offers that are held, those that have expired included until somebody looks."""

    def copy(self) -> "Holdings":
        """Independent ones, whose jobs have no stories."""
        other = Holdings.__new__(Holdings)
        other.cluster, other.confined = self.cluster, self.confined.copy()
        other.closed, other.retired = self.closed.copy(), self.retired.copy()
        other.kinds = {kind: state.copy() for kind, state in self.kinds.items()}
        other.table, other.tenants = self.table.copy(), self.tenants.copy()
        other.arrivals, other.offers = self.arrivals.copy(), self.offers.copy()
        other.records = {key: record.copy() for key, record in self.records.items()}
        return other

    def size_for(self, job: Job, kind: str) -> int:
        """Devices of a kind on the nodes where a job may run, whether they work or not."""
        return job.nodes.capacity(self.cluster, kind) if job.nodes.confines else self.kinds[kind].size

    def sizes_for(self, job: Job) -> list[int]:
        return [self.size_for(job, kind) for kind in self.kinds]

    def levels(self, job: Job, kind: str) -> tuple[tuple[int, float], ...]:
        """The (count, rate) pairs at which a job could ever run on the nodes of a kind where it may."""
        return usable_levels(job, kind, self.size_for(job, kind))

    def position(self, kind: str) -> int:
        """Where a kind is among the kinds."""
        return list(self.kinds).index(kind)

    def positions(self, kinds: Sequence[str]) -> list[int]:
        return [position for position, kind in enumerate(self.kinds) if kind in kinds]

    def of(self, record: Record) -> KindState:
        """The devices of the kind a job is bound to."""
        return self.kinds[record.kind]

    def row(self, record: Record) -> int:
        return self.table.row_of[record.key]

    def devices(self, record: Record) -> tuple[int, ...]:
        return self.of(record).occupancy.devices(record.key)

    def staying(self) -> frozenset[int]:
        """Jobs on devices that take no more jobs: what they hold is out of use when they end."""
        closed = [
            (mask, self.kinds[self.cluster.nodes[position].kind].occupancy.holders(position))
            for position, mask in self.closed.items()
        ]
        return frozenset(key for mask, holders in closed for key, held in holders.items() if held & mask)

    def tenant_table(self, now: float) -> TenantTable:
        """Everybody's tenants with what their jobs hold and have held."""
        used, table = slice(len(self.table)), self.table
        attained = table.attained_by(table.projected(now, used), used)
        return self.tenants.table(table.tenant[used], attained, now, self.capacity)

    @property
    def capacity(self) -> int:
        """Devices that work, of all kinds."""
        return sum(state.occupancy.capacity for state in self.kinds.values())

    def deserved(self, used: Any, now: float) -> Floats:
        """Device-seconds that each of ``used`` rows has deserved by then."""
        table, entitled = self.table, self.tenants.entitled(self.capacity)
        counted = self.tenants.account.deserved(now, entitled, table.tenant[used], table.useful[used])
        return np.asarray(table.deserved[used] + counted)

    def account(self, now: float) -> None:
        """Time has passed, and nothing else has happened yet: count what everybody used and deserved."""
        if now != self.tenants.account.as_of:
            self.tenants.account.advance(now, self.tenants.entitled(self.capacity))

    def count_useful(self, row: int) -> None:
        """Take up how many devices a row could use; what it deserved so far stays."""
        table, account, tenant = self.table, self.tenants.account, int(self.table.tenant[row])
        before, after = int(table.useful[row]), table.most_useful(row)
        if before != after:
            table.deserved[row] += account.deserved_by(tenant, before) - account.deserved_by(tenant, after)
            table.useful[row] = after
            account.count(tenant, useful=after - before, best_effort=(after - before) * self._is_best_effort(row))

    def count_row(self, row: int) -> None:
        """Take up a row as it was written down; what it deserves is in its columns."""
        table, account = self.table, self.tenants.account
        table.useful[row] = useful = table.most_useful(row)
        account.know(useful)
        best_effort = useful * self._is_best_effort(row)
        account.count(
            int(table.tenant[row]), jobs=1, held=int(table.width[row]), useful=useful, best_effort=best_effort
        )

    def _is_best_effort(self, row: int) -> bool:
        return math.isinf(self.table.deadline[row])

    def _hold(self, row: int, width: int) -> None:
        table = self.table
        self.tenants.account.count(int(table.tenant[row]), held=width - int(table.width[row]))
        table.width[row] = width

    def add_kind(self, cluster: Cluster, kind: str, slot: float) -> None:
        """Devices of a kind that the cluster did not have; whoever can use them has new options."""
        self.kinds[kind] = KindState(cluster, kind, slot)
        self.table.add_kind(kind)
        self.resize(kind, self.kinds[kind].size)

    def resize(self, kind: str, size: int) -> None:
        """The cluster has more or fewer devices of a kind; who cannot run on so few keeps the options it had."""
        state, position = self.kinds[kind], self.position(kind)
        state.size = size
        for row, job in enumerate(self.table.jobs):
            self.table.set_size(row, position, self.size_for(job, kind))
            self.count_useful(row)
        state.dirty = True

    def add(self, record: Record, now: float) -> None:
        """A job asks for devices of the kind it is bound to."""
        self.records[record.key] = record
        bound, tenant = self.position(record.kind), self.tenants.position(record.job.tenant)
        sizes = self.sizes_for(record.job)
        row = self.table.add(record.job, record.key, now, bound=bound, tenant=tenant, sizes=sizes)
        self.confine(record)
        self.tenants.account.count(tenant, jobs=1)
        self.count_useful(row)
        self._rank(row, record.job)
        self.of(record).dirty = True

    def confine(self, record: Record) -> None:
        """Remember where a job may run, if that is not everywhere."""
        if record.job.nodes.confines:
            self.confined[record.key] = record.job.nodes

    def _rank(self, row: int, job: Job) -> None:
        """A job's priority counts as far as its tenant may give it one."""
        self.table.priority[row] = self.tenants.priority(int(self.table.tenant[row]), job.priority)

    def change_tenant(self, tenant: Tenant) -> None:
        """A tenant has other settings; its jobs count by them."""
        self.tenants.set(tenant)
        position = self.tenants.position(tenant.name)
        for row in np.flatnonzero(self.table.tenant[: len(self.table)] == position).tolist():
            self._rank(row, self.table.jobs[row])
        self._all_dirty()

    def remove_tenant(self, name: str) -> None:
        """A tenant without jobs counts for nothing any more."""
        if self.has_jobs(name):
            raise EventError(f"tenant {name!r} has jobs that are not over; it can be removed when they are")
        self.tenants.remove(name)
        self._all_dirty()

    def has_jobs(self, tenant: str) -> bool:
        """Whether jobs of a tenant ask, wait or run."""
        if self.tenants.find(tenant) is None:
            return False
        return bool((self.table.tenant[: len(self.table)] == self.tenants.position(tenant)).any())

    def _all_dirty(self) -> None:
        for state in self.kinds.values():
            state.dirty = True

    def remove(self, record: Record, now: float) -> None:
        """Forget a job and free what it holds."""
        table, row = self.table, self.row(record)
        self.of(record).occupancy.release(record.key)
        held_since = float(table.width[row]) * (now - float(table.as_of[row]))
        self.tenants.past[table.tenant[row]] += float(table.attained[row]) + held_since
        self._hold(row, 0)
        useful = int(table.useful[row])
        best_effort = useful * self._is_best_effort(row)
        self.tenants.account.count(int(table.tenant[row]), jobs=-1, useful=-useful, best_effort=-best_effort)
        table.remove(row)
        del self.records[record.key]
        self.confined.pop(record.key, None)
        self.of(record).dirty = True

    def pause(self, record: Record, now: float) -> bool:
        """Take a job out of scheduling; says whether it held devices."""
        table, row = self.table, self.row(record)
        table.project_row(row, now)
        held = bool(table.width[row])
        if held:
            self._lose_unresumable(row, record, now)
        record.paused = Service(
            remaining=float(table.remaining[row]), progressed=float(table.progressed[row]),
            corrected=float(table.corrected[row]), executed=float(table.executed[row]),
            attained=float(table.attained[row]), deserved=float(self.deserved(slice(row, row + 1), now)[0]),
            waited_s=float(table.waited_s[row]), suspensions=int(table.suspensions[row]),
        )  # fmt: skip
        self.remove(record, now)
        return held

    def resume(self, record: Record, service: Service, now: float) -> None:
        """A paused job asks again; what it has done and what is left is as it was."""
        self.add(record, now)
        table, row = self.table, self.row(record)
        table.remaining[row] = service.remaining
        table.progressed[row] = service.progressed
        table.corrected[row] = service.corrected
        table.executed[row] = service.executed
        table.attained[row] = service.attained
        table.deserved[row] += service.deserved
        table.waited_s[row], table.suspensions[row] = service.waited_s, service.suspensions
        self.tenants.past[table.tenant[row]] -= service.attained

    def report(self, record: Record, remaining: float, now: float) -> float:
        """So many iterations are left; returns how many more that is than was projected."""
        table, row = self.table, self.row(record)
        table.project_row(row, now)
        difference = remaining - float(table.remaining[row])
        table.corrected[row] += difference
        table.remaining[row] = remaining
        table.trained_at[row] = math.inf
        table.resumes_at[row] = min(table.resumes_at[row], now)
        table.forecast()
        self.of(record).dirty = True
        return difference

    def foresee(self, record: Record, remaining: float, allowance: float, now: float) -> float:
        """So many iterations are expected to be left, and perhaps so many more; returns by how many more a promise has
        to count on than before."""
        table, row = self.table, self.row(record)
        before = float(table.allowance[row])
        table.allowance[row] = allowance
        return self.report(record, remaining, now) + allowance - before

    def safe_end(self, record: Record, now: float) -> float:
        """When a job ends on what it holds if its metric takes as long as in nine of ten cases; infinite without."""
        table, row = self.table, self.row(record)
        left = table.remaining_at(row, now, now) + float(table.allowance[row])
        rate = float(table.rate[row])
        return max(now, float(table.resumes_at[row])) + left / rate + float(table.end_s[row]) if rate else math.inf

    def _change_job(self, record: Record, row: int, job: Job, now: float) -> None:
        table, was_best_effort = self.table, self._is_best_effort(row)
        table.project_row(row, now)
        record.job = job
        table.set_job(row, job, self.sizes_for(job))
        more = int(table.useful[row]) * (self._is_best_effort(row) - was_best_effort)
        self.tenants.account.count(int(table.tenant[row]), best_effort=more)
        self.count_useful(row)
        self._rank(row, job)

    def change_curve(self, record: Record, job: Job, now: float) -> bool:
        """The job runs as fast as its new curve says; says whether it lost its devices because they are too few."""
        table, row, state = self.table, self.row(record), self.of(record)
        self._change_job(record, row, job, now)
        table.forget_plan(row)
        state.dirty = True
        if not (width := int(table.width[row])):
            return False
        state.occupancy.touch(record.key)
        table.rate[row] = job.curve.rate(width, record.kind, state.occupancy.nodes_of(record.key))
        table.forecast()
        if table.rate[row]:
            return False
        self.let_go(record, now)
        return True

    def amend(self, record: Record, job: Job, now: float) -> bool:
        """The job is another from now on; says whether it lost its devices because they are too few or too many."""
        table, row, state = self.table, self.row(record), self.of(record)
        is_bounded_anew = (job.at_least, job.at_most) != (record.job.at_least, record.job.at_most)
        self._change_job(record, row, job, now)
        state.dirty = True
        width = int(table.width[row])
        if not (width and is_bounded_anew) or width in dict(self.levels(job, record.kind)):
            return False
        self._lose_unresumable(row, record, now)
        self.let_go(record, now)
        return True

    def ask_again(self, record: Record) -> None:
        """What the job was told no longer answers it; it keeps what it holds until it is answered."""
        row = self.row(record)
        self.table.standing[row] = Standing.UNANSWERED
        self.table.forget_plan(row)

    def change_costs(self, record: Record) -> None:
        """Take up what the job now loses by starting, changing and ending."""
        self.table.set_costs(self.row(record), record.job)
        self.table.forecast()
        self.of(record).dirty = True

    def change_resumable(self, record: Record) -> None:
        """Take up whether the job goes on or begins again when its devices change."""
        row = self.row(record)
        self.table.jobs[row], self.table.resumable[row] = record.job, record.job.resumable
        self.of(record).dirty = True

    def change_rules(self, slot: float, keeping: set[int]) -> None:
        """Decisions come at another pace; of the plans only those of ``keeping`` are kept."""
        for state in self.kinds.values():
            state.change_pace(slot)
        for key, row in self.table.row_of.items():
            if key not in keeping:
                self.table.forget_plan(row)

    def withdraw(self, record: Record, why: str, now: float, out: list[Instruction]) -> None:
        """Take a promise back: the job runs at best effort from now on, and everybody is told."""
        quote = replace(
            _quote(record),
            verdict=Verdict.BEST_EFFORT,
            reason=f"its promise is withdrawn: {why}",
            finish_at=math.inf,
            deadline=math.inf,
        )
        record.quote = quote
        self.table.standing[self.row(record)] = Standing.ADMITTED
        record.tell(now, quote.reason)
        out.append(Withdraw(quote))

    def stop_gang(self, record: Record, now: float) -> None:
        """Its workers are gone: what was done since the last checkpoint is lost, and so are the devices."""
        table, row = self.table, self.row(record)
        table.project_row(row, now)
        if record.job.resumable:
            lost = self._unsaved(row, record)
            table.remaining[row] += lost
            table.progressed[row] -= lost
        else:
            self._lose_unresumable(row, record, now)
        self.let_go(record, now)

    def let_go(self, record: Record, now: float) -> None:
        """Take a job's devices away without loss."""
        self.of(record).occupancy.release(record.key)
        self._let_go(self.row(record), record, now)
        self.of(record).dirty = True

    def promised(self, kind: str | None = None) -> Sequence[Record]:
        """The jobs that were promised something, on all kinds or where they hold or are planned on this one."""
        table, used = self.table, slice(len(self.table))
        chosen = table.standing[used] == Standing.PROMISED
        if kind is not None:
            chosen &= (table.bound[used] == self.position(kind)) | (table.plan_kind[used] == self.position(kind))
        return [self.records[key] for key in table.sequence[used][chosen].tolist()]

    def apply(self, draft: Draft, now: float, out: list[Instruction]) -> None:
        """Carry out what was decided. O(jobs) vector work, plus work per change."""
        told = draft.suspended and self.records[draft.suspended[0]].story is not None
        reasons = draft.reasons() if told else {}
        used = self.table.rows_of(self.positions(tuple(draft.wake_at)))
        self.table.adopt(draft.projection or self.table.projected(now, used), used)
        for key, quote in draft.quotes:
            self._answer(self.records[key], quote, now, out)
        for key in draft.suspended:
            self._suspend(self.records[key], reasons.get(key, ""), now, out)
        for key, kind, devices in draft.grants:
            self._grant(self.records[key], kind, devices, now, out)
        for key, rate in draft.rates.items():
            self.table.rate[self.table.row_of[key]] = rate
        self._keep_columns(draft, now)
        for kind, wake_at in draft.wake_at.items():
            self.kinds[kind].decided(now, wake_at)

    def _keep_columns(self, draft: Draft, now: float) -> None:
        table = self.table
        rows: Any = slice(len(table)) if draft.keys is None else table.rows_by_key(draft.keys)
        if draft.pauses is not None:
            table.resumes_at[rows] = np.maximum(table.resumes_at[rows], now + draft.pauses)
        table.forecast()
        if draft.plans is not None:
            table.keep(draft.plans, rows)

    def offers_at(self, now: float, slot: float) -> list[Offer]:
        """The counter-offers that are held; one expires when nobody who accepted it in time can still be asking."""
        return [offer for offer in self.offers if now <= offer.quote.offer_until + slot]

    def _answer(self, record: Record, quote: Quote, now: float, out: list[Instruction]) -> None:
        record.quote = quote
        out.append(_ANSWER[quote.verdict](quote))
        record.tell(now, f"{quote.verdict}: {quote.reason}")
        if self.offers or quote.held is not None:
            self.offers = offers_after(self.offers_at(now, self.of(record).slot), record.job, quote)
        if quote.verdict is Verdict.REFUSED:
            record.state = JobState.DECLINED
            self.remove(record, now)
            return
        row = self.row(record)
        self.table.standing[row] = STANDING[quote.verdict]
        if quote.verdict is not Verdict.DEFERRED:
            waiting = JobState.SUSPENDED if record.has_run else JobState.PENDING
            record.state = JobState.RUNNING if self.table.width[row] else waiting

    def _suspend(self, record: Record, why: str, now: float, out: list[Instruction]) -> None:
        row = self.row(record)
        out.append(Suspend(record.job.id, why))
        record.tell(now, why or f"suspended: its {self.table.width[row]} devices go to others")
        self._lose_unresumable(row, record, now)
        self.table.suspensions[row] += 1
        self._let_go(row, record, now)

    def _let_go(self, row: int, record: Record, now: float) -> None:
        table = self.table
        self._hold(row, 0)
        table.rate[row] = 0.0
        table.finish_at[row] = table.trained_at[row] = math.inf
        table.unsaved_s[row] = 0.0
        table.stint_since[row] = now
        if record.state is JobState.RUNNING:
            record.state = JobState.SUSPENDED

    def _grant(self, record: Record, kind: str, devices: tuple[int, ...], now: float, out: list[Instruction]) -> None:
        table, row = self.table, self.row(record)
        grant = Grant(record.job.id, kind, devices, self.kinds[kind].occupancy.nodes_of(record.key))
        held = int(table.width[row])
        out.append(_instruct(record, grant, held))
        if record.story is not None:
            record.tell(now, _describe_grant(record, grant, held))
        if held:
            self._lose_unresumable(row, record, now)
        if kind != record.kind:
            record.kind = kind
            table.bound[row] = self.position(kind)
            self.count_useful(row)
        if held == 0:
            table.waited_before[row] = now - table.stint_since[row]
            table.waited_s[row] += table.waited_before[row]
            table.stint_since[row] = now
        self._hold(row, grant.width)
        table.rate[row] = record.job.curve.rate(grant.width, kind, grant.nodes)
        table.unsaved_s[row] = 0.0
        record.has_run = True
        if record.state in (JobState.PENDING, JobState.SUSPENDED):
            record.state = JobState.RUNNING

    def _lose_unresumable(self, row: int, record: Record, now: float) -> None:
        """A job that cannot resume begins again."""
        if not record.job.resumable:
            lost, seconds = self.table.begin_again(row), float(self.table.unsaved_s[row])
            if lost > 0:
                record.tell(now, _describe_loss(lost, seconds))

    def _unsaved(self, row: int, record: Record) -> float:
        """Iterations since the last checkpoint; one is also written whenever the devices change."""
        table = self.table
        since = math.fmod(float(table.unsaved_s[row]), record.job.checkpoint_every_s)
        return min(float(table.rate[row]) * since, float(table.progressed[row]))


def _instruct(record: Record, grant: Grant, held: int) -> Instruction:
    make: Callable[[Grant], Instruction] = Resize if held else Resume if record.has_run else Start
    return make(grant)


def _describe_grant(record: Record, grant: Grant, held: int) -> str:
    where = (
        f"{grant.width} device{'s' if grant.width > 1 else ''} on {grant.nodes} node{'s' if grant.nodes > 1 else ''}"
    )
    if not held:
        return f"resumed on {where}" if record.has_run else f"started on {where}"
    if grant.kind != record.kind:
        return f"moved from {record.kind} to {grant.kind}: {where}"
    if held == grant.width:
        return f"moved to other devices: {where}"
    return f"{'grew' if grant.width > held else 'shrank'} from {held} to {where}"


def _describe_loss(lost: float, seconds: float) -> str:
    return (
        f"it begins again, {format_duration(seconds)} of work ({counted(lost, 'iteration')}) are lost: "
        "nothing says that it can resume"
    )


def _quote(record: Record) -> Quote:
    return record.quote or Quote(job_id=record.job.id, verdict=Verdict.PROMISED, reason="")
