"""A small world that carries out what a scheduler says and believes nothing: it keeps its own books.

The conformance suite drives every policy through it. It re-checks from the outside, from instructions alone, what the
scheduler claims about itself: no device twice, gangs whole, one outcome per job.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penstock.core import (
    Admit,
    Cluster,
    Decline,
    Defer,
    DevicesReleased,
    Event,
    EventError,
    Instruction,
    JobFinished,
    Resize,
    Resume,
    Start,
    Stop,
    Suspend,
    Tick,
    Wake,
)
from penstock.scheduler.scheduler import Scheduler

MAX_STEPS = 20_000


@dataclass
class CheckedWorld:
    """Executes instructions and checks them against its own idea of who holds what."""

    scheduler: Scheduler
    held: dict[str, tuple[int, ...]] = field(default_factory=dict)
    outcome: dict[str, str] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)
    wake_at: float = math.inf

    def run(self, script: Sequence[Event | Callable[[Scheduler, float], Event | None]], times: Sequence[float]) -> None:
        """Feed the script at its times, ends as projected in between, then let everything run out."""
        pending = list(zip(times, script, strict=True))
        for _ in range(MAX_STEPS):
            first = min(self.scheduler.next_finish_at(), self.wake_at, pending[0][0] if pending else math.inf)
            if math.isinf(first):
                return
            events: list[Event] = [JobFinished(at, job) for at, job in self.scheduler.finishing_by(first)]
            if pending and pending[0][0] <= first:
                _, entry = pending.pop(0)
                self._settle(events, first)
                event = entry(self.scheduler, first) if callable(entry) else entry
                events = [event] if event is not None else []
            self._settle(events, first)
        raise AssertionError(f"still busy after {MAX_STEPS} steps: {self.scheduler.active()}")

    def _settle(self, events: list[Event], now: float) -> None:
        for event in events:
            if isinstance(event, JobFinished | DevicesReleased):
                assert event.job_id in self.held, "a job ended without holding devices"
                del self.held[event.job_id]
                self._end(event.job_id, "finished" if isinstance(event, JobFinished) else "released")
        self._obey(self.scheduler.handle(*events, Tick(max(now, self.scheduler.now))))
        self.scheduler.validate()
        self._check()

    def _obey(self, instructions: list[Instruction]) -> None:
        self.wake_at = math.inf
        granted: dict[str, tuple[int, ...]] = {}
        for instruction in instructions:
            match instruction:
                case Wake(at):
                    self.wake_at = at
                case Start(grant):
                    assert grant.job_id not in self.started, "started twice"
                    self.started.add(grant.job_id)
                    granted[grant.job_id] = grant.devices
                case Resume(grant):
                    assert grant.job_id in self.started
                    assert grant.job_id not in self.held
                    granted[grant.job_id] = grant.devices
                case Resize(grant):
                    assert grant.job_id in self.held
                    granted[grant.job_id] = grant.devices
                case Suspend(job_id):
                    del self.held[job_id]
                case Stop(job_id, _):
                    self.held.pop(job_id, None)
                    self._end(job_id, "cancelled")
                case Decline(quote):
                    self.held.pop(quote.job_id, None)
                    self._end(quote.job_id, "declined")
                case Admit(quote) | Defer(quote):
                    assert quote.job_id not in self.outcome
                    assert quote.reason
        self.held |= granted

    def _end(self, job_id: str, how: str) -> None:
        assert job_id not in self.outcome, f"{job_id} ended twice: {self.outcome[job_id]}, {how}"
        self.outcome[job_id] = how

    def _check(self) -> None:
        used = [device for devices in self.held.values() for device in devices]
        assert len(used) == len(set(used)), "a device is held twice"
        cluster: Cluster = self.scheduler.cluster
        assert all(0 <= device < cluster.device_count for device in used)
        for job_id, devices in self.held.items():
            assert self.scheduler.devices_of(job_id) == devices, "the books disagree"
            assert len({cluster.device(device).kind for device in devices}) == 1, "a gang over two kinds"


def refused(scheduler: Scheduler, event: Event) -> bool:
    """Whether the scheduler refuses an event and stays as it was."""
    before = scheduler.active()
    try:
        scheduler.handle(event)
    except EventError:
        scheduler.validate()
        return scheduler.active() == before
    return False
