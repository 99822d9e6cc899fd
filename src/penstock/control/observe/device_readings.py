"""What the devices do: every run is asked for its usage now and then, and the answers are shared out to its devices.

A backend knows what a run uses as a whole; a device of it is said to use an equal part. Asking takes a moment and may
fail, so it happens in a thread of its own and never while somebody waits for an answer.
"""

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from penstock.backends import Backend
from penstock.control.state.journal import Journal
from penstock.core import Grant, Node, Usage

_log = logging.getLogger(__name__)
EVERY_S = 5.0
_REST, _LONGEST_REST_S = 200.0, 60.0
"""With very many runs looks are so many times as far apart as one takes, but not farther than this."""
_CORE_PERCENT = 100.0
_MOST_JOBS = 2000


def full_load_w(node: Node) -> float | None:
    """Watts of one of its devices at full load, as its backend tells; none where nothing is known of the kind."""
    return node.power.peak_w or None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReading:
    """What one device does; ``None`` where nobody can tell. ``energy_j`` counts from the start of the server.

    ``estimated``: power and energy come from a model of the device and not from a meter.
    """

    device: int
    node: str
    slot: int
    kind: str
    run_id: str = ""
    utilisation: float | None = None
    power_w: float | None = None
    memory_bytes: float | None = None
    energy_j: float = 0.0
    estimated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUsage:
    """What the processes of a job used when they were asked last, and the most that any answer told."""

    at: float
    latest: Usage
    peak_cpu_percent: float = 0.0
    peak_memory_bytes: int = 0
    peak_device_memory_bytes: int | None = None

    def after(self, usage: Usage, at: float) -> "JobUsage":
        device = [one for one in (self.peak_device_memory_bytes, usage.device_memory_bytes) if one is not None]
        return JobUsage(
            at=at, latest=usage, peak_cpu_percent=max(self.peak_cpu_percent, usage.cpu_percent),
            peak_memory_bytes=max(self.peak_memory_bytes, usage.memory_bytes, usage.memory_peak_bytes or 0),
            peak_device_memory_bytes=max(device, default=None),
        )  # fmt: skip


class DeviceReadings:
    """The last reading of every device that has ever been held, and the usage of jobs that were asked lately."""

    def __init__(self, journal: Journal, backend: Backend) -> None:
        self._journal = journal
        self._backend = backend
        self._readings: dict[int, DeviceReading] = {}
        self._usages: dict[str, JobUsage] = {}
        self._energies: dict[str, float] | None = None
        self._read_at = time.monotonic()
        self._lock = threading.Lock()

    def readings(self) -> list[DeviceReading]:
        with self._lock:
            return [self._readings[device] for device in sorted(self._readings)]

    def usage_of(self, job_id: str) -> JobUsage | None:
        """What a job uses, or used last; none before it was asked, and once many others were asked after it."""
        with self._lock:
            return self._usages.get(job_id)

    def look(self) -> None:
        """Ask every run once."""
        held = self._held()
        usages = {run_id: usage for run_id in held if (usage := self._usage(run_id)) is not None}
        now = time.monotonic()
        with self._lock:
            elapsed, self._read_at = now - self._read_at, now
            counts = {run_id: usage.energy_j or 0.0 for run_id, usage in usages.items()}
            before = counts if self._energies is None else self._energies
            in_use = {device for run_id in usages for device in held[run_id].devices}
            for reading in [one for one in self._readings.values() if one.run_id and one.device not in in_use]:
                self._readings[reading.device] = _released(reading)
            for run_id, usage in usages.items():
                drawn = _drawn_j(usage, before.get(run_id, 0.0), elapsed) / held[run_id].width
                for device in held[run_id].devices:
                    self._readings[device] = self._reading(device, run_id, usage, held[run_id], drawn)
            self._energies = counts
            self._note(usages)

    @contextmanager
    def running(self, every_s: float = EVERY_S) -> Iterator[None]:
        """Look again and again for as long as this lasts."""
        stop = threading.Event()
        thread = threading.Thread(target=self._run, args=(stop, every_s), name="meters", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(every_s)

    def _run(self, stop: threading.Event, every_s: float) -> None:
        took_s = 0.0
        while not stop.wait(max(every_s, min(_REST * took_s, _LONGEST_REST_S))):
            began = time.monotonic()
            try:
                self.look()
            except Exception:
                _log.exception("the devices could not be read; trying again")
            took_s = time.monotonic() - began

    def _held(self) -> dict[str, Grant]:
        with self._journal.reading() as state:
            return {record.run_id: record.grant for record in state.engaged.values() if record.grant is not None}

    def _usage(self, run_id: str) -> Usage | None:
        """A run that is not there yet, or no longer, uses nothing that could be told."""
        try:
            return self._backend.usage(run_id)
        except Exception as error:
            _log.debug("no usage of run %s: %s", run_id, error)
            return None

    def _note(self, usages: Mapping[str, Usage]) -> None:
        """The latest usage of each job, all its runs together as far as peaks go; the oldest jobs are forgotten."""
        at = self._journal.now()
        for run_id, usage in usages.items():
            if not usage.memory_bytes and usage.device_percent is None:
                continue  # its processes are not there yet, or gone
            job_id = run_id.rpartition(".")[0]
            known = self._usages.pop(job_id, None) or JobUsage(at=at, latest=usage)
            self._usages[job_id] = known.after(usage, at)
        for forgotten in list(self._usages)[: max(0, len(self._usages) - _MOST_JOBS)]:
            del self._usages[forgotten]

    def _reading(self, device: int, run_id: str, usage: Usage, grant: Grant, drawn_j: float) -> DeviceReading:
        known = self._readings.get(device) or self._first(device)
        busy = usage.device_percent
        share = usage.cpu_percent / grant.width if busy is None else busy
        watts = None if usage.power_w is None else usage.power_w / grant.width
        memory = usage.memory_bytes if usage.device_memory_bytes is None else usage.device_memory_bytes
        return replace(
            known, run_id=run_id, utilisation=min(share / _CORE_PERCENT, 1.0), power_w=watts,
            memory_bytes=memory / grant.width, energy_j=known.energy_j + drawn_j,
            estimated=usage.estimated,
        )  # fmt: skip

    def _first(self, device: int) -> DeviceReading:
        with self._journal.reading() as state:
            position = state.scheduler.cluster.device(device)
            node = state.scheduler.cluster.nodes[position.node]
        return DeviceReading(device=device, node=node.name, slot=position.slot, kind=position.kind)


def _drawn_j(usage: Usage, before_j: float, elapsed_s: float) -> float:
    """Joules since the last look: the difference of the run's own count, else its power over that time."""
    if usage.energy_j is not None:
        return max(0.0, usage.energy_j - before_j)
    return (usage.power_w or 0.0) * elapsed_s


def _released(reading: DeviceReading) -> DeviceReading:
    return replace(reading, run_id="", utilisation=None, power_w=None, memory_bytes=None)
