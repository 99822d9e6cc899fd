"""What the evaluations of a job have found so far, whether they are over and archived or still there.

An evaluation that is over never changes, so what it found is remembered once it was read.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.control.evaluation.regressions import EvaluatedStep
from penstock.control.state.evaluations import evaluated_job, evaluations_of
from penstock.control.state.folded_state import listed
from penstock.control.state.journal import Journal
from penstock.control.state.records import JobRecord
from penstock.core import EVALUATED, MetricSeries
from penstock.wire import JobPhase

_REMEMBERED = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PastEvaluation:
    """One evaluation: where it stands, what it found (by ``SET/METRIC``), and which of that got worse."""

    job_id: str
    step: int
    state: str
    submitted_at: float
    ended_at: float | None
    values: Mapping[str, float]
    worse: tuple[str, ...] = ()
    reason: str = ""
    passed_over: tuple[int, ...] = ()

    @property
    def note(self) -> str:
        """What the job whose checkpoint it was has to tell of it; nothing of one that gave way to another."""
        if self.worse:
            return f"the checkpoint of step {self.step} got worse: {'; '.join(self.worse)}"
        if self.values:
            shown = [f"{metric} {value:.4g}" for metric, value in self.values.items()]
            return f"the checkpoint of step {self.step} was evaluated: {listed(shown)}"
        failed = self.state == JobPhase.FAILED
        return f"the evaluation of step {self.step} failed: {self.reason}" if failed else ""


class EvaluationHistory:
    """Looks evaluations up by the job they are of."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._over: OrderedDict[str, PastEvaluation] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, job_id: str) -> list[PastEvaluation]:
        """All evaluations of a job, in the order of their steps."""
        stored = (member.id for member in self._journal.store.jobs.members(evaluations_of(job_id)))
        recent = (row.id for row in self._journal.unlisted() if evaluated_job(row.id) == job_id)
        found = (self._look_up(each) for each in {*stored, *recent})
        return sorted((each for each in found if each is not None), key=lambda each: each.step)

    def results(self, job_id: str) -> list[EvaluatedStep]:
        """What was found, by step."""
        return [EvaluatedStep(each.step, each.values) for each in self.of(job_id) if each.values]

    def curves(self, job_id: str) -> list[MetricSeries]:
        """The same as metrics of the job."""
        series: dict[str, MetricSeries] = {}
        for each in self.of(job_id):
            for metric, value in each.values.items():
                name = f"{EVALUATED}{metric}"
                series.setdefault(name, MetricSeries(name)).add(each.step, each.ended_at or each.submitted_at, value)
        return [series[name] for name in sorted(series)]

    def _look_up(self, job_id: str) -> PastEvaluation | None:
        with self._lock:
            if (known := self._over.get(job_id)) is not None:
                return known
        record = self._journal.find(job_id)
        if record is None:
            return None
        with self._journal.reading() as state:
            found = past_evaluation(record, "" if record.over else state.phase(record))
        if found is not None and record.over:
            self._remember(found)
        return found

    def _remember(self, found: PastEvaluation) -> None:
        with self._lock:
            self._over[found.job_id] = found
            if len(self._over) > _REMEMBERED:
                self._over.popitem(last=False)


def past_evaluation(record: JobRecord, phase: str) -> PastEvaluation | None:
    """A job as an evaluation; nothing for one that is none."""
    evaluates = record.submission.evaluates
    if evaluates is None:
        return None
    return PastEvaluation(
        job_id=record.id, step=evaluates.step, state=phase or str(record.mark), submitted_at=record.submission.at,
        ended_at=record.ended_at, values={each.metric: each.value for each in record.results},
        worse=tuple(record.worse), reason=record.reason, passed_over=evaluates.passed_over,
    )  # fmt: skip
