"""Listening to runs: what each has told since the last pass goes into the log, the figures and the meters.

Reports come from outside. One that cannot be taken in is passed over, told in the story of its job and counted; a run
that keeps telling such things is ended. The others are not disturbed by it.
"""

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from penstock.backends import Backend
from penstock.control.evaluation.watch import EvaluationWatch
from penstock.control.future.forecasts import Forecasts
from penstock.control.loop.cordons import cordons
from penstock.control.loop.learning import Learned, Learning
from penstock.control.loop.lesson_pace import FEW, LessonPace
from penstock.control.loop.metric_outlooks import MetricOutlooks, consequences
from penstock.control.loop.report_reader import ReportReader
from penstock.control.loop.run_figures import RunFigures
from penstock.control.loop.run_troubles import RunTroubles, job_of_run
from penstock.control.state.entries import (
    CostsLearned,
    CurveLearned,
    Entry,
    FailureReported,
    Launched,
    MetricReported,
    RunFailed,
    RunFinished,
    RunSuspended,
)
from penstock.control.state.journal import Journal, SetAsideError
from penstock.control.state.records import JobRecord
from penstock.control.state.store import Cursor, DamagedError
from penstock.core import (
    CodecError,
    Diagnosis,
    EventError,
    FailureReason,
    InputError,
    Report,
    ReportKind,
    RunStatus,
    Usage,
    clean_text,
)
from penstock.wire import JobPhase, UnavailableError

_log = logging.getLogger(__name__)
MOST_NONSENSE = 50
"""Reports of one run that cannot be taken in; then it is ended."""
_FIGURES_KEPT = 1_000
_TAKING_IN = "taking in its reports"
_SHOWN = 500
_ENDS = (ReportKind.SUSPENDED, ReportKind.FINISHED, ReportKind.FAILED)
_FAULTS = (
    SetAsideError, CodecError, EventError, InputError,
    ArithmeticError, LookupError, TypeError, ValueError, AttributeError,
)  # fmt: skip
"""What a report is to blame for: the same again would fail again. A database that is away is not among them."""


