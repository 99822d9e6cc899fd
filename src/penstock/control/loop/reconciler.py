"""The loop between what should be and what is.

One pass reads like a sentence: listen to what the runs tell, notice those that are gone without a word, look which
nodes are there, let time pass for the scheduler, and then make the world look as the state wants it. Whatever is
learned goes into the journal first; whatever is done follows from the state. So a crash anywhere loses nothing: the
next pass, in the next process, begins with the same sentence. What fails for one run fails for that run only.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from penstock.backends import Backend
from penstock.control.evaluation.drafts import EvaluationDrafting
from penstock.control.evaluation.history import EvaluationHistory
from penstock.control.evaluation.watch import EvaluationWatch
from penstock.control.future.forecasts import Forecasts
from penstock.control.loop.actuator import Actuator, DesiredRuns
from penstock.control.loop.dependencies import DependencyWatch
from penstock.control.loop.diagnoses import Diagnoses
from penstock.control.loop.learning import Learning
from penstock.control.loop.node_watch import NodeWatch
from penstock.control.loop.preparation import Preparer, in_thread
from penstock.control.loop.report_intake import ReportIntake
from penstock.control.loop.report_reader import ReportReader
from penstock.control.loop.run_diagnosis import RunDiagnoser
from penstock.control.loop.run_figures import RunFigures
from penstock.control.loop.run_troubles import RunTroubles, job_of_run
from penstock.control.state.entries import Configured, FailureReported, Paused, RunSuspended
from penstock.control.state.journal import Journal
from penstock.control.state.records import JobRecord, Wanted
from penstock.core import DeviceSlot, FailureReason, Report, ReportKind, RunStatus
from penstock.tools import is_disk_full
from penstock.wire import UnavailableError

_log = logging.getLogger(__name__)
_SNAPSHOT_EVERY = 10_000
"""Entries between two snapshots, or as many as there are jobs if they are more: what a start has to read again at most,
against how often everybody waits for one."""
_AFTER_TROUBLE_S = 2.0
_LIVELY = 0.25
"""Part of the usual pause after a pass in which something happened: short jobs start and end in every one of them."""
_IDLE_SHARE, _LONGEST_IDLE_S = 120.0, 1.5
"""How many times as long as a pass took the next one waits if nothing happened, and the longest of such pauses."""
_SETTLED_S = 10.0
"""How long a world that was compared with the state, run by run, and stood as it should, is taken to do so while all
its runs live and nothing is recorded."""
_APART_S = 0.05
"""Between the beginnings of two passes at least: in a rush of submissions one pass serves many of them."""
_MOST_BEGINNINGS = 5
"""How often a job's run may end before any worker has started without being charged for it."""
_VANISHED = ("the backend does not know the run any more: its directory may have been deleted",)


@dataclass(frozen=True, slots=True)
class _SettledWorld:
    """Runs that lived and stood as the state wanted them, at an entry of the log and a time."""

    runs: frozenset[str]
    seq: int
    at: float

    def still(self, statuses: Sequence[RunStatus], seq: int) -> bool:
        """Whether nothing has happened since but progress."""
        if seq != self.seq or len(statuses) != len(self.runs) or time.monotonic() - self.at > _SETTLED_S:
            return False
        return all(status.alive and status.run_id in self.runs for status in statuses)


class PassObserver(Protocol):
    """Whoever wants to know how the loop goes round."""

    def passed(self, seconds: float) -> None: ...


