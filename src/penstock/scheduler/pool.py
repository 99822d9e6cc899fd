"""The devices of one kind and the jobs on them: how events and decisions change who holds what.

Nothing here chooses. A job gains or loses devices because an event says so (its worker failed, its node was lost) or
because a decision does; both are applied the same way whether they come from a policy just asked or from a log.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.core import (
    Admit,
    Cluster,
    Decline,
    Defer,
    Grant,
    Instruction,
    Job,
    Quote,
    Resize,
    Resume,
    Start,
    Suspend,
    Verdict,
    Withdraw,
)
from penstock.placement import Occupancy
from penstock.policies import Floats, Plans, Standing
from penstock.scheduler.records import JobState, Record, Service
from penstock.scheduler.table import JobTable, Projection

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
_CALM_SLOTS = 20
"""Gaps longer than this many slots say nothing about how often decisions are taken under load."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoolDecision:
    """A decision about one kind of device, with jobs as keys and columns over the rows that are left after it.

    Rows of jobs that are refused are gone; the others stand as :meth:`JobTable.remove` leaves them. ``projection`` is
    the progress up to now where that has been computed already. The occupancy has the grants on trial.
    """

    wake_at: float = math.inf
    quotes: Sequence[tuple[int, Quote]] = ()
    suspended: Sequence[int] = ()
    grants: Sequence[tuple[int, tuple[int, ...]]] = ()
    rates: dict[int, float] = field(default_factory=dict)
    pauses: Floats | None = None
    plans: Plans | None = None
    projection: Projection | None = None


