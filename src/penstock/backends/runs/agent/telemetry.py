"""What the workers of a run tell, in messages, lines of output and a file: signs of life for the supervisor, progress
for the reports, figures for the metrics."""

import time
from collections.abc import Callable
from typing import Any

from penstock.backends.agent.metrics.run_metrics import RunMetrics
from penstock.backends.agent.progress import ProgressFile, ProgressRecorder, complaint, parse_line
from penstock.backends.agent.report_journal import ReportJournalWriter
from penstock.backends.agent.supervisor import Supervisor
from penstock.backends.agent.watch.run_observer import RunObserver
from penstock.backends.agent.watch.stack_looks import StackLooks
from penstock.core import (
    Bye,
    CheckpointFailed,
    CheckpointSaved,
    CheckpointUnreadable,
    Hello,
    HotspotsSampled,
    Joined,
    LossWrong,
    Met,
    MetricsLogged,
    Ready,
    ReportKind,
    StacksTaken,
    StateRolledBack,
    StateSuspended,
    StepsTimed,
    TrainingProgress,
    WorkerMessage,
    plain,
)

QUIET_S = 30.0
"""A run that has told no progress for so long is told how to, once, in its own log."""


class RunTelemetry:
    """Takes in what workers tell; ``remark`` writes a line of ours into the run's log."""

    def __init__(
        self,
        supervisor: Supervisor,
        journal: ReportJournalWriter,
        metrics: RunMetrics,
        progress_file: ProgressFile,
        remark: Callable[[str], None],
        *,
        observer: RunObserver,
        looks: StackLooks,
    ) -> None:
        self._supervisor = supervisor
        self._journal = journal
        self._metrics = metrics
        self._progress = ProgressRecorder(self._record_progress)
        self._progress_file = progress_file
        self._remark = remark
        self._observer = observer
        self._looks = looks
        self._quiet_until: float | None = time.monotonic() + QUIET_S

    def expect(self, pid: int) -> None:
        """Event files that this process writes are of this run."""
        self._metrics.expect(pid)

    def message(self, worker_id: str, message: WorkerMessage) -> None:
        run = self._supervisor
        match message:
            case Hello():
                run.hello(worker_id, message.elastic)
            case Ready():
                run.ready(worker_id)
            case TrainingProgress():
                run.trained(worker_id)
                self._take_progress(plain(message))
            case MetricsLogged():
                self._metrics.logged(message.values)
            case Met():
                run.met(message.generation)
            case Joined():
                run.joined(message.generation, message.pause_s)
            case CheckpointSaved():
                run.checkpointed(_said(message))
            case CheckpointFailed():
                run.checkpoint_failed(_said(message))
            case CheckpointUnreadable():
                run.checkpoint_unreadable(message)
            case StateSuspended():
                run.suspended(message.step)
            case StepsTimed():
                self._observer.times(worker_id, message.times, run.world)
            case HotspotsSampled():
                self._observer.hotspots(message.hotspots)
            case StacksTaken():
                self._looks.answer(worker_id, message)
            case LossWrong():
                self._observer.loss_wrong(message)
            case StateRolledBack():
                self._observer.rolled_back(message)
            case Bye():
                run.bye(worker_id)

    def line(self, worker_id: str, stream: str, line: str) -> None:
        """A line of a worker's output: any is a sign of life, the first worker's may say more."""
        if not self._looks.is_dumping(worker_id):
            self._supervisor.sign_of_life()
        member = self._supervisor.members.get(worker_id)
        if stream != "stdout" or member is None or member.rank != 0:
            return
        self._metrics.line(line)
        if member.elastic:
            return
        said = parse_line(line)
        if said and said[0] is ReportKind.CHECKPOINTED:
            self._supervisor.checkpointed(said[1])
        elif said and said[0] is ReportKind.CHECKPOINT_UNREADABLE:
            self._supervisor.checkpoint_unreadable(CheckpointUnreadable(**said[1]))
        elif said:
            self._supervisor.stepped()
            self._progress.take(said[1])
            self._metrics.reached(said[1]["step"])
        elif what := complaint(line):
            self.doubt(worker_id, what)

    def doubt(self, worker_id: str, what: str) -> None:
        """Tell whoever reads the run's output, and count."""
        self._remark(f"ignored what worker {worker_id} said: {what}")
        self._supervisor.nonsense(f"worker {worker_id} said what cannot be: {what}")

    def file_progress(self, said: dict[str, Any]) -> None:
        """What stands in a progress file, wherever that was read."""
        self._supervisor.stepped()
        self._take_progress(said)

    def tick(self) -> None:
        if said := self._progress_file.news():
            self.file_progress(said)
        self._progress.flush_when_due()
        self._metrics.tick()
        self._hint_at_progress()

    def flush(self) -> None:
        """Write down whatever there is: a report follows that must come after it."""
        self._progress.flush()
        self._metrics.flush()

    def close(self) -> None:
        self._metrics.flush()

    def _hint_at_progress(self) -> None:
        if self._quiet_until is None or time.monotonic() < self._quiet_until:
            return
        self._quiet_until = None
        if not self._progress.has_begun and not any(member.elastic for member in self._supervisor.members.values()):
            self._remark(
                f"no progress was told in {QUIET_S:g} s, so nobody can say when this will be done; "
                "print lines such as `penstock: step=3 total=100`"
            )

    def _record_progress(self, said: dict[str, Any]) -> None:
        group = self._supervisor.world
        self._journal.append(ReportKind.PROGRESS, {**said, "width": group.size, "generation": group.generation})

    def _take_progress(self, said: dict[str, Any]) -> None:
        """Progress of a worker that counts its steps itself, or of its file."""
        self._progress.take(said)
        self._metrics.progress(said)


def _said(message: CheckpointSaved | CheckpointFailed) -> dict[str, Any]:
    return {name: value for name, value in plain(message).items() if value not in (None, "")}
