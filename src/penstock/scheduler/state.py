"""What the scheduler knows, and how events and decisions change it.

Deterministic: the same events and decisions in the same order give the same state, bit for bit, whoever took the
decisions. No policy, placement, cost model or rate model is asked here. What the world must do because of an event or
a decision is put into the outbox.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from penstock.core import (
    ANY_KIND,
    LATE_TOLERANCE_S,
    Amendment,
    Cluster,
    CostsChanged,
    Curve,
    CurveChanged,
    Decision,
    Decline,
    DevicesReleased,
    Event,
    EventError,
    Instruction,
    Job,
    JobAmended,
    JobCancelled,
    JobError,
    JobFailed,
    JobFinished,
    JobPaused,
    JobResumed,
    JobSubmitted,
    OutlookChanged,
    Progress,
    Quote,
    ResumableChanged,
    Stop,
    Suspend,
    TenantChanged,
    TenantRemoved,
    Tick,
    Verdict,
    WorkerFailed,
    counted,
    format_duration,
)
from penstock.scheduler.holdings import Draft, Holdings
from penstock.scheduler.nodes import NODE_EVENTS, retire_closed
from penstock.scheduler.recording import from_decision
from penstock.scheduler.records import FINAL, JobState, Record
from penstock.scheduler.story import Story
from penstock.scheduler.table import LEAST_WORK

WORTH_TELLING = 0.05
"""A speed that turns out different by a smaller share is no news to a person."""


class State:
    """Jobs, who holds what, and what is still to be told to the world.

    ``promises_bind`` says whether a promised deadline that is missed without an outside cause is our fault.
    """

    def __init__(self, cluster: Cluster, slot: float, *, stories: bool, promises_bind: bool) -> None:
        self.slot = slot
        self.stories = stories
        self.promises_bind = promises_bind
        self.records: dict[str, Record] = {}
        self.holdings = Holdings(cluster, slot)
        self.down: set[str] = set()
        self.sequence = 0
        self.outbox: list[Instruction] = []
        self.broken: list[str] = []
        self.now = -math.inf

    def copy(self) -> "State":
        """An independent state without stories; jobs that are over are unknown to it. O(active jobs)."""
        other = State.__new__(State)
        other.__dict__.update(self.__dict__)
        other.stories = False
        other.holdings = self.holdings.copy()
        active = other.holdings.records.values()
        outside = [
            record.copy() for record in self.records.values() if not record.has_row and record.state not in FINAL
        ]
        other.records = {record.job.id: record for record in (*active, *outside)}
        other.down, other.outbox, other.broken = self.down.copy(), self.outbox.copy(), self.broken.copy()
        return other

    @property
    def cluster(self) -> Cluster:
        return self.holdings.cluster

    @cluster.setter
    def cluster(self, cluster: Cluster) -> None:
        self.holdings.cluster = cluster

    @property
    def due_at(self) -> float:
        return min([state.due_at for state in self.holdings.kinds.values()])

    def apply(self, event: Event) -> None:
        """Take in what happened; one that does not fit raises :class:`EventError` and changes nothing."""
        self._check_time(event.at, event)
        account = self.holdings.tenants.account
        before = account.integrals
        self.holdings.account(event.at)
        try:
            EVENTS[type(event)](self, event)
            retire_closed(self)
        except BaseException:
            account.integrals = before
            raise
        self.now = event.at

    def apply_decision(self, decision: Decision) -> None:
        """Carry out what was decided, here or elsewhere, now or long ago."""
        self._check_time(decision.at, "a decision")
        self.apply_draft(decision.at, from_decision(decision, self.holdings, self.records))

    def apply_draft(self, at: float, draft: Draft) -> None:
        """The same for a decision that nobody has to write down."""
        self.holdings.account(at)
        self.holdings.apply(draft, at, self.outbox)
        retire_closed(self)
        if draft.quotes and not self.stories:
            self._drop(quote.job_id for _, quote in draft.quotes if quote.verdict is Verdict.REFUSED)
        self.now = at

    def reconfigure(self, at: float, *, slot: float, policy: str, keeps_promises: bool, promises_bind: bool) -> None:
        """Other rules hold from now on; who was promised something keeps it, or is told that it is withdrawn."""
        self._check_time(at, "new rules")
        self.slot, self.promises_bind, self.now = slot, promises_bind, at
        promised = self.holdings.promised()
        self.holdings.change_rules(slot, {record.key for record in promised} if keeps_promises else set())
        for record in promised:
            record.excuse = record.excuse or f"the rules changed to {policy}"
            if not keeps_promises:
                why = f"the platform now runs under {policy}, which promises nothing"
                self.holdings.withdraw(record, why, at, self.outbox)

    def record(self, job_id: str) -> Record:
        try:
            return self.records[job_id]
        except KeyError:
            raise EventError(f"no job {job_id!r} is known here") from None

    def live(self, job_id: str) -> Record:
        """A job that is not over; it has no row while it is paused or finishing."""
        record = self.record(job_id)
        if record.state in FINAL:
            raise EventError(f"job {job_id!r} is already {record.state}")
        return record

    def kind_for(self, job: Job) -> str | None:
        """The kind this job runs fastest on, among those it accepts and that can hold it."""
        best, best_rate = None, 0.0
        for kind in self.holdings.kinds:
            levels = self.holdings.levels(job, kind)
            if levels and levels[-1][1] > best_rate:
                best, best_rate = kind, levels[-1][1]
        return best

    def top_rate(self, job: Job) -> float:
        """The fastest a job could run on any kind."""
        levels = [self.holdings.levels(job, kind) for kind in self.holdings.kinds]
        return max((rate for each in levels for _, rate in each), default=0.0)

    def can_use(self, record: Record, curve: Curve) -> bool:
        """Whether a job would have a width to run on if this were its curve."""
        job = replace(record.job, curve=curve)
        if not record.has_row:
            return self.kind_for(job) is not None
        return bool(self.holdings.levels(job, record.kind))

    def excuse(self, kind: str, cause: str) -> None:
        """Something outside the policy took capacity away: promises made before may now be impossible to keep."""
        for record in self.holdings.promised(kind):
            record.excuse = record.excuse or cause

    def stop_gang(self, record: Record, at: float, why: str) -> None:
        """A job's workers are gone; it goes on from its last checkpoint."""
        self.holdings.stop_gang(record, at)
        self.outbox.append(Suspend(record.job.id))
        going_on = "it goes on from its last checkpoint" if record.job.resumable else "it begins again"
        record.tell(at, f"{why}; {going_on}")

    def _check_time(self, at: float, what: object) -> None:
        if not at >= self.now:
            raise EventError(f"{what} happened before {self.now}; events must come in order of time")

    def _drop(self, job_ids: Iterable[str]) -> None:
        for job_id in job_ids:
            del self.records[job_id]

    def _on_submitted(self, event: JobSubmitted) -> None:
        job = event.job
        if job.id in self.records:
            raise EventError(f"a job {job.id!r} is already known; ids are used once")
        self._check_account(job)
        kind = self.kind_for(job)
        story = Story(job.id) if self.stories else None
        record = Record(job, self.sequence, kind or next(iter(self.holdings.kinds)), story=story)
        if story is not None:
            record.tell(event.at, _describe_request(job))
        self.sequence += 1
        self.records[job.id] = record
        if kind is None or self._is_shut_out(job):
            self._turn_away(record, event.at)
        else:
            self.holdings.arrivals.add(job, kind, event.at)
            self.holdings.add(record, event.at)

    def _is_shut_out(self, job: Job) -> bool:
        """Whether none of the nodes it is confined to is in use: nobody knows whether one ever will be."""
        if not job.nodes.confines:
            return False
        there = [node for _, node in self.cluster.present() if job.nodes.allows(node.name)]
        return bool(there) and all(node.name in self.down for node in there)

    def _turn_away(self, record: Record, now: float) -> None:
        job = record.job
        there = self.holdings.sizes_for(job)
        sizes = ", ".join(f"{size} of {kind}" for size, kind in zip(there, self.holdings.kinds, strict=True))
        where = f"the nodes it may run on ({job.nodes}) have" if job.nodes.confines else "the cluster has"
        least = max(job.at_least, min(scaling.counts[0] for _, scaling in job.curve.scalings))
        wants = " or ".join(job.kinds or [kind for kind in job.curve.kinds if kind != ANY_KIND] or ["any kind"])
        reason = f"no device it can use: it needs at least {least} of {wants}, {where} {sizes}"
        if self._is_shut_out(job):
            reason = f"every node that it may run on ({job.nodes}) is drained or lost"
        record.state = JobState.DECLINED
        record.quote = Quote(job_id=record.job.id, verdict=Verdict.REFUSED, reason=reason)
        record.tell(now, f"refused: {reason}")
        if not self.stories:
            self._drop([record.job.id])
        self.outbox.append(Decline(record.quote))

    def _on_cancelled(self, event: JobCancelled) -> None:
        record = self.live(event.job_id)
        record.tell(event.at, "cancelled")
        self.outbox.append(Stop(event.job_id, "cancelled"))
        self._close(record, JobState.CANCELLED, event.at)

    def _on_failed(self, event: JobFailed) -> None:
        record = self.live(event.job_id)
        record.tell(event.at, f"failed: {event.reason}" if event.reason else "failed")
        self.outbox.append(Stop(event.job_id, "failed"))
        self._close(record, JobState.FAILED, event.at)

    def _on_finished(self, event: JobFinished) -> None:
        record = self.live(event.job_id)
        if not record.has_run:
            raise EventError(f"job {event.job_id!r} cannot finish: it holds no devices and never did")
        late, breach = event.at - record.job.deadline, record.breach(event.at)
        if record.story is not None:
            said = f", {format_duration(late)} late" if late > LATE_TOLERANCE_S else ""
            record.tell(event.at, f"finished{said}" + (f": its promise is broken: {breach}" if breach else ""))
        if breach and not record.excuse and self.promises_bind:
            self.broken.append(f"{event.job_id} by {format_duration(late)}")
        self._close(record, JobState.FINISHED, event.at)

    def _on_released(self, event: DevicesReleased) -> None:
        """What follows is on nobody's devices, so no policy can keep a promise by it."""
        record = self.live(event.job_id)
        if not record.has_row:
            raise EventError(f"job {event.job_id!r} is {record.state} and has no devices to give back")
        if not record.has_run:
            raise EventError(f"job {event.job_id!r} cannot give devices back: it holds none and never did")
        held = len(self.holdings.devices(record))
        self.holdings.remove(record, event.at)
        record.state = JobState.FINISHING
        record.excuse = record.excuse or "it had given its devices back"
        what = "device" if held == 1 else f"{held} devices" if held else "devices"
        record.tell(event.at, f"gave its {what} back: what is left of it needs none")

    def _close(self, record: Record, state: JobState, at: float) -> None:
        if record.has_row:
            self.holdings.remove(record, at)
        record.state = state
        record.paused = None
        if not self.stories:
            self._drop([record.job.id])

    def _on_paused(self, event: JobPaused) -> None:
        record = self.live(event.job_id)
        if record.state is JobState.PAUSED:
            raise EventError(f"job {event.job_id!r} is paused already")
        if not record.has_row:
            raise EventError(f"job {event.job_id!r} is {record.state}: it holds no devices that a pause could free")
        if self.holdings.pause(record, event.at):
            self.outbox.append(Suspend(event.job_id))
        record.state, record.quote, record.excuse, record.ended_lease = JobState.PAUSED, None, "", ""
        record.tell(event.at, "paused")

    def _on_resumed(self, event: JobResumed) -> None:
        record = self.live(event.job_id)
        if record.paused is None:
            raise EventError(f"job {event.job_id!r} is {record.state}, not paused")
        self._check_account(record.job)
        record.job = _with_goal(record.job, event)
        service, record.paused, record.state = record.paused, None, JobState.ASKING
        record.tell(
            event.at, f"resumed: {counted(service.remaining, 'iteration')} left, {_describe_goal(record.job, event.at)}"
        )
        kind = self.kind_for(record.job)
        if kind is None:
            self._turn_away(record, event.at)
            return
        record.kind = kind
        self.holdings.resume(record, service, event.at)

    def _on_amended(self, event: JobAmended) -> None:
        """One that holds more or fewer devices than it now may gives them back, saved, and gets others."""
        record = self.live(event.job_id)
        job = self.amended_job(record, event.amendment)
        if not record.has_row:
            record.job = job
            return
        if self.holdings.amend(record, job, event.at):
            self.outbox.append(Suspend(job.id))
        if event.amendment.asks_again:
            self.holdings.ask_again(record)
            record.state, record.quote, record.excuse, record.ended_lease = JobState.ASKING, None, "", ""
            record.amended = not event.may_be_refused

    def amended_job(self, record: Record, amendment: Amendment) -> Job:
        """The job as somebody wants it from now on; raises :class:`EventError` where it could never run."""
        try:
            job = amendment.applied_to(record.job)
        except JobError as error:
            raise EventError(f"job {record.job.id!r} cannot be changed so: {error}") from error
        size = self.holdings.size_for(job, record.kind)
        can_run = self.kind_for(job) if not record.has_row else self.holdings.levels(job, record.kind)
        if not can_run:
            raise EventError(f"job {job.id!r} could run on no number of the {size} devices of {record.kind}")
        return job

    def _on_progress(self, event: Progress) -> None:
        record = self.live(event.job_id)
        if not (math.isfinite(event.remaining) and event.remaining >= 0):
            raise EventError(f"job {event.job_id!r} reports {event.remaining} iterations left; allowed: zero or more")
        remaining = max(event.remaining, LEAST_WORK)
        if (service := record.paused) is not None:
            corrected = service.corrected + remaining - service.remaining
            record.paused = replace(service, remaining=remaining, corrected=corrected)
        elif record.has_row and self.holdings.report(record, remaining, event.at) > 0:
            self.excuse(record.kind, f"{event.job_id} progresses more slowly than its curve says")

    def _on_outlook_changed(self, event: OutlookChanged) -> None:
        record = self.live(event.job_id)
        if not all(math.isfinite(number) and number >= 0 for number in (event.remaining, event.allowance)):
            raise EventError(f"job {event.job_id!r} expects {event.remaining} + {event.allowance} iterations")
        remaining = max(event.remaining, LEAST_WORK)
        if (service := record.paused) is not None:
            corrected = service.corrected + remaining - service.remaining
            record.paused = replace(service, remaining=remaining, corrected=corrected)
        if not record.has_row:
            return
        was_safe = self._is_safe(record, event.at)
        if self.holdings.foresee(record, remaining, event.allowance, event.at) > 0:
            self.excuse(record.kind, f"the metric of {event.job_id} asks for more than it did")
        if was_safe and not self._is_safe(record, event.at):
            late = self.holdings.safe_end(record, event.at) - record.job.deadline
            record.tell(event.at, f"its promise became unlikely: it may end {format_duration(late)} after its deadline")

    def _is_safe(self, record: Record, now: float) -> bool:
        """Whether a promised job that runs will be in time on what it holds, as far as its metric tells."""
        return record.promised and self.holdings.safe_end(record, now) <= record.job.deadline

    def _on_curve_changed(self, event: CurveChanged) -> None:
        record = self.live(event.job_id)
        if not self.can_use(record, event.curve):
            raise EventError(f"the new curve of job {event.job_id!r} has no usable count on {record.kind}")
        job, news = replace(record.job, curve=event.curve), self._speed_news(record, event.curve)
        if not record.has_row:
            record.job = job
        else:
            if self.holdings.change_curve(record, job, event.at):
                self.outbox.append(Suspend(job.id))
            self.excuse(record.kind, f"the curve of {job.id} changed")
        if news:
            record.tell(event.at, news)

    def _speed_news(self, record: Record, curve: Curve) -> str:
        """What a new curve means for the devices it holds, or the fewest it takes; nothing if that is hardly new."""
        width = len(self.holdings.devices(record)) if record.has_row else 0
        width = width or record.job.at_least
        was, now = record.job.curve.rate(width, record.kind), curve.rate(width, record.kind)
        if abs(now - was) <= WORTH_TELLING * was:
            return ""
        devices = "1 device" if width == 1 else f"{width} devices"
        return f"its speed on {devices} is {now:.3g} iterations a second, not {was:.3g}"

    def _on_costs_changed(self, event: CostsChanged) -> None:
        record = self.live(event.job_id)
        record.job = replace(record.job, costs=event.costs)
        if record.has_row:
            self.holdings.change_costs(record)
            self.excuse(record.kind, f"{event.job_id} takes another time to start or end than it did")

    def _on_resumable_changed(self, event: ResumableChanged) -> None:
        record = self.live(event.job_id)
        if record.job.resumable == event.resumable:
            return
        record.job = replace(record.job, resumable=event.resumable)
        if record.has_row:
            self.holdings.change_resumable(record)
        record.tell(event.at, "it can resume" if event.resumable else "it cannot resume: it begins again when stopped")

    def _on_worker_failed(self, event: WorkerFailed) -> None:
        record = self.live(event.job_id)
        if not self.holdings.devices(record):
            raise EventError(f"job {event.job_id!r} holds no devices, so no worker of it can fail")
        self.stop_gang(record, event.at, "a worker failed")
        self.excuse(record.kind, f"a worker of {event.job_id} failed")

    def _on_tenant_changed(self, event: TenantChanged) -> None:
        group = event.tenant.group
        if group and self.holdings.has_jobs(group):
            raise EventError(f"{group!r} has jobs of its own, so it cannot be a group")
        self.holdings.change_tenant(event.tenant)

    def _on_tenant_removed(self, event: TenantRemoved) -> None:
        self.holdings.remove_tenant(event.name)

    def _check_account(self, job: Job) -> None:
        if self.holdings.tenants.is_group(job.tenant):
            raise EventError(f"{job.tenant!r} is a group; job {job.id!r} has to be of one of its members")

    def _on_tick(self, event: Tick) -> None:
        """Time has passed, nothing else."""