class Pool:
    """Everything the scheduler knows about the devices of one kind and the jobs on them."""

    def __init__(self, cluster: Cluster, kind: str, slot: float) -> None:
        self.kind = kind
        self.slot = slot
        self.table = JobTable(kind)
        self.occupancy = Occupancy(cluster, kind)
        self.size = cluster.capacity(kind)
        self.records: dict[int, Record] = {}
        self.dirty = False
        self.last_round = -math.inf
        self.wake_at = math.inf
        self.interval = slot

    def copy(self) -> "Pool":
        """An independent pool whose jobs have no stories."""
        other = Pool.__new__(Pool)
        other.__dict__.update(self.__dict__)
        other.table, other.occupancy = self.table.copy(), self.occupancy.copy()
        other.records = {key: record.copy() for key, record in self.records.items()}
        return other

    @property
    def due_at(self) -> float:
        """When the next decision should be taken if no further event comes."""
        earliest = self.last_round + self.slot
        return earliest if self.dirty else max(self.wake_at, earliest)

    def interval_at(self, now: float) -> float:
        """The recent mean time between decisions, if one is taken now."""
        gap = now - self.last_round
        if not (self.slot and math.isfinite(gap)):
            return self.interval
        gap = min(max(gap, self.slot), _CALM_SLOTS * self.slot)
        return self.interval + 0.1 * (gap - self.interval)

    def row(self, record: Record) -> int:
        return self.table.row_of[record.key]

    def add(self, record: Record, now: float) -> None:
        self.records[record.key] = record
        self.table.add(record.job, record.key, now, self.size)
        self.dirty = True

    def remove(self, record: Record) -> None:
        """Forget a job and free what it holds."""
        self.occupancy.release(record.key)
        self.table.remove(self.row(record))
        del self.records[record.key]
        self.dirty = True

    def pause(self, record: Record, now: float) -> bool:
        """Take a job out of scheduling; says whether it held devices."""
        table, row = self.table, self.row(record)
        table.project_row(row, now)
        held = bool(table.width[row])
        record.paused = Service(
            remaining=float(table.remaining[row]), progressed=float(table.progressed[row]),
            corrected=float(table.corrected[row]), executed=float(table.executed[row]),
            attained=float(table.attained[row]),
        )  # fmt: skip
        self.remove(record)
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
        self.dirty = True
        return difference

    def change_curve(self, record: Record, job: Job, now: float) -> bool:
        """The job runs as fast as its new curve says; says whether it lost its devices because they are too few."""
        table, row = self.table, self.row(record)
        table.project_row(row, now)
        record.job = job
        table.set_curve(row, job, self.size)
        table.forget_plan(row)
        self.dirty = True
        if not (width := int(table.width[row])):
            return False
        table.rate[row] = job.curve.rate(width, self.kind, self.occupancy.nodes_of(record.key))
        table.forecast()
        if table.rate[row]:
            return False
        self.let_go(record, now)
        return True

    def change_costs(self, record: Record) -> None:
        """Take up what the job now loses by starting, changing and ending."""
        self.table.set_costs(self.row(record), record.job)
        self.table.forecast()
        self.dirty = True

    def change_rules(self, slot: float, keeping: set[int]) -> None:
        """Decisions come at another pace; of the plans only those of ``keeping`` are kept."""
        self.slot = self.interval = slot
        for key, row in self.table.row_of.items():
            if key not in keeping:
                self.table.forget_plan(row)
        self.dirty = True

    def withdraw(self, record: Record, why: str, now: float, out: list[Instruction]) -> None:
        """Take a promise back: the job runs at best effort from now on, and everybody is told."""
        assert record.quote is not None
        record.quote = replace(
            record.quote, verdict=Verdict.BEST_EFFORT, reason=f"its promise is withdrawn: {why}", finish_at=math.inf
        )
        self.table.standing[self.row(record)] = Standing.ADMITTED
        record.tell(now, record.quote.reason)
        out.append(Withdraw(record.quote))

    def resize(self, size: int) -> None:
        """The cluster has more or fewer devices of this kind; who cannot run on so few keeps the widths it had."""
        self.size = size
        for row, job in enumerate(self.table.jobs):
            if job.curve.levels(self.kind, job.at_least, min(job.at_most or size, size)):
                self.table.set_curve(row, job, size)
        self.dirty = True

    def stop_gang(self, record: Record, now: float) -> None:
        """Its workers are gone: what was done since the last checkpoint is lost, and so are the devices."""
        table, row = self.table, self.row(record)
        table.project_row(row, now)
        lost = self._unsaved(row, record)
        table.remaining[row] += lost
        table.progressed[row] -= lost
        self.let_go(record, now)

    def let_go(self, record: Record, now: float) -> None:
        """Take a job's devices away without loss."""
        self.occupancy.release(record.key)
        self._let_go(self.row(record), record, now)
        self.dirty = True

    def promised(self) -> Sequence[Record]:
        used = slice(len(self.table))
        keys = self.table.sequence[used][self.table.standing[used] == Standing.PROMISED]
        return [self.records[key] for key in keys.tolist()]

    def apply(self, decision: PoolDecision, now: float, out: list[Instruction]) -> None:
        """Carry out what was decided. O(jobs) vector work, plus work per change."""
        self.occupancy.settle()
        self.interval = self.interval_at(now)
        self.last_round = now
        self.table.adopt(decision.projection or self.table.projected(now))
        for key, quote in decision.quotes:
            self._answer(self.records[key], quote, now, out)
        for key in decision.suspended:
            self._suspend(self.records[key], now, out)
        for key, devices in decision.grants:
            self._grant(self.records[key], devices, now, out)
        for key, rate in decision.rates.items():
            self.table.rate[self.table.row_of[key]] = rate
        if decision.pauses is not None:
            resumes_at = self.table.resumes_at[: len(self.table)]
            np.maximum(resumes_at, now + decision.pauses, out=resumes_at)
        self.table.forecast()
        if decision.plans is not None:
            self.table.keep(decision.plans)
        self.wake_at = decision.wake_at
        self.dirty = False

    def _answer(self, record: Record, quote: Quote, now: float, out: list[Instruction]) -> None:
        record.quote = quote
        out.append(_ANSWER[quote.verdict](quote))
        record.tell(now, f"{quote.verdict}: {quote.reason}")
        if quote.verdict is Verdict.REFUSED:
            record.state = JobState.DECLINED
            self.remove(record)
            return
        row = self.row(record)
        self.table.standing[row] = STANDING[quote.verdict]
        if quote.verdict is not Verdict.DEFERRED:
            waiting = JobState.SUSPENDED if record.has_run else JobState.PENDING
            record.state = JobState.RUNNING if self.table.width[row] else waiting

    def _suspend(self, record: Record, now: float, out: list[Instruction]) -> None:
        row = self.row(record)
        out.append(Suspend(record.job.id))
        record.tell(now, f"suspended: its {self.table.width[row]} devices go to others")
        self._let_go(row, record, now)

    def _let_go(self, row: int, record: Record, now: float) -> None:
        table = self.table
        table.width[row] = 0
        table.rate[row] = 0.0
        table.finish_at[row] = table.trained_at[row] = math.inf
        table.unsaved_s[row] = 0.0
        table.stint_since[row] = now
        if record.state is JobState.RUNNING:
            record.state = JobState.SUSPENDED

    def _grant(self, record: Record, devices: tuple[int, ...], now: float, out: list[Instruction]) -> None:
        table, row = self.table, self.row(record)
        grant = Grant(record.job.id, self.kind, devices, self.occupancy.nodes_of(record.key))
        held = int(table.width[row])
        out.append(_instruct(record, grant, held))
        if record.story is not None:
            record.tell(now, _describe_grant(record, grant, held))
        if held == 0:
            table.waited_before[row] = now - table.stint_since[row]
            table.stint_since[row] = now
        table.width[row] = grant.width
        table.rate[row] = record.job.curve.rate(grant.width, self.kind, grant.nodes)
        table.unsaved_s[row] = 0.0
        record.has_run = True
        if record.state in (JobState.PENDING, JobState.SUSPENDED):
            record.state = JobState.RUNNING

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
    if held == grant.width:
        return f"moved to other devices: {where}"
    return f"{'grew' if grant.width > held else 'shrank'} from {held} to {where}"
