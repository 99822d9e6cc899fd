"""A world that keeps its own books of progress, pauses, devices and promises while a scheduler runs its jobs.

Nothing here is read from the scheduler but its instructions and the time of its next decision: jobs progress by their
own curves, stand still as long as the overhead says, lose work when a node leaves, and end when their work is done. A
promise is broken if its job ends more than a millisecond late, whatever the scheduler's own record says.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from penstock.core import (
    FREE,
    Admit,
    Cluster,
    Deadline,
    Decline,
    Defer,
    Event,
    Grant,
    Job,
    JobAmended,
    JobCancelled,
    JobFinished,
    JobPaused,
    JobResumed,
    JobSubmitted,
    NodeDraining,
    NodeJoined,
    NodeLost,
    Overhead,
    Quote,
    Resize,
    Resume,
    Start,
    Stop,
    Suspend,
    TenantChanged,
    Tick,
    Verdict,
    Wake,
    Withdraw,
)
from penstock.scheduler import ExpectedCosts, Scheduler

LATE_S = 1e-3
"""A promise counts as broken if its job ends this much after its deadline."""

Reply = Callable[[Job, Quote, float], Job | None]
"""What a user does about a rejection at a time: the job submitted instead, if any."""


@dataclass
class Entry:
    """One job in the books: what is left of it, what it holds, and what it was told."""

    job: Job
    remaining: float
    as_of: float
    deadline: float
    quote: Quote | None = None
    kind: str = ""
    devices: tuple[int, ...] = ()
    ready: float = -math.inf
    unsaved_s: float = 0.0
    has_run: bool = False
    finished_at: float = math.inf
    is_gone: bool = False
    suspensions: int = 0
    lost_s: float = 0.0
    held_s: float = 0.0
    accepts: Quote | None = None
    first_start: float = math.inf

    @property
    def rate(self) -> float:
        return self.job.curve.rate(len(self.devices), self.kind) if self.devices else 0.0

    @property
    def end(self) -> float:
        """When it ends on what it holds; infinite without devices."""
        if not self.devices:
            return math.inf
        return max(self.as_of, self.ready) + self.remaining / self.rate + self.job.costs.end.likely

    @property
    def is_promised(self) -> bool:
        return self.quote is not None and self.quote.verdict is Verdict.PROMISED

    @property
    def is_broken(self) -> bool:
        return self.is_promised and not self.is_gone and self.finished_at > self.deadline + LATE_S

    def advance(self, now: float) -> None:
        """Progress up to a moment."""
        if self.devices:
            ran = max(now - max(self.as_of, self.ready), 0.0)
            self.remaining = max(self.remaining - self.rate * ran, 0.0)
            self.unsaved_s += ran
            self.held_s += len(self.devices) * (now - self.as_of)
        self.as_of = now

    def lose_devices(self, *, is_saved: bool) -> None:
        """Without a saved state the work since the last checkpoint is lost; all of it if the job cannot resume."""
        rate = self.rate
        if not self.job.resumable:
            self.lost_s += self.unsaved_s
            self.remaining = self.job.work.iterations
        elif not is_saved:
            lost_s = math.fmod(self.unsaved_s, self.job.checkpoint_every_s)
            self.lost_s += lost_s
            self.remaining = min(self.remaining + rate * lost_s, self.job.work.iterations)
        self.devices, self.unsaved_s = (), 0.0


@dataclass
class Books:
    """Drives a scheduler through jobs and outside events, and writes down what really happens.

    ``reply`` is asked after every rejection; what it returns is submitted at once (or at its own ``submitted_at``).
    """

    cluster: Cluster
    scheduler: Scheduler
    overhead: Overhead = FREE
    reply: Reply | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    decisions: int = 0
    _pending: list[Event] = field(default_factory=list)
    _wake_at: float = math.inf
    _offers: dict[str, Quote] = field(default_factory=dict)

    @classmethod
    def of(cls, cluster: Cluster, policy: object, *, slot: float, overhead: Overhead = FREE,
           reply: Reply | None = None, **options: object) -> "Books":  # fmt: skip
        """Books around a new scheduler whose costs are charged as expected."""
        scheduler = Scheduler(cluster, policy, slot=slot, costs=ExpectedCosts(overhead), **options)  # type: ignore[arg-type]
        return cls(cluster, scheduler, overhead, reply)

    def play(self, jobs: Iterable[Job], events: Sequence[Event] = ()) -> "Books":
        """Submit the jobs, let the events happen, and go on until nothing more does."""
        arrivals: list[Event] = [JobSubmitted(job.submitted_at, job) for job in jobs]
        self._pending = sorted([*arrivals, *events], key=lambda event: event.at)
        while True:
            first = min(self._next_end(), self._wake_at, self._pending[0].at if self._pending else math.inf)
            if math.isinf(first):
                return self
            at = max(self.scheduler.earliest_round(first), self.scheduler.now)
            self._step(at)

    @property
    def broken(self) -> list[Entry]:
        return [entry for entry in self.entries.values() if entry.is_broken]

    @property
    def promises(self) -> int:
        return sum(entry.is_promised and not entry.is_gone for entry in self.entries.values())

    @property
    def accepted(self) -> list[Entry]:
        """Jobs that accept a counter-offer in the time for which it is held."""
        return [entry for entry in self.entries.values() if entry.accepts is not None]

    @property
    def met(self) -> int:
        return sum(entry.finished_at <= entry.deadline + LATE_S for entry in self.entries.values())

    def _next_end(self) -> float:
        return min((entry.end for entry in self.entries.values() if entry.devices), default=math.inf)

    def _step(self, at: float) -> None:
        """Hand over all that happens by ``at`` in order of time, and carry out what the scheduler says."""
        events: list[Event] = []
        while True:
            ending = min((entry for entry in self.entries.values() if entry.devices), key=lambda each: each.end,
                         default=None)  # fmt: skip
            end = ending.end if ending is not None else math.inf
            if self._pending and self._pending[0].at <= min(end, at):
                event = self._pending.pop(0)
                if (seen := self._seen(event)) is not None:
                    events.append(seen)
            elif ending is not None and end <= at:
                ending.advance(end)
                ending.finished_at, ending.devices = end, ()
                events.append(JobFinished(max(end, self.scheduler.now), ending.job.id))
            else:
                break
        self._obey(self.scheduler.handle(*events, Tick(at)), at)
        self.decisions += 1
        self._check_devices()

    def _seen(self, event: Event) -> Event | None:
        """What an outside event does to the books; None if it no longer fits."""
        if isinstance(event, JobSubmitted):
            job = event.job
            offer = self._offers.get(job.id)
            accepts = offer if offer is not None and event.at <= offer.offer_until < math.inf else None
            self.entries[job.id] = Entry(job, job.work.iterations, event.at, job.deadline, accepts=accepts)
            return event
        if isinstance(event, NodeLost):
            return self._vacated(event)
        if isinstance(event, NodeJoined):
            self.cluster = self.cluster if self.cluster.position(event.node.name) is not None else (
                self.cluster.with_node(event.node))  # fmt: skip
            return event
        if isinstance(event, NodeDraining | TenantChanged | Tick):
            return event
        entry = self.entries[event.job_id]  # type: ignore[union-attr]
        if entry.is_gone or entry.finished_at < math.inf:
            return None
        entry.advance(event.at)
        return self._of_user(entry, event)

    def _of_user(self, entry: Entry, event: Event) -> Event | None:
        """Enter what a user did: a cancelled job is gone; after a pause or an edit its promise no longer counts."""
        match event:
            case JobCancelled():
                entry.is_gone, entry.devices = True, ()
            case JobPaused():
                entry.quote = None
            case JobResumed(goal=Deadline() as goal):
                entry.deadline = goal.at
            case JobAmended(amendment=amendment) if amendment.asks_again:
                entry.quote, entry.job = None, amendment.applied_to(entry.job)
                entry.deadline = entry.job.deadline
            case _:
                pass
        return event

    def _vacated(self, event: NodeLost) -> Event:
        position = self.cluster.position(event.node)
        for entry in self.entries.values():
            if entry.devices and any(self.cluster.node_of(device) == position for device in entry.devices):
                entry.advance(event.at)
                entry.lose_devices(is_saved=False)
        return event

    def _obey(self, instructions: Sequence[object], now: float) -> None:
        self._wake_at = math.inf
        for instruction in instructions:
            match instruction:
                case Wake(at):
                    self._wake_at = at
                case Start(grant) | Resume(grant) | Resize(grant):
                    self._grant(self.entries[grant.job_id], grant, now)
                case Suspend():
                    entry = self.entries[instruction.job_id]
                    if entry.devices:
                        entry.advance(now)
                        entry.lose_devices(is_saved=True)
                        entry.suspensions += 1
                case Stop():
                    self.entries[instruction.job_id].devices = ()
                case Admit(quote) | Defer(quote) | Withdraw(quote):
                    entry = self.entries[quote.job_id]
                    if entry.is_promised and quote.verdict is not Verdict.PROMISED:
                        self.problems.append(f"{quote.job_id} was promised and is {quote.verdict}")
                    entry.quote = quote
                case Decline(quote):
                    self._rejected(self.entries[quote.job_id], quote, now)

    def _rejected(self, entry: Entry, quote: Quote, now: float) -> None:
        entry.quote, entry.is_gone, entry.devices = quote, True, ()
        job = self.reply(entry.job, quote, now) if self.reply is not None else None
        if job is not None:
            self._offers[job.id] = quote
            self._pending.append(JobSubmitted(max(job.submitted_at, now), job))
            self._pending.sort(key=lambda event: event.at)

    def _grant(self, entry: Entry, grant: Grant, now: float) -> None:
        held = entry.devices
        entry.advance(now)
        if held and not entry.job.resumable:
            entry.lose_devices(is_saved=False)
        own = entry.job.costs
        starting = held and entry.ready > now
        stop_s = (
            (max(own.start.likely, own.resize.likely) if starting else own.resize.likely) if held else own.start.likely
        )
        width = len(grant.devices)
        pause = self.overhead.change_s + self.overhead.per_doubling_s * math.log2(max(width, 1)) + stop_s
        entry.ready = max(entry.ready, now + pause)
        entry.kind, entry.devices, entry.unsaved_s, entry.has_run = grant.kind, grant.devices, 0.0, True
        entry.first_start = min(entry.first_start, now)

    def _check_devices(self) -> None:
        used = [device for entry in self.entries.values() for device in entry.devices]
        if len(used) != len(set(used)):
            self.problems.append("a device is held twice")


def offered(job: Job, quote: Quote, now: float, *, after: float = 0.0) -> Job | None:
    """The same job again with the deadline of its counter-offer, ``after`` so many seconds."""
    if not math.isfinite(quote.counter_offer) or "-again" in job.id:
        return None
    at = now + after
    if quote.counter_offer <= at:
        return None
    goal = Deadline(quote.counter_offer)
    return replace(job, id=f"{job.id}-again", submitted_at=at, goal=goal)
