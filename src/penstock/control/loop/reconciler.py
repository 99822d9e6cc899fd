"""The loop between what should be and what is.

One pass reads like a sentence: listen to what the runs tell, notice those that are gone without a word, look which
nodes are there, let time pass for the scheduler, and then make the world look as the state wants it. Whatever is
learned goes into the journal first; whatever is done follows from the state. So a crash anywhere loses nothing: the
next pass, in the next process, begins with the same sentence.
"""

import logging
import math
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Protocol

from penstock.backends import Backend
from penstock.control.future.forecasts import Forecasts
from penstock.control.loop.actuator import Actuator, DesiredRuns
from penstock.control.loop.learning import Learned, Learning
from penstock.control.loop.node_watch import NodeWatch
from penstock.control.loop.preparation import Preparer
from penstock.control.loop.report_reader import ReportReader
from penstock.control.loop.run_figures import RunFigures
from penstock.control.state.entries import (
    Configured,
    CostsLearned,
    CurveLearned,
    Entry,
    Launched,
    RunFailed,
    RunFinished,
    RunSuspended,
)
from penstock.control.state.journal import Journal
from penstock.control.state.records import JobRecord, Wanted
from penstock.control.state.store import Cursor
from penstock.core import DeviceSlot, Report, ReportKind, RunStatus, Usage
from penstock.wire import UnavailableError

_log = logging.getLogger(__name__)
_SNAPSHOT_EVERY = 10_000
"""Entries between two snapshots: what a start has to read again at most, against how often everybody waits for one."""
_AFTER_TROUBLE_S = 2.0
_FIGURES_KEPT = 1_000
_ENDS = (ReportKind.SUSPENDED, ReportKind.FINISHED, ReportKind.FAILED)


class PassObserver(Protocol):
    """Whoever wants to know how the loop goes round."""

    def passed(self, seconds: float) -> None: ...