class Reconciler:
    """Keeps one backend in step with one journal; ``forecasts`` are made anew after each pass.

    ``launch_grace_s`` is how long a run that was just started may be invisible before it counts as lost,
    ``nodes_every_s`` how often the backend is asked what there is, ``data_dir`` where a full disk is trouble.
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
        diagnoser: RunDiagnoser | None = None,
        start_diagnosis: Callable[[Callable[[], None]], None] = in_thread,
        evaluations: EvaluationDrafting | None = None,
        launch_grace_s: float = 10.0,
        nodes_every_s: float = 5.0,
        patience_s: float = 60.0,
        concurrency: int = 8,
        data_dir: Path | None = None,
    ) -> None:
        self.journal = journal
        self.backend = backend
        self._data_dir = data_dir
        self.trouble = "starting"
        self._forecasts = forecasts
        self._observers: list[PassObserver] = []
        self._preparer = preparer
        self._report_reader = report_reader or ReportReader()
        self._troubles = RunTroubles(journal)
        self._actuator = Actuator(
            backend, self._troubles, on_launch_error=self._cannot_launch, nudge=self.nudge, patience_s=patience_s,
            concurrency=concurrency,
        )  # fmt: skip
        self._launch_grace_s = launch_grace_s
        self._nodes = NodeWatch(journal, backend, every_s=nodes_every_s)
        self._dependencies = DependencyWatch(journal)
        self.evaluation_history = EvaluationHistory(journal)
        self._evaluations = None
        if evaluations is not None:
            self._evaluations = EvaluationWatch(
                journal, backend, evaluations, self.evaluation_history, lambda: self.run_figures, self._troubles
            )
        self._intake = ReportIntake(
            journal, backend, learning, self._troubles, forecasts=forecasts, report_reader=self._report_reader,
            evaluations=self._evaluations,
        )  # fmt: skip
        self._diagnoses = Diagnoses(
            journal, diagnoser or RunDiagnoser(backend), self._intake.decide, self._troubles, self.nudge,
            start_diagnosis,
        )  # fmt: skip
        self._begun_again: Counter[str] = Counter()
        self._settled: _SettledWorld | None = None
        self._nudged = threading.Event()

    @property
    def run_figures(self) -> Mapping[str, RunFigures]:
        """What each run told last."""
        return self._intake.figures

    def blocked_by(self, run_id: str) -> tuple[str, ...] | None:
        """The jobs that have not left the devices of a run, which waits for them; None if it does not wait."""
        found = self._actuator.blocked_by.get(run_id)
        return None if found is None else tuple(dict.fromkeys(map(job_of_run, found)))

    @property
    def leaving(self) -> dict[str, frozenset[DeviceSlot]]:
        """Jobs of runs that are to end and live, and the devices that they may still be using."""
        return {job_of_run(run_id): places for run_id, places in self._actuator.leaving.items()}

    @property
    def notices(self) -> list[str]:
        """What is wrong with single runs while everything else goes on."""
        return self._troubles.notices

    def subscribe(self, observer: PassObserver) -> None:
        """From now on ``observer`` is told how long each pass took."""
        self._observers.append(observer)

    def begin(self, settings: Configured) -> None:
        """Take up the settings of this start, if they are new; nodes that changed are found by the first pass."""
        with self.journal.reading() as state:
            settings = settings.outlasting(state.settings)
            if state.settings is None or _rules(state.settings) != _rules(settings):
                self.journal.record(replace(settings, at=self.journal.now()))
        self.journal.publish()

    def run(self, stop: threading.Event, every_s: float = 0.2) -> None:
        """Pass after pass until told to stop; what goes wrong is reported by :attr:`trouble` and tried again."""
        while not stop.is_set():
            failed, seq, began = False, self.journal.seq, time.monotonic()
            try:
                self.step()
                self.trouble = self.journal.trouble or self._disk_trouble()
            except UnavailableError as error:
                failed, self.trouble = True, str(error)
                _log.warning("a pass failed; trying again: %s", error)
            except Exception as error:
                failed, self.trouble = True, f"{type(error).__name__}: {error}"
                _log.exception("a pass failed; trying again")
            pause_s = every_s * _LIVELY if self.journal.seq != seq else self._idle_pause_s(every_s, began)
            self._nudged.wait(pause_s)
            stop.wait(_AFTER_TROUBLE_S if failed else began + _APART_S - time.monotonic())
            self._nudged.clear()

    def _disk_trouble(self) -> str:
        full = self._data_dir is not None and is_disk_full(self._data_dir)
        return f"the disk of {self._data_dir} is full: make room" if full else ""

    def _idle_pause_s(self, every_s: float, began: float) -> float:
        """A pass over many runs in which nothing happened is not repeated as soon as one over few."""
        return max(every_s, min(_IDLE_SHARE * (time.monotonic() - began), _LONGEST_IDLE_S))

    def nudge(self) -> None:
        """Something was recorded that is worth a pass at once."""
        self._nudged.set()

    def step(self) -> None:
        """One pass."""
        began = time.perf_counter()
        self.journal.store.lease.check_fresh()
        statuses = self.backend.runs()
        self._intake.listen(statuses)
        if not self._is_settled(statuses):
            self._notice_the_lost(statuses)
        self._diagnoses.look()
        self._nodes.look()
        self._dependencies.look()
        self._pause_the_stopped()
        if self._evaluations is not None:
            self._evaluations.look()
        if self._preparer is not None:
            self._preparer.work()
        self.journal.decide()
        if not self._is_settled(statuses):
            self._bring_about(statuses)
        self.journal.publish()
        self.journal.keep_snapshot_aside(every=max(_SNAPSHOT_EVERY, len(self.journal.state.jobs)))
        self.journal.compact()
        self.journal.keep_up()
        if self._forecasts is not None:
            self._forecasts.refresh()
        for observer in self._observers:
            observer.passed(time.perf_counter() - began)

    def _pause_the_stopped(self) -> None:
        """Jobs that are to be paused at their next checkpoint and have lost their devices meanwhile."""
        with self.journal.reading() as state:
            asked = [each for each in state.engaged.values() if each.pause_asked_at is not None and each.grant is None]
            if asked:
                now = self.journal.now()
                self.journal.record(*(Paused(at=now, job_id=each.id, by=each.pause_asked_by) for each in asked))

    def _is_settled(self, statuses: Sequence[RunStatus]) -> bool:
        return self._settled is not None and self._settled.still(statuses, self.journal.seq)

    def _bring_about(self, statuses: Sequence[RunStatus]) -> None:
        """Make the world look as the state wants it, and remember if there was nothing left to do."""
        self._actuator.heard({run_id: figures.generation for run_id, figures in self.run_figures.items()})
        seq, picture = self.journal.seq, self._picture(statuses)
        self._actuator.work(picture, statuses, self.journal.now())
        self._clear_up(statuses)
        is_settled = self._actuator.is_settled(picture, statuses) and self.journal.seq == seq
        self._settled = _SettledWorld(frozenset(picture.wanted), seq, time.monotonic()) if is_settled else None

    def _notice_the_lost(self, statuses: Iterable[RunStatus]) -> None:
        """A run that should be alive, is not, and did not say why."""
        known = {status.run_id: status for status in statuses}
        with self.journal.reading() as state:
            now = self.journal.now()
            for run_id, want in state.wanted().items():
                with self._troubles.contained(run_id, "looking for it"):
                    record = state.jobs[want.job_id]
                    is_lost = self._is_lost(run_id, known.get(run_id), run_id in record.runs, now)
                    if is_lost and not record.is_failing:
                        self._lose(record, run_id, known.get(run_id), now)

    def _is_lost(self, run_id: str, status: RunStatus | None, was_seen: bool, now: float) -> bool:
        if self._actuator.is_launching(run_id):
            return False
        if status is None and run_id in self.run_figures:
            return True
        launched_at = self._actuator.launched_at.get(run_id)
        if launched_at is not None and now - launched_at < self._launch_grace_s:
            return False
        return was_seen or launched_at is not None if status is None else not status.alive

    def _lose(self, record: JobRecord, run_id: str, status: RunStatus | None, now: float) -> None:
        """Take the end of a run down that did not say how it came about; one that never began did not fail."""
        step = self.run_figures.get(run_id, RunFigures()).step
        if status is None:
            failed = self._report_reader.failed(
                record, run_id, now, reason=FailureReason.VANISHED, step=step, tail=_VANISHED
            )
            self.journal.record(failed)
        elif self._never_began(run_id) and self._begun_again[record.id] < _MOST_BEGINNINGS:
            self._begun_again[record.id] += 1
            self._troubles.note(run_id, "its run ended before any worker had started; it is started again")
            self.journal.record(RunSuspended(at=now, job_id=record.id, run_id=run_id))
        else:
            lost = Report(
                run_id=run_id, seq=1, at=max(now, 0.0), kind=ReportKind.FAILED, reason=FailureReason.LOST, step=step
            )
            self.journal.record(FailureReported(at=now, job_id=record.id, run_id=run_id, report=lost))

    def _never_began(self, run_id: str) -> bool:
        return not any(report.kind is ReportKind.WORKER_STARTED for report in self.backend.reports(run_id, 0))

    def _picture(self, statuses: Iterable[RunStatus]) -> DesiredRuns:
        with self.journal.reading() as state:
            job_of = {status.run_id: job_of_run(status.run_id) for status in statuses}
            records = state.engaged | self._listed(set(job_of.values()))
            return DesiredRuns(
                wanted=state.wanted(),
                recipes={record.id: record.recipe for record in records.values()},
                leaving=frozenset(run_id for run_id, job_id in job_of.items() if job_id in state.engaged),
                footprints=_footprints(records.values()),
                health=dict(state.health),
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
            if not status.alive and status.run_id not in wanted and self._intake.heard_out(status):
                self._actuator.forget(status.run_id)
        listed = {status.run_id for status in statuses}
        self._intake.drop_old_figures(listed)
        self._troubles.forget_all_but(listed | wanted)

    def _cannot_launch(self, want: Wanted, error: Exception) -> None:
        with self.journal.reading() as state:
            record = state.jobs[want.job_id]
            if not record.over and record.run_id == want.run_id:
                told = (f"{type(error).__name__}: {error}",)
                entry = self._report_reader.failed(
                    record, want.run_id, self.journal.now(), reason=FailureReason.LAUNCH, tail=told
                )
                self.journal.record(entry)


def _rules(settings: Configured) -> tuple[object, ...]:
    return settings.policy, settings.slot, settings.overhead


def _footprints(records: Iterable[JobRecord]) -> Mapping[str, frozenset[DeviceSlot]]:
    return {run_id: devices for record in records for run_id, devices in record.footprints.items()}
