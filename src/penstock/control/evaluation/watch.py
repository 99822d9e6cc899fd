"""Has checkpoints evaluated while their job trains, and after its end.

Level-triggered like the rest of the loop: every pass looks which job has a checkpoint that is due and no evaluation on
devices. One that still waits for devices gives way to a newer checkpoint; while one runs the newest waits, and those
between are passed over, which is told. One that has given its devices back is in nobody's way, but there are never more
than a few that compute metrics. The last checkpoint of a job that finishes is evaluated in the commit that says
so. An evaluation's id says which step it looks at, so none is looked at twice.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from penstock.backends import Backend
from penstock.control.evaluation.drafts import EvaluationDemand, EvaluationDraft, EvaluationDrafting, SavedCheckpoint
from penstock.control.evaluation.history import EvaluationHistory
from penstock.control.evaluation.regressions import EvaluatedStep, regressions
from penstock.control.loop.run_figures import RunFigures
from penstock.control.loop.run_troubles import RunTroubles, job_of_run
from penstock.control.state.entries import Cancelled, Entry, Evaluated, RunFinished, RunNoted, Submitted
from penstock.control.state.evaluations import Evaluates, EvaluationResult
from penstock.control.state.journal import Journal
from penstock.control.state.platform_state import PlatformState
from penstock.control.state.records import JobRecord
from penstock.core import (
    EVALUATED,
    InputError,
    MetricSeries,
    Report,
    ReportKind,
    is_metric_name,
    joined_series,
)

_MOST_PASSED_OVER = 20
_MOST_FINISHING = 2
"""Evaluations of one job that have given their devices back; with so many, the newest checkpoint waits."""
_DOING = "evaluating its checkpoints"
_NO_RESULT = "samples_per_s"
"""A figure of progress, which any script may tell."""

EvaluationNews = Evaluated | EvaluationDraft | None
"""What an evaluation found, or the job that evaluates a last checkpoint."""


class EvaluationWatch:
    """Decides which checkpoints are evaluated; ``figures`` is what runs told last."""

    def __init__(
        self,
        journal: Journal,
        backend: Backend,
        drafts: EvaluationDrafting,
        history: EvaluationHistory,
        figures: Callable[[], Mapping[str, RunFigures]],
        troubles: RunTroubles,
    ) -> None:
        self._journal = journal
        self._backend = backend
        self._drafts = drafts
        self._history = history
        self._figures = figures
        self._troubles = troubles
        self._demands: dict[str, EvaluationDemand] = {}
        self._passed_over: dict[str, list[int]] = {}
        self._refused: dict[str, int] = {}

    def look(self) -> None:
        """Begin what is due, and let go of what evaluations that are over kept."""
        with self._journal.reading() as state:
            asking = list(state.evaluated.values())
            self._forget_all_but(state.evaluated)
        for record in asking:
            with self._troubles.contained(record.run_id, _DOING):
                self._look_at(record)
        with self._journal.reading() as state:
            needed = {each for some in state.evaluations.values() for each in some}
        self._drafts.release(needed.__contains__)

    def news(self, report: Report) -> EvaluationNews:
        """What follows from the end of a run: an evaluation's results, or one more of a job's last checkpoint.

        Asked before anybody is made to wait for it. If it cannot be found out the run has ended all the same.
        """
        if report.kind is not ReportKind.FINISHED:
            return None
        with self._journal.reading() as state:
            record = state.jobs.get(job_of_run(report.run_id))
            is_asking = record is not None and record.id in state.evaluated
        if record is not None and not record.over:
            with self._troubles.contained(report.run_id, _DOING):
                if record.submission.evaluates is not None:
                    return self._found(record, record.submission.evaluates, report.run_id)
                return self._last(record) if is_asking else None
        return None

    def with_news(
        self, entries: list[Entry], news: EvaluationNews, state: PlatformState, record: JobRecord
    ) -> list[Entry]:
        """What is recorded when a run has finished, with the news of it. Call it with the lock held."""
        if news is None or not any(isinstance(entry, RunFinished) for entry in entries):
            return entries
        if isinstance(news, Evaluated):
            return [news, *entries]
        return [*entries, *self._submission(state, record, news, self._journal.now())]

    def _last(self, record: JobRecord) -> EvaluationDraft | None:
        """The evaluation of the last checkpoint of a job that has just finished, unless there is one."""
        saved, last = self._newest(record), record.evaluation
        if saved is None or (last is not None and saved.step <= last.step):
            return None
        return self._draft(record, saved)

    def _submission(self, state: PlatformState, record: JobRecord, draft: EvaluationDraft, at: float) -> list[Entry]:
        """A new evaluation, in the place of those that still wait for devices."""
        job, step = draft.job, draft.step
        waiting = [
            each for each in state.evaluations.get(record.id, {}).values() if each.grant is None and not each.released
        ]
        given_up = [each.submission.evaluates.step for each in waiting if each.submission.evaluates is not None]
        passed = sorted({*self._passed_over.pop(record.id, ()), *given_up} - {step})
        evaluates = Evaluates(
            job_id=record.id, step=step, checkpoint=draft.checkpoint, passed_over=tuple(passed[-_MOST_PASSED_OVER:])
        )
        reason = f"the newer checkpoint of step {step} is evaluated instead"
        submitted = Submitted(
            at=at, job=replace(job.job, submitted_at=at), name=job.name, recipe=job.recipe, spec=job.spec,
            preparing=job.needs_preparation, evaluates=evaluates,
        )  # fmt: skip
        return [*(Cancelled(at=at, job_id=each.id, reason=reason) for each in waiting), submitted]

    def _found(self, record: JobRecord, evaluates: Evaluates, run_id: str) -> Evaluated:
        """What an evaluation that has finished tells."""
        runs = dict.fromkeys([*record.runs, run_id])
        values = _values(joined_series(self._backend.metrics(each) for each in runs))
        now, earlier = EvaluatedStep(evaluates.step, values), self._history.results(evaluates.job_id)
        before = [each for each in earlier if each.step < now.step]
        worse = self._worse(evaluates.job_id, before, now)
        results = tuple(EvaluationResult(metric=name, value=value) for name, value in sorted(values.items()))
        return Evaluated(at=self._journal.now(), job_id=record.id, run_id=run_id, results=results, worse=worse)

    def _worse(self, job_id: str, before: list[EvaluatedStep], now: EvaluatedStep) -> tuple[str, ...]:
        """What has become worse with this checkpoint; what was so at the one before is told once."""
        parent = self._journal.find(job_id)
        if parent is None or not before:
            return ()
        demand = self._demand(parent)
        known = {each.metric for each in regressions(before[:-1], before[-1], demand.rises, demand.samples)}
        fresh = regressions(before, now, demand.rises, demand.samples)
        return tuple(str(each) for each in fresh if each.metric not in known)

    def _due(self, state: PlatformState, record: JobRecord) -> SavedCheckpoint | None:
        saved = self._newest(record)
        if saved is None or self._refused.get(record.id) == saved.step:
            return None
        last = record.evaluation
        last_step, last_at = (0, record.started_at or record.submission.at) if last is None else (last.step, last.at)
        if not self._demand(record).is_due(saved, last_step, last_at):
            return None
        under_way = state.evaluations.get(record.id, {}).values()
        finishing = sum(each.released for each in under_way)
        if finishing >= _MOST_FINISHING or any(each.grant is not None for each in under_way):
            passed = self._passed_over.setdefault(record.id, [])
            if saved.step not in passed:
                passed.append(saved.step)
            return None
        return saved

    def _newest(self, record: JobRecord) -> SavedCheckpoint | None:
        """The checkpoint that a job told of last, in its present run or in the one before."""
        figures = self._figures()
        for run_id in dict.fromkeys((record.run_id, *reversed(record.runs))):
            told = figures.get(run_id)
            if told is not None and told.saved_step:
                return SavedCheckpoint(step=told.saved_step, at=told.saved_at or told.at, path=told.saved_path or "")
        return None

    def _look_at(self, record: JobRecord) -> None:
        with self._journal.reading() as state:
            saved = self._due(state, record)
        draft = None if saved is None else self._draft(record, saved)
        with self._journal.reading() as state:
            if draft is not None and record.id in state.evaluated:
                self._journal.record_all(self._submission(state, record, draft, self._journal.now()))

    def _draft(self, record: JobRecord, saved: SavedCheckpoint) -> EvaluationDraft | None:
        """Nothing where the job file does not do any more; told once for each checkpoint."""
        earlier = next((each for each in reversed(self._history.of(record.id)) if each.values), None)
        before = None if earlier is None else self._journal.find(earlier.job_id)
        place = "" if before is None else before.recipe.checkpoint_dir
        try:
            return self._drafts.draft(record, saved, earlier=place, now=self._journal.now())
        except InputError as error:
            self._refused[record.id] = saved.step
            text = f"its checkpoint of step {saved.step} cannot be evaluated: {error}"
            self._journal.record(RunNoted(at=self._journal.now(), job_id=record.id, run_id=record.run_id, text=text))
            return None

    def _demand(self, record: JobRecord) -> EvaluationDemand:
        if record.id not in self._demands:
            self._demands[record.id] = self._drafts.demand(record.submission.spec)
        return self._demands[record.id]

    def _forget_all_but(self, job_ids: Iterable[str]) -> None:
        kept = set(job_ids)
        for known in (self._demands, self._passed_over, self._refused):
            for job_id in known.keys() - kept:
                del known[job_id]


def _values(series: Iterable[MetricSeries]) -> dict[str, float]:
    """Results by name, without what all names of results begin with."""
    named = {each.name.removeprefix(EVALUATED): each.last.value for each in series if each.points}
    return {name: value for name, value in named.items() if name != _NO_RESULT and is_metric_name(name)}