class Reconciler:
    """Keeps one backend in step with one journal; ``forecasts`` are made anew after each pass.

    ``launch_grace_s`` is how long a run that was just started may be invisible before it counts as lost,
    ``nodes_every_s`` how often the backend is asked what there is.
    """

    def __init__(
        self,
        journal: Journal,
        backend: Backend,
        learning: Learning,
        *,
        forecasts: Forecasts | None = None,
        preparer: Preparer | None = None,
        report_reader: ReportReader | None = None,
        launch_grace_s: float = 10.0,
        nodes_every_s: float = 5.0,
        patience_s: float = 60.0,
    ) -> None:
        self.journal = journal
        self.backend = backend
        self.run_figures: dict[str, RunFigures] = {}
        self.trouble = "starting"
        self._forecasts = forecasts
        self._observers: list[PassObserver] = []
        self._learning = learning
        self._preparer = preparer
        self._report_reader = report_reader or ReportReader()
        self._actuator = Actuator(backend, on_launch_error=self._cannot_launch, patience_s=patience_s)
        self._launch_grace_s = launch_grace_s
        self._nodes = NodeWatch(journal, backend, every_s=nodes_every_s)
        self._read_to = journal.store.log.cursors()
        self._nudged = threading.Event()

    def subscribe(self, observer: PassObserver) -> None:
        """From now on ``observer`` is told how long each pass took."""
        self._observers.append(observer)

    def begin(self, settings: Configured) -> None:
        """Take up the settings of this start, if they are new; nodes that changed are found by the first pass."""
        with self.journal.reading() as state:
            if state.settings is None or _rules(state.settings) != _rules(settings):
                self.journal.record(replace(settings, at=self.journal.now()))
        self.journal.publish()

    def run(self, stop: threading.Event, every_s: float = 0.2) -> None:
        """Pass after pass until told to stop; what goes wrong is reported by :attr:`trouble` and tried again."""
        while not stop.is_set():
            failed = False
            try:
                self.step()
                self.trouble = self.journal.trouble
            except UnavailableError as error:
                failed, self.trouble = True, str(error)
                _log.warning("a pass failed; trying again: %s", error)
            except Exception as error:
                failed, self.trouble = True, f"{type(error).__name__}: {error}"
                _log.exception("a pass failed; trying again")
            self._nudged.wait(every_s)
            self._nudged.clear()
            if failed:
                stop.wait(_AFTER_TROUBLE_S)

    def nudge(self) -> None:
        """Something was recorded that is worth a pass at once."""
        self._nudged.set()

    def step(self) -> None:
        """One pass."""
        began = time.perf_counter()
        self.journal.store.lease.check_fresh()
        statuses = self.backend.runs()
        self._listen(statuses)
        self._notice_the_lost(statuses)
        self._nodes.look()
        if self._preparer is not None:
            self._preparer.work()
        self.journal.decide()
        self._actuator.work(self._picture(statuses), statuses, self.journal.now())
        self._clear_up(statuses)
        self.journal.publish()
        self.journal.keep_snapshot(every=_SNAPSHOT_EVERY)
        self.journal.compact()
        if self._forecasts is not None:
            self._forecasts.refresh()
        for observer in self._observers:
            observer.passed(time.perf_counter() - began)

    def _listen(self, statuses: Iterable[RunStatus]) -> None:
        for status in statuses:
            read_to = self._read_to.get(status.run_id, 0)
            if status.run_id in self.run_figures and status.last_seq <= read_to:
                continue
            first_sight = status.run_id not in self.run_figures
            reports = self.backend.reports(status.run_id, 0 if first_sight else read_to)
            self._note_figures(status.run_id, reports)
            self._take_in(status.run_id, [report for report in reports if report.seq > read_to])

    def _note_figures(self, run_id: str, reports: Iterable[Report]) -> None:
        gauge = self.run_figures.get(run_id, RunFigures())
        for report in reports:
            gauge = gauge.after(report)
        self.run_figures[run_id] = gauge

    def _take_in(self, run_id: str, reports: list[Report]) -> None:
        """Each report that means something goes into the log together with the fact that it was read."""
        for report in _news(reports):
            spent = self._spent(report)
            with self.journal.reading() as state:
                record = state.jobs.get(_job_of(run_id))
                if record is None:
                    break
                lesson = self._learning.learn(report, record)
                heard = self._report_reader.entries(self._with_step(report), record, state, self.journal.now())
                entries = [self._completed(entry, record, spent) for entry in heard]
                if entries:
                    self.journal.record(*entries, cursor=Cursor(run_id, record.id, report.seq))
                self._believe(lesson, record)
        if reports:
            self._read_to[run_id] = reports[-1].seq

    def _spent(self, report: Report) -> Usage:
        """What a run that is over has used, as far as its backend can tell; asked before anybody is made to wait."""
        if report.kind not in _ENDS:
            return Usage()
        try:
            return self.backend.usage(report.run_id)
        except Exception as error:
            _log.debug("no usage of run %s: %s", report.run_id, error)
            return Usage()

    def _completed(self, entry: Entry, record: JobRecord, spent: Usage) -> Entry:
        """The entry, and with it what is known only now and asked for by reports later."""
        match entry:
            case Launched() if record.started_at is None:
                first = self._forecasts.first_expected_at(record.id) if self._forecasts is not None else None
                return replace(entry, expected_at=first)
            case RunFinished() | RunFailed() | RunSuspended():
                return replace(entry, energy_j=spent.energy_j, energy_estimated=spent.estimated)
        return entry

    def _with_step(self, report: Report) -> Report:
        """A failure knows how far the run had come, even if the report does not say."""
        if report.kind is ReportKind.FAILED and report.step is None:
            return replace(report, step=self.run_figures[report.run_id].step)
        return report

    def _believe(self, lesson: Learned, record: JobRecord) -> None:
        now, fingerprint = self.journal.now(), record.fingerprint
        if lesson.curve is not None:
            self.journal.record(CurveLearned(at=now, job_id=record.id, curve=lesson.curve, fingerprint=fingerprint))
        if lesson.costs is not None:
            self.journal.record(CostsLearned(at=now, fingerprint=fingerprint, costs=lesson.costs))

    def _notice_the_lost(self, statuses: Iterable[RunStatus]) -> None:
        """A run that should be alive, is not, and did not say why."""
        known = {status.run_id: status for status in statuses}
        with self.journal.reading() as state:
            now = self.journal.now()
            for run_id, want in state.wanted().items():
                record = state.jobs[want.job_id]
                if self._is_lost(run_id, known.get(run_id), run_id in record.runs, now):
                    step = self.run_figures.get(run_id, RunFigures()).step
                    self.journal.record(self._report_reader.failed(record, run_id, now, reason="lost", step=step))

    def _is_lost(self, run_id: str, status: RunStatus | None, was_seen: bool, now: float) -> bool:
        if now - self._actuator.launched_at.get(run_id, -math.inf) < self._launch_grace_s:
            return False
        return was_seen if status is None else not status.alive

    def _picture(self, statuses: Iterable[RunStatus]) -> DesiredRuns:
        with self.journal.reading() as state:
            job_of = {status.run_id: _job_of(status.run_id) for status in statuses}
            listed = self._listed(set(job_of.values()))
            return DesiredRuns(
                wanted=state.wanted(),
                recipes={record.id: record.recipe for record in state.engaged.values()},
                job_of=job_of,
                leaving=frozenset(run_id for run_id, job_id in job_of.items() if job_id in state.engaged),
                footprints=_footprints((state.engaged | listed).values()),
                heard={run_id: gauge.generation for run_id, gauge in self.run_figures.items()},
            )

    def _listed(self, job_ids: Iterable[str]) -> dict[str, JobRecord]:
        """Jobs of runs that the backend still knows: the job may be over and archived while its run is being ended."""
        found = ((job_id, self.journal.find(job_id)) for job_id in job_ids)
        return {job_id: record for job_id, record in found if record is not None}

    def _clear_up(self, statuses: Iterable[RunStatus]) -> None:
        """A run that has ended, been heard out and is not waited for is forgotten; its logs stay."""
        with self.journal.reading() as state:
            wanted = set(state.wanted())
        for status in statuses:
            heard_out = self._read_to.get(status.run_id, 0) >= status.last_seq
            if not status.alive and status.run_id not in wanted and heard_out:
                self._actuator.forget(status.run_id)
        self._drop_old_figures({status.run_id for status in statuses})

    def _drop_old_figures(self, listed: set[str]) -> None:
        """Of runs that are gone the last figures are kept for a while; jobs that are over need no cursor."""
        spare = len(self.run_figures) - len(listed) - _FIGURES_KEPT
        if spare > 0:
            for run_id in [run_id for run_id in self.run_figures if run_id not in listed][:spare]:
                del self.run_figures[run_id]
        if len(self._read_to) > len(listed) + _FIGURES_KEPT:
            with self.journal.reading() as state:
                self._read_to = {
                    run_id: seq
                    for run_id, seq in self._read_to.items()
                    if run_id in listed or _job_of(run_id) in state.jobs
                }

    def _cannot_launch(self, want: Wanted, error: Exception) -> None:
        with self.journal.reading() as state:
            record = state.jobs[want.job_id]
            if not record.over and record.run_id == want.run_id:
                told = (f"{type(error).__name__}: {error}",)
                entry = self._report_reader.failed(record, want.run_id, self.journal.now(), reason="launch", tail=told)
                self.journal.record(entry)


def _rules(settings: Configured) -> tuple[object, ...]:
    return settings.policy, settings.slot, settings.overhead


def _job_of(run_id: str) -> str:
    return run_id.rpartition(".")[0]


def _footprints(records: Iterable[JobRecord]) -> Mapping[str, frozenset[DeviceSlot]]:
    return {run_id: devices for record in records for run_id, devices in record.footprints.items()}


def _news(reports: list[Report]) -> Iterator[Report]:
    """Of progress told several times in a row only the last matters."""
    for report, following in zip(reports, [*reports[1:], None], strict=False):
        repeated = following is not None and following.kind is ReportKind.PROGRESS
        if report.kind is not ReportKind.PROGRESS or not repeated:
            yield report