EVENTS: dict[type, Callable[[State, Any], None]] = {
    JobSubmitted: State._on_submitted,
    JobCancelled: State._on_cancelled,
    JobFailed: State._on_failed,
    JobFinished: State._on_finished,
    DevicesReleased: State._on_released,
    JobPaused: State._on_paused,
    JobResumed: State._on_resumed,
    JobAmended: State._on_amended,
    Progress: State._on_progress,
    OutlookChanged: State._on_outlook_changed,
    CurveChanged: State._on_curve_changed,
    CostsChanged: State._on_costs_changed,
    ResumableChanged: State._on_resumable_changed,
    WorkerFailed: State._on_worker_failed,
    TenantChanged: State._on_tenant_changed,
    TenantRemoved: State._on_tenant_removed,
    Tick: State._on_tick,
    **NODE_EVENTS,
}
"""What each event does."""


def _with_goal(job: Job, event: JobResumed) -> Job:
    if event.goal is None:
        return job
    try:
        return replace(job, goal=event.goal)
    except JobError as error:
        raise EventError(f"job {job.id!r} cannot be resumed with {event.goal}: {error}") from error


def _describe_request(job: Job) -> str:
    return f"submitted: {counted(job.work.iterations, 'iteration')} {_describe_goal(job, job.submitted_at)}"


def _describe_goal(job: Job, since: float) -> str:
    due = job.deadline - since
    return f"within {format_duration(due)}" if math.isfinite(due) else "at best effort"
