"""How each job came along: step, loss and speed over time, thinned out as it grows.

The log keeps what changes decisions, and a run's own reports go when it is tidied away; neither is a curve to look at.
A thread notes the latest figures of every live run once a second. A trail has at most ``_MOST`` points: when it is
full every second one goes, and from then on half as many are taken. Trails lie in the data directory as small files.
"""

import json
import logging
import math
import threading
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field
from itertools import pairwise
from pathlib import Path

from penstock.control import RunFigures, Services
from penstock.core import InputError, Report, ReportKind
from penstock.tools import write_atomically

_log = logging.getLogger(__name__)
_MOST = 400
_EVERY_S = 1.0
_SAVE_EVERY_S = 30.0


@dataclass(frozen=True, slots=True)
class Sample:
    """Where a job stood at a moment."""

    at: float
    step: int
    total: int | None = None
    loss: float | None = None
    samples_per_s: float | None = None


@dataclass(slots=True)
class Trail:
    """Samples of one job in order of time, at least ``spacing_s`` apart."""

    samples: list[Sample] = field(default_factory=list)
    spacing_s: float = 0.0
    dirty: bool = False

    def add(self, sample: Sample) -> None:
        """Take a sample in; the newest is always there, however close to the one before."""
        if self.samples and sample.at <= self.samples[-1].at:
            return
        self.dirty = True
        if len(self.samples) > 1 and self.samples[-1].at - self.samples[-2].at < self.spacing_s:
            self.samples[-1] = sample
        else:
            self.samples.append(sample)
        if len(self.samples) > _MOST:
            self.samples = [*self.samples[:-1:2], self.samples[-1]]
            span = self.samples[-1].at - self.samples[0].at
            self.spacing_s = max(2 * self.spacing_s, span / _MOST)


class Trails:
    """The trails of all jobs, and the thread that lays them."""

    def __init__(self, services: Services, folder: Path) -> None:
        self._services = services
        self._folder = folder
        self._trails: dict[str, Trail] = {}
        self._known_runs: set[str] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trails", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(5.0)
        self._save()

    def of(self, job_id: str) -> list[Sample]:
        with self._lock:
            return list(self._trail(job_id).samples)

    def look(self) -> None:
        """Note where everything stands now."""
        for run_id, gauge in list(self._services.reconciler.run_figures.items()):
            if gauge.step is None:
                continue
            before = self._since_the_start(run_id) if run_id not in self._known_runs else []
            self._note(_job_of(run_id), [*before, _sample(gauge)])
            self._known_runs.add(run_id)

    def _run(self) -> None:
        passed = 0.0
        while not self._stop.wait(_EVERY_S):
            try:
                self.look()
                passed += _EVERY_S
                if passed >= _SAVE_EVERY_S:
                    passed = 0.0
                    self._save()
            except Exception:
                _log.exception("trails were not noted; trying again")

    def _note(self, job_id: str, samples: Iterable[Sample]) -> None:
        with self._lock:
            trail = self._trail(job_id)
            for sample in samples:
                trail.add(sample)

    def _since_the_start(self, run_id: str) -> list[Sample]:
        """What a run told before we looked, as long as its reports are there."""
        try:
            reports = self._services.reconciler.backend.reports(run_id, 0)
        except (InputError, OSError):
            return []
        return [_told(report) for report in reports if report.kind is ReportKind.PROGRESS and report.step is not None]

    def _trail(self, job_id: str) -> Trail:
        if job_id not in self._trails:
            self._trails[job_id] = Trail(self._read(job_id))
        return self._trails[job_id]

    def _read(self, job_id: str) -> list[Sample]:
        try:
            rows = json.loads(self._file(job_id).read_text())
            return [Sample(*row) for row in rows]
        except (OSError, ValueError, TypeError):
            return []

    def _save(self) -> None:
        """Write what has changed; trails of jobs that stand still need no memory."""
        with self._lock:
            changed = {job_id: list(trail.samples) for job_id, trail in self._trails.items() if trail.dirty}
            self._trails = {job_id: trail for job_id, trail in self._trails.items() if trail.dirty}
            for trail in self._trails.values():
                trail.dirty = False
        for job_id, samples in changed.items():
            self._write(job_id, samples)

    def _write(self, job_id: str, samples: list[Sample]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self._file(job_id), json.dumps([astuple(sample) for sample in samples]))

    def _file(self, job_id: str) -> Path:
        return self._folder / f"{job_id}.json"


def speeds(samples: list[Sample]) -> list[tuple[float, float]]:
    """Steps per second between neighbouring samples, each at its end."""
    return [(b.at, (b.step - a.step) / (b.at - a.at)) for a, b in pairwise(samples) if b.at > a.at and b.step >= a.step]


def _job_of(run_id: str) -> str:
    return run_id.rpartition(".")[0]


def _sample(gauge: RunFigures) -> Sample:
    return Sample(gauge.at, gauge.step or 0, gauge.total, _finite(gauge.loss), _finite(gauge.samples_per_s))


def _told(report: Report) -> Sample:
    return Sample(report.at, report.step or 0, report.total, _finite(report.loss), _finite(report.samples_per_s))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
