"""One kind of device: its jobs, who holds what, and the round in which that changes.

A round is the only moment a job gains or loses devices by choice: progress is projected, those who asked are answered,
the policy says how many, the placement says which, the cost model says how long everyone stands still.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np

from penstock.core import (
    Admit,
    Cluster,
    Decline,
    Defer,
    Grant,
    Instruction,
    InvariantError,
    Quote,
    Resize,
    Resume,
    Start,
    Suspend,
    Verdict,
)
from penstock.placement import Ask, Occupancy, Placement
from penstock.policies import Admission, Allocator, Bools, Ints, Standing, View
from penstock.scheduler.costs import CostModel, Round
from penstock.scheduler.states import JobState, Record
from penstock.scheduler.table import JobTable

_STANDING = {
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


class Pool:
    """Everything the scheduler knows about the devices of one kind and the jobs on them."""

    def __init__(
        self,
        cluster: Cluster,
        kind: str,
        *,
        admission: Admission,
        allocation: Allocator,
        placement: Placement,
        costs: CostModel,
        slot: float,
    ) -> None:
        self.kind = kind
        self.admission = admission
        self.allocation = allocation
        self.placement = placement
        self.costs = costs
        self.slot = slot
        self.table = JobTable(kind)
        self.occupancy = Occupancy(cluster, kind)
        self.size = cluster.capacity(kind)
        self.records: dict[int, Record] = {}
        self.dirty = False
        self.last_round = -math.inf
        self.wake_at = math.inf
        self.interval = slot

    def copy(self, costs: CostModel) -> "Pool":
        """An independent pool whose jobs have no stories."""
        other = Pool.__new__(Pool)
        other.__dict__.update(self.__dict__)
        other.costs = costs
        other.table, other.occupancy = self.table.copy(), self.occupancy.copy()
        other.records = {key: record.copy() for key, record in self.records.items()}
        return other

    @property
    def due_at(self) -> float:
        """When the next round should happen if no further event comes."""
        earliest = self.last_round + self.slot
        return earliest if self.dirty else max(self.wake_at, earliest)

    def add(self, record: Record, now: float) -> None:
        self.records[record.key] = record
        self.table.add(record.job, record.key, now, self.size)
        self.dirty = True

    def remove(self, record: Record) -> None:
        """Forget a job and free what it holds."""
        self.occupancy.release(record.key)
        self.table.remove(self.table.row_of[record.key])
        del self.records[record.key]
        self.dirty = True

    def stop_gang(self, record: Record, now: float) -> None:
        """Its workers are gone: what was done since the last checkpoint is lost, and so are the devices."""
        table, row = self.table, self.table.row_of[record.key]
        table.project_row(row, now)
        lost = self._unsaved(row, record)
        table.remaining[row] += lost
        table.progressed[row] -= lost
        self.let_go(record, now)

    def let_go(self, record: Record, now: float) -> None:
        """Take a job's devices away without loss."""
        self.occupancy.release(record.key)
        self._let_go(self.table.row_of[record.key], record, now)
        self.dirty = True

    def view(self, now: float) -> View:
        return self.table.view(now, self.occupancy.capacity, self.slot, self.interval, self.costs.overhead)

    def backlog(self, now: float) -> list[tuple[str, float, float]]:
        """(job, device-seconds still needed at its narrowest, projected end), the cheapest first."""
        view, ends = self.view(now), self.table.finish_at[: len(self.table)]
        standing = np.where(view.width > 0, view.still_s, view.start_s)
        seconds = view.levels[:, 0] * (view.remaining / view.rates[:, 0] + standing)
        order = np.argsort(seconds, kind="stable").tolist()
        return [(self.table.jobs[row].id, float(seconds[row]), float(ends[row])) for row in order]

    def round(self, now: float, out: list[Instruction]) -> None:
        """Decide for everyone. O(jobs) vector work, plus work per change."""
        self._note_round(now)
        self.table.project(now)
        self._answer(now, out)
        self.dirty = False
        if len(self.table):
            decision = self.allocation.allocate(self.view(now))
            self._check(decision.widths)
            self._carry_out(now, decision.widths, out)
            if decision.plans is not None:
                self.table.keep(decision.plans)
            self.wake_at = decision.wake_at if decision.wake_at > now else math.inf

    def _note_round(self, now: float) -> None:
        gap = now - self.last_round
        if self.slot and math.isfinite(gap):
            gap = min(max(gap, self.slot), _CALM_SLOTS * self.slot)
            self.interval += 0.1 * (gap - self.interval)
        self.last_round = now
        self.wake_at = math.inf

    def _answer(self, now: float, out: list[Instruction]) -> None:
        rows = self.table.undecided()
        if not len(rows):
            return
        keys = self.table.sequence[rows].tolist()
        quotes = self.admission.admit(self.view(now), rows)
        for key, quote in zip(keys, quotes, strict=True):
            self._settle(self.records[key], quote, now, out)

    def _settle(self, record: Record, quote: Quote, now: float, out: list[Instruction]) -> None:
        before, record.quote = record.quote, quote
        if before is not None and before.verdict is quote.verdict:
            return
        out.append(_ANSWER[quote.verdict](quote))
        record.tell(now, f"{quote.verdict}: {quote.reason}")
        if quote.verdict is Verdict.REFUSED:
            record.state = JobState.DECLINED
            self.remove(record)
            return
        row = self.table.row_of[record.key]
        self.table.standing[row] = _STANDING[quote.verdict]
        if quote.verdict is not Verdict.DEFERRED:
            waiting = JobState.SUSPENDED if record.has_run else JobState.PENDING
            record.state = JobState.RUNNING if self.table.width[row] else waiting

    def _check(self, widths: Ints) -> None:
        """A policy that grants what is not there, or what a job cannot use, is wrong: say so at once."""
        if widths.shape != (len(self.table),):
            raise InvariantError(f"{len(self.table)} jobs but widths of shape {widths.shape}")
        if int(widths.sum()) > self.occupancy.capacity:
            raise InvariantError(f"{widths.sum()} devices granted, {self.occupancy.capacity} exist")
        new = np.flatnonzero(widths != self.table.width[: len(self.table)])
        wanted = widths[new]
        usable = (wanted == 0) | (wanted == self.table.requested[new])
        usable |= (self.table.levels[new] == wanted[:, None]).any(axis=1)
        if not usable.all():
            row = int(new[~usable][0])
            raise InvariantError(f"job {self.table.jobs[row].id!r} cannot use {widths[row]} devices")

    def _carry_out(self, now: float, widths: Ints, out: list[Instruction]) -> None:
        table = self.table
        old = table.width[: len(table)].copy()
        different = np.flatnonzero(widths != old)
        for row in different[widths[different] == 0].tolist():
            self._suspend(row, now, out)
        changed = np.zeros(len(table), dtype=bool)
        asks = [self._ask(row, int(widths[row])) for row in different[widths[different] > 0].tolist()]
        for key, devices in self.placement.place(self.occupancy, asks).items() if asks else ():
            row = table.row_of[key]
            changed[row] = True
            self._grant(row, devices, now, out)
        self._pause(now, old, widths, changed)
        table.forecast()

    def _ask(self, row: int, width: int) -> Ask:
        key = int(self.table.sequence[row])
        return Ask(key, width, self.occupancy.devices(key))

    def _suspend(self, row: int, now: float, out: list[Instruction]) -> None:
        record = self.records[int(self.table.sequence[row])]
        self.occupancy.release(record.key)
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

    def _grant(self, row: int, devices: tuple[int, ...], now: float, out: list[Instruction]) -> None:
        table = self.table
        record = self.records[int(table.sequence[row])]
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

    def _pause(self, now: float, old: Ints, widths: Ints, changed: Bools) -> None:
        """Whoever was touched stands still: for what the decision costs, and what it costs this very job."""

        def devices_of(row: int) -> tuple[int, ...]:
            return self.occupancy.devices(int(self.table.sequence[row]))

        used = slice(len(self.table))
        own = np.where(old > 0, self.table.change_s(now), self.table.start_s[used])
        pauses = self.costs.pauses(Round(widths, changed, self.size, devices_of)) + np.where(changed, own, 0.0)
        resumes_at = self.table.resumes_at[used]
        np.maximum(resumes_at, now + pauses, out=resumes_at)

    def _unsaved(self, row: int, record: Record) -> float:
        """Iterations since the last checkpoint; one is also written whenever the devices change."""
        table = self.table
        since = math.fmod(float(table.unsaved_s[row]), record.job.checkpoint_every_s)
        return min(float(table.rate[row]) * since, float(table.progressed[row]))

    def promised(self) -> Iterable[Record]:
        used = slice(len(self.table))
        keys = self.table.sequence[used][self.table.standing[used] == Standing.PROMISED]
        return [self.records[key] for key in keys.tolist()]


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
