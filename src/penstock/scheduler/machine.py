"""The scheduler: events in, instructions out.

No clock, no thread, no socket, no randomness: time is what events say it is. The simulator feeds it from a trace, the
live system from the world, and both carry out the same instructions. Decisions are taken in rounds that are at least
one slot apart; events in between are recorded at once and acted upon in the next round.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.core import (
    ANY_KIND,
    FREE,
    Cluster,
    CostsChanged,
    Curve,
    CurveChanged,
    Decline,
    Event,
    EventError,
    Instruction,
    InvariantError,
    Job,
    JobCancelled,
    JobFinished,
    JobSubmitted,
    NodeJoined,
    NodeLost,
    Progress,
    Quote,
    Stop,
    Suspend,
    Tick,
    Verdict,
    Wake,
    WorkerFailed,
    format_duration,
)
from penstock.placement import Placement, placement_named
from penstock.policies import Admission, Policy
from penstock.scheduler.costs import CostModel, ExpectedCosts
from penstock.scheduler.pool import Pool
from penstock.scheduler.states import FINAL, JobState, Record
from penstock.scheduler.story import Story
from penstock.scheduler.table import LEAST_WORK

_ROUNDING = 1e-9
_LATE_TOLERANCE_S = 1e-3
_WORTHWHILE = 2.0
"""Decisions are at least this many times as far apart as one costs everybody, so that work gets done in between."""


class Scheduler:
    """Who runs when, where and on how many devices.

    ``policy`` decides widths and, unless another ``admission`` is given, answers jobs; ``placement`` defaults to what
    the policy prefers. ``slot`` is the shortest time between two decisions (longer if each costs everybody much).
    ``costs`` says what a decision costs the jobs it touches. With ``stories=False`` finished jobs are forgotten, so
    memory follows the jobs that are active.
    """

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        *,
        admission: Admission | None = None,
        placement: Placement | None = None,
        slot: float = 0.0,
        costs: CostModel | None = None,
        stories: bool = True,
    ) -> None:
        self.cluster = cluster
        self.policy = policy
        self._admission = admission or policy
        self._placement = placement or placement_named(policy.placement)
        self._costs = costs or ExpectedCosts()
        self.slot = max(slot, _WORTHWHILE * self._costs.overhead.every_round_s)
        self._stories = stories
        self._records: dict[str, Record] = {}
        self._pools = {kind: self._new_pool(kind) for kind in cluster.kinds}
        self._down: set[str] = set()
        self._sequence = 0
        self._outbox: list[Instruction] = []
        self._broken: list[str] = []
        self._promises_bind = policy.overhead_proof or self._costs.overhead == FREE
        self.now = -math.inf
        self._handlers = self._handling()

    def _handling(self) -> dict[type, Callable[[Any], None]]:
        return {
            JobSubmitted: self._on_submitted,
            JobCancelled: self._on_cancelled,
            JobFinished: self._on_finished,
            Progress: self._on_progress,
            CurveChanged: self._on_curve_changed,
            CostsChanged: self._on_costs_changed,
            WorkerFailed: self._on_worker_failed,
            NodeLost: self._on_node_lost,
            NodeJoined: self._on_node_joined,
            Tick: lambda _: None,
        }

    def handle(self, *events: Event) -> list[Instruction]:
        """Take in what happened, in order of time, and say what to do now.

        An event that does not fit raises :class:`EventError` and changes nothing; instructions that earlier events of
        the same call gave rise to are not lost but come with the next call.
        """
        for event in events:
            if not event.at >= self.now:
                raise EventError(f"{event} happened before {self.now}; events must come in order of time")
            self._handlers[type(event)](event)
            self.now = event.at
        for pool in self._pools.values():
            if pool.due_at <= self.now + _ROUNDING:
                pool.round(self.now, self._outbox)
        wake_at = min(pool.due_at for pool in self._pools.values())
        if math.isfinite(wake_at):
            self._outbox.append(Wake(wake_at))
        sent, self._outbox = self._outbox, []
        return sent

    def next_finish_at(self) -> float:
        """When the first running job will be done if nothing changes; inf if none runs."""
        return min(
            (float(pool.table.finish_at[: len(pool.table)].min()) for pool in self._pools.values() if len(pool.table)),
            default=math.inf,
        )

    def finishing_by(self, at: float) -> list[tuple[float, str]]:
        """Running jobs projected to be done by ``at``, with their times, in order."""
        done: list[tuple[float, str]] = []
        for pool in self._pools.values():
            ends = pool.table.finish_at[: len(pool.table)]
            done.extend((float(ends[row]), pool.table.jobs[row].id) for row in (ends <= at).nonzero()[0].tolist())
        return sorted(done)

    def earliest_round(self, event_at: float) -> float:
        """When the scheduler could first decide if the next event came at ``event_at``."""
        return max(event_at, min(pool.last_round for pool in self._pools.values()) + self.slot)

    def is_active(self, job_id: str) -> bool:
        """Whether the job is known and not in a final state."""
        record = self._records.get(job_id)
        return record is not None and record.state not in FINAL

    def state_of(self, job_id: str) -> JobState:
        return self._record(job_id).state

    def quote_of(self, job_id: str) -> Quote | None:
        return self._record(job_id).quote

    def devices_of(self, job_id: str) -> tuple[int, ...]:
        record = self._record(job_id)
        return self._pools[record.kind].occupancy.devices(record.key)

    def remaining(self, job_id: str, at: float | None = None) -> float:
        """Iterations left, as projected for ``at`` or the time of the last event."""
        record = self._record(job_id)
        if record.state in FINAL:
            return 0.0
        table = self._pools[record.kind].table
        row = table.row_of[record.key]
        table.project_row(row, self.now)
        return table.remaining_at(row, self.now if at is None else max(at, self.now))

    def pause_ends_at(self, job_id: str) -> float:
        """Until when a job that holds devices is believed to make no progress on them."""
        record = self._record(job_id)
        table = self._pools[record.kind].table
        return float(table.resumes_at[table.row_of[record.key]]) if record.state not in FINAL else -math.inf

    def can_use(self, job_id: str, curve: Curve) -> bool:
        """Whether a job would have a width to run on if this were its curve."""
        record, pool = self._live_record(job_id)
        job = record.job
        return bool(curve.levels(pool.kind, job.at_least, min(job.at_most or pool.size, pool.size)))

    def active_count(self) -> int:
        return sum(len(pool.records) for pool in self._pools.values())

    def active(self) -> list[str]:
        """Jobs that are not in a final state, in order of arrival."""
        records = [record for pool in self._pools.values() for record in pool.records.values()]
        return [record.job.id for record in sorted(records, key=lambda record: record.key)]

    def capacity(self, kind: str) -> int:
        """Devices of a kind in working nodes."""
        return self._pools[kind].occupancy.capacity

    def backlog(self) -> dict[str, list[tuple[str, float, float]]]:
        """By kind: every active job, the device-seconds it still needs at its narrowest, and its projected end.

        The cheapest comes first; a job without devices has no projected end.
        """
        return {kind: pool.backlog(self.now) for kind, pool in self._pools.items()}

    def why(self, job_id: str) -> Story:
        """Everything that happened to a job, and why it stands where it stands."""
        record = self._record(job_id)
        if record.story is None:
            raise EventError("this scheduler keeps no stories; create it with stories=True")
        if record.state in FINAL:
            record.story.now = ""
            return record.story
        pool = self._pools[record.kind]
        pool.table.project(self.now)
        record.story.now = self.policy.explain(pool.view(self.now), pool.table.row_of[record.key])
        return record.story

    def fragmentation(self) -> float:
        """Share of free devices that sit in partly used nodes, over all kinds."""
        free = sum(pool.occupancy.free for pool in self._pools.values())
        stranded = sum(pool.occupancy.fragmentation() * pool.occupancy.free for pool in self._pools.values())
        return stranded / free if free else 0.0

    def devices_held(self) -> int:
        return sum(int(pool.table.width[: len(pool.table)].sum()) for pool in self._pools.values())

    def twin(self) -> "Scheduler":
        """An independent copy without stories, to try things out on.

        What never changes (jobs, policy, placement, cluster) is shared; jobs that are over are unknown to it.
        O(active jobs).
        """
        twin = Scheduler.__new__(Scheduler)
        twin.__dict__.update(self.__dict__)
        twin._costs = copy.deepcopy(self._costs)
        twin._stories = False
        twin._pools = {kind: pool.copy(twin._costs) for kind, pool in self._pools.items()}
        twin._records = {record.job.id: record for pool in twin._pools.values() for record in pool.records.values()}
        twin._down, twin._outbox, twin._broken = self._down.copy(), self._outbox.copy(), self._broken.copy()
        twin._handlers = twin._handling()
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_handlers"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._handlers = self._handling()

    def validate(self) -> None:
        """Check every invariant of the state; raises :class:`InvariantError`. O(jobs + devices)."""
        from penstock.scheduler.invariants import check_pool

        if self._broken:
            raise InvariantError(f"promised deadlines missed without an outside cause: {', '.join(self._broken)}")
        for pool in self._pools.values():
            check_pool(pool, self.now, promises_bind=self._promises_bind)

    def _new_pool(self, kind: str) -> Pool:
        return Pool(
            self.cluster, kind, admission=self._admission, allocation=self.policy, placement=self._placement,
            costs=self._costs, slot=self.slot,
        )  # fmt: skip

    def _record(self, job_id: str) -> Record:
        try:
            return self._records[job_id]
        except KeyError:
            raise EventError(f"no job {job_id!r} is known here") from None

    def _live_record(self, job_id: str) -> tuple[Record, Pool]:
        record = self._record(job_id)
        if record.state in FINAL:
            raise EventError(f"job {job_id!r} is already {record.state}")
        return record, self._pools[record.kind]

    def _on_submitted(self, event: JobSubmitted) -> None:
        job = event.job
        if job.id in self._records:
            raise EventError(f"a job {job.id!r} is already known; ids are used once")
        kind = self.kind_for(job)
        record = Record(job, self._sequence, kind or self.cluster.kinds[0], story=self._new_story(job))
        if record.story is not None:
            record.tell(event.at, _describe_request(job))
        self._sequence += 1
        if kind is None:
            self._turn_away(record, event.at)
        else:
            self._records[job.id] = record
            self._pools[kind].add(record, event.at)

    def _turn_away(self, record: Record, now: float) -> None:
        sizes = ", ".join(f"{pool.size} of {kind}" for kind, pool in self._pools.items())
        job = record.job
        least = max(job.at_least, min(scaling.counts[0] for _, scaling in job.curve.scalings))
        wants = " or ".join(job.kinds or [kind for kind in job.curve.kinds if kind != ANY_KIND] or ["any kind"])
        reason = f"no device it can use: it needs at least {least} of {wants}, the cluster has {sizes}"
        record.state = JobState.DECLINED
        record.quote = Quote(job_id=record.job.id, verdict=Verdict.REFUSED, reason=reason)
        record.tell(now, f"refused: {reason}")
        if self._stories:
            self._records[record.job.id] = record
        self._outbox.append(Decline(record.quote))

    def kind_for(self, job: Job) -> str | None:
        """The kind this job runs fastest on, among those it accepts and that can hold it."""
        best, best_rate = None, 0.0
        for kind, pool in self._pools.items():
            if job.kinds and kind not in job.kinds:
                continue
            levels = job.curve.levels(kind, job.at_least, min(job.at_most or pool.size, pool.size))
            if levels and levels[-1][1] > best_rate:
                best, best_rate = kind, levels[-1][1]
        return best

    def _new_story(self, job: Job) -> Story | None:
        return Story(job.id) if self._stories else None

    def _on_cancelled(self, event: JobCancelled) -> None:
        record, _ = self._live_record(event.job_id)
        record.tell(event.at, "cancelled")
        self._outbox.append(Stop(event.job_id, "cancelled"))
        self._close(record, JobState.CANCELLED)

    def _on_finished(self, event: JobFinished) -> None:
        record, pool = self._live_record(event.job_id)
        if not pool.table.width[pool.table.row_of[record.key]]:
            raise EventError(f"job {event.job_id!r} cannot finish: it holds no devices")
        late = event.at - record.job.deadline
        if record.story is not None:
            record.tell(event.at, "finished" + (f", {format_duration(late)} late" if late > 0 else ""))
        promised = record.quote is not None and record.quote.verdict is Verdict.PROMISED
        if promised and late > _LATE_TOLERANCE_S and not record.excuse and self._promises_bind:
            self._broken.append(f"{event.job_id} by {format_duration(late)}")
        self._close(record, JobState.FINISHED)

    def _close(self, record: Record, state: JobState) -> None:
        self._pools[record.kind].remove(record)
        record.state = state
        if not self._stories:
            del self._records[record.job.id]

    def _on_progress(self, event: Progress) -> None:
        record, pool = self._live_record(event.job_id)
        if not (math.isfinite(event.remaining) and event.remaining >= 0):
            raise EventError(f"job {event.job_id!r} reports {event.remaining} iterations left; allowed: zero or more")
        table, row = pool.table, pool.table.row_of[record.key]
        table.project_row(row, event.at)
        remaining = max(event.remaining, LEAST_WORK)
        difference = remaining - float(table.remaining[row])
        table.corrected[row] += difference
        table.remaining[row] = remaining
        table.trained_at[row] = math.inf
        table.resumes_at[row] = min(table.resumes_at[row], event.at)
        table.forecast()
        if difference > 0:
            self._excuse(pool, f"{event.job_id} progresses more slowly than its curve says")
        pool.dirty = True

    def _on_curve_changed(self, event: CurveChanged) -> None:
        record, pool = self._live_record(event.job_id)
        job = replace(record.job, curve=event.curve)
        if not self.can_use(job.id, event.curve):
            raise EventError(f"the new curve of job {job.id!r} has no usable count on {pool.kind}")
        table, row = pool.table, pool.table.row_of[record.key]
        table.project_row(row, event.at)
        record.job = job
        table.set_curve(row, job, pool.size)
        table.forget_plan(row)
        if width := int(table.width[row]):
            table.rate[row] = job.curve.rate(width, pool.kind, pool.occupancy.nodes_of(record.key))
            table.forecast()
            if not table.rate[row]:
                pool.let_go(record, event.at)
                self._outbox.append(Suspend(job.id))
        self._excuse(pool, f"the curve of {job.id} changed")
        record.tell(event.at, "its curve changed")
        pool.dirty = True

    def _on_costs_changed(self, event: CostsChanged) -> None:
        record, pool = self._live_record(event.job_id)
        record.job = replace(record.job, costs=event.costs)
        pool.table.set_costs(pool.table.row_of[record.key], record.job)
        pool.table.forecast()
        self._excuse(pool, f"{event.job_id} takes another time to start or end than it did")
        pool.dirty = True

    def _on_worker_failed(self, event: WorkerFailed) -> None:
        record, pool = self._live_record(event.job_id)
        if not pool.table.width[pool.table.row_of[record.key]]:
            raise EventError(f"job {event.job_id!r} holds no devices, so no worker of it can fail")
        pool.stop_gang(record, event.at)
        self._outbox.append(Suspend(event.job_id))
        record.tell(event.at, "a worker failed; it goes on from its last checkpoint")
        self._excuse(pool, f"a worker of {event.job_id} failed")

    def _on_node_lost(self, event: NodeLost) -> None:
        position = self._position(event.node)
        if event.node in self._down:
            return
        self._down.add(event.node)
        pool = self._pools[self.cluster.nodes[position].kind]
        for key in pool.occupancy.lose_node(position):
            record = pool.records[key]
            pool.stop_gang(record, event.at)
            self._outbox.append(Suspend(record.job.id))
            record.tell(event.at, f"{event.node} was lost; it goes on from its last checkpoint")
        self._excuse(pool, f"{event.node} was lost")
        pool.dirty = True

    def _on_node_joined(self, event: NodeJoined) -> None:
        names = {node.name: i for i, node in enumerate(self.cluster.nodes)}
        position = names.get(event.node.name)
        if position is None:
            self._extend(event)
            return
        if self.cluster.nodes[position] != event.node:
            raise EventError(f"node {event.node.name!r} came back different from what it was")
        if event.node.name in self._down:
            self._down.discard(event.node.name)
            pool = self._pools[event.node.kind]
            pool.occupancy.restore_node(position)
            pool.dirty = True

    def _extend(self, event: NodeJoined) -> None:
        self.cluster = Cluster((*self.cluster.nodes, event.node))
        for known in self._pools.values():
            known.occupancy.add_node(self.cluster)
        kind = event.node.kind
        if kind not in self._pools:
            self._pools[kind] = self._new_pool(kind)
            return
        pool = self._pools[kind]
        pool.size = self.cluster.capacity(kind)
        for row, job in enumerate(pool.table.jobs):
            pool.table.set_curve(row, job, pool.size)
        pool.dirty = True

    def _position(self, node: str) -> int:
        for position, known in enumerate(self.cluster.nodes):
            if known.name == node:
                return position
        raise EventError(f"no node {node!r} in this cluster")

    def _excuse(self, pool: Pool, cause: str) -> None:
        """Something outside the policy took capacity away: promises made before may now be impossible to keep."""
        for record in pool.promised():
            record.excuse = record.excuse or cause


def _describe_request(job: Job) -> str:
    due = job.deadline - job.submitted_at
    goal = f"within {format_duration(due)}" if math.isfinite(due) else "at best effort"
    return f"submitted: {job.work.iterations:g} iterations {goal}"