class ReportIntake:
    """Reads on where it stopped, run by run; ``figures`` is what each run told last."""

    def __init__(
        self,
        journal: Journal,
        backend: Backend,
        learning: Learning,
        troubles: RunTroubles,
        *,
        forecasts: Forecasts | None,
        report_reader: ReportReader,
        evaluations: EvaluationWatch | None = None,
    ) -> None:
        self.figures: dict[str, RunFigures] = {}
        self._journal = journal
        self._backend = backend
        self._learning = learning
        self._troubles = troubles
        self._forecasts = forecasts
        self._report_reader = report_reader
        self._evaluations = evaluations
        self._read_to = journal.store.log.cursors()
        self._nonsense: dict[str, int] = {}
        self._lessons = LessonPace()
        self._outlooks = MetricOutlooks()

    def listen(self, statuses: Iterable[RunStatus]) -> None:
        """Take in what is new: the next report of every run together, then the one after it, and so on."""
        waiting: dict[str, deque[Report]] = {}
        for status in filter(self._has_news, statuses):
            with self._troubles.contained(status.run_id, "reading its reports"):
                waiting[status.run_id] = deque(self._unread(status))
        while waiting := {run_id: reports for run_id, reports in waiting.items() if reports}:
            for run_id in self._take_in([reports.popleft() for reports in waiting.values()]):
                del waiting[run_id]

    def decide(self, report: Report, diagnosis: Diagnosis | None) -> None:
        """Take in what follows from a failure that was reported before, now that its cause is known or will not be."""
        self._record([report], diagnosis, heard_before=True)

    def heard_out(self, status: RunStatus) -> bool:
        """Whether everything a run told is known."""
        return self._read_to.get(status.run_id, 0) >= status.last_seq

    def drop_old_figures(self, listed: set[str]) -> None:
        """Of runs that are gone the last figures are kept for a while; jobs that are over need no cursor."""
        spare = len(self.figures) - len(listed) - _FIGURES_KEPT
        if spare > 0:
            for run_id in [run_id for run_id in self.figures if run_id not in listed][:spare]:
                del self.figures[run_id]
        self._outlooks.forget(map(job_of_run, listed))
        self._nonsense = {run_id: count for run_id, count in self._nonsense.items() if run_id in listed}
        if len(self._read_to) > len(listed) + _FIGURES_KEPT:
            with self._journal.reading() as state:
                self._read_to = {
                    run_id: seq
                    for run_id, seq in self._read_to.items()
                    if run_id in listed or job_of_run(run_id) in state.jobs
                }

    def _has_news(self, status: RunStatus) -> bool:
        return status.run_id not in self.figures or status.last_seq > self._read_to.get(status.run_id, 0)

    def _unread(self, status: RunStatus) -> list[Report]:
        """What a run told since the last pass, as far as it matters."""
        read_to = self._read_to.get(status.run_id, 0)
        first_sight = status.run_id not in self.figures
        reports = self._backend.reports(status.run_id, 0 if first_sight else read_to)
        self._note_figures(status.run_id, reports)
        return list(_news([report for report in reports if report.seq > read_to]))

    def _note_figures(self, run_id: str, reports: Iterable[Report]) -> None:
        figures, ended_at = self.figures.get(run_id, RunFigures()), None
        with suppress(DamagedError):
            record = self._journal.find(job_of_run(run_id))
            if record is not None and record.mark in (JobPhase.CANCELLED, JobPhase.DECLINED):
                ended_at = record.ended_at
        for report in reports:
            if ended_at is not None and report.at > ended_at:
                break
            with suppress(*_FAULTS):
                figures = figures.after(report)
        self.figures[run_id] = figures

    def _take_in(self, reports: list[Report]) -> list[str]:
        """Reports of different runs go into the log together, each with the fact that it was read.

        If that fails they go one by one: a report to blame is passed over. Returns the runs that have to be heard
        again in the next pass.
        """
        try:
            self._record(reports)
        except UnavailableError:
            raise  # the store is away: nobody's report is to blame
        except Exception as error:
            if len(reports) > 1:
                return [run_id for report in reports for run_id in self._take_in([report])]
            return self._pass_over(reports[0], error)
        for report in reports:
            self._read_to[report.run_id] = report.seq
            self._troubles.over(report.run_id, _TAKING_IN)
            if report.kind is ReportKind.NONSENSE:
                self._doubt(report, report.reason or "it told something that cannot be")
        return []

    def _pass_over(self, report: Report, error: Exception) -> list[str]:
        if not isinstance(error, _FAULTS):
            what = clean_text(f"{_TAKING_IN} failed: {type(error).__name__}: {error}", _SHOWN)
            self._troubles.lasts(report.run_id, _TAKING_IN, what)
            return [report.run_id]
        _log.error("run %s: report %d, %s, is passed over", report.run_id, report.seq, report.kind, exc_info=error)
        self._doubt(report, f"report {report.seq} ({report.kind}) cannot be taken in: {type(error).__name__}")
        self._read_to[report.run_id] = report.seq
        return []

    def _record(self, reports: list[Report], diagnosis: Diagnosis | None = None, *, heard_before: bool = False) -> None:
        spent = {report.run_id: self._spent(report) for report in reports}
        watch = self._evaluations
        news = {} if watch is None else {report.run_id: watch.news(report) for report in reports}
        entries: list[Entry] = []
        cursors: list[Cursor] = []
        with self._journal.reading() as state:
            for report in sorted(reports, key=lambda report: report.at):
                record = state.jobs.get(job_of_run(report.run_id))
                if record is None:
                    continue
                heard = self._report_reader.entries(
                    self._with_step(report), record, state, self._journal.now(), diagnosis
                )
                if heard and not heard_before:
                    cursors.append(Cursor(report.run_id, record.id, report.seq))
                if any(isinstance(entry, FailureReported) for entry in heard):
                    entries += heard
                    continue
                lesson = self._lesson(report, record)
                completed = [self._completed(entry, record, spent[report.run_id]) for entry in heard]
                if watch is not None:
                    completed = watch.with_news(completed, news[report.run_id], state, record)
                entries += [*completed, *consequences(completed, record), *cordons(completed, state)]
                entries += self._learned(lesson, record)
            if len(reports) > 1 and entries:
                self._journal.record_all(entries, cursors=cursors)
            elif entries:
                self._journal.record(*entries, cursors=cursors)

    def _doubt(self, report: Report, what: str) -> None:
        """Tell the job's story, and end a run that talks nonsense all the time."""
        run_id = report.run_id
        count = self._nonsense[run_id] = self._nonsense.get(run_id, 0) + 1
        self._troubles.note(run_id, f"{what}; it is ignored")
        if count != MOST_NONSENSE:
            return
        with self._journal.reading() as state:
            record = state.jobs.get(job_of_run(run_id))
            if record is not None and not record.over and record.run_id == run_id:
                told = (f"{count} things it told cannot be",)
                at = self._journal.now()
                self._journal.record(
                    self._report_reader.failed(record, run_id, at, reason=FailureReason.NONSENSE, tail=told)
                )

    def _lesson(self, report: Report, record: JobRecord) -> Learned:
        try:
            return self._learning.learn(report, record)
        except Exception:
            _log.exception("run %s: nothing was learned from report %d", report.run_id, report.seq)
            return Learned()

    def _spent(self, report: Report) -> Usage:
        """What a run that is over has used, as far as its backend can tell; asked before anybody is made to wait."""
        if report.kind not in _ENDS:
            return Usage()
        try:
            return self._backend.usage(report.run_id)
        except Exception as error:
            _log.debug("no usage of run %s: %s", report.run_id, error)
            return Usage()

    def _completed(self, entry: Entry, record: JobRecord, spent: Usage) -> Entry:
        """The entry, and with it what is known only now and asked for by reports later."""
        match entry:
            case Launched() if record.started_at is None:
                first = self._forecasts.first_expected_at(record.id) if self._forecasts is not None else None
                return replace(entry, expected_at=first)
            case MetricReported():
                return replace(entry, outlook=self._outlooks.after(entry, record, self._figures(entry.run_id).total))
            case RunSuspended() if not record.job.resumable:
                lost = self._figures(entry.run_id).step or 0
                entry = replace(entry, lost_steps=lost)
        match entry:
            case RunFinished() | RunFailed() | RunSuspended():
                entry = replace(entry, energy_j=spent.energy_j, energy_estimated=spent.estimated)
        match entry:
            case RunFailed() | RunSuspended():
                return replace(entry, saved_step=self._figures(entry.run_id).saved_step)
        return entry

    def _figures(self, run_id: str) -> RunFigures:
        return self.figures.get(run_id, RunFigures())

    def _with_step(self, report: Report) -> Report:
        """A failure knows how far the run had come, even if the report does not say."""
        if report.kind is ReportKind.FAILED and report.step is None:
            return replace(report, step=self._figures(report.run_id).step)
        return report

    def _learned(self, lesson: Learned, record: JobRecord) -> list[Entry]:
        now, fingerprint = self._journal.now(), record.fingerprint
        kin = self._journal.state.kin.get(fingerprint, {})
        found = self._speed_learned(lesson, record, [each for each in kin.values() if each is not record])
        if lesson.costs is not None and self._lessons.may_tell("costs", fingerprint, len(kin), now):
            found.append(CostsLearned(at=now, fingerprint=fingerprint, costs=lesson.costs))
        return found

    def _speed_learned(self, lesson: Learned, record: JobRecord, kin: list[JobRecord]) -> list[Entry]:
        """What one run shows is said to every job that it is news for; those that run see it by themselves, too.

        A job whose file counts in another unit than its script hears it in its own, the others in the script's.
        """
        if lesson.speed is None:
            return []
        now, is_news = self._journal.now(), lesson.is_news(record.job.curve, lesson.scale)
        behind = [each for each in kin[:FEW] if each.grant is None and lesson.is_news(each.job.curve)]
        if lesson.scale != 1.0:
            told = [(each, lesson.speed) for each in behind]
            told += [(record, lesson.speed.scaled(lesson.scale))] if is_news else []
            return [CurveLearned(at=now, job_id=each.id, curve=curve) for each, curve in told]
        if not (is_news or behind) or not self._lessons.may_tell("speed", record.fingerprint, len(kin) + 1, now):
            return []
        return [CurveLearned(at=now, job_id=record.id, curve=lesson.speed, fingerprint=record.fingerprint)]


def _news(reports: list[Report]) -> Iterator[Report]:
    """Of progress told several times in a row only the last matters."""
    for report, following in zip(reports, [*reports[1:], None], strict=False):
        repeated = following is not None and following.kind is ReportKind.PROGRESS
        if report.kind is not ReportKind.PROGRESS or not repeated:
            yield report
