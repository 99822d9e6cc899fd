"""From a job and one of its checkpoints to the job that evaluates it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from penstock.control.evaluation.checkpoint_links import CheckpointLinks
from penstock.control.evaluation.regressions import Direction
from penstock.control.loop.job_reader import JobDraft, JobReading
from penstock.control.state.evaluations import evaluation_id
from penstock.control.state.records import JobRecord
from penstock.core import CHECKPOINT, CHECKPOINT_STEP, EVALUATION, SCORING_COMMAND, EvaluationBrief, Job

_BELOW_ALL = -1
"""A priority that no job file can give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedCheckpoint:
    """A checkpoint that a run has told of."""

    step: int
    at: float
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationDemand:
    """What a job file asks for: how far apart checkpoints that are evaluated lie, in steps or in seconds; else each.

    ``rises`` tells which way a metric improves, ``samples`` how large the data sets are.
    """

    steps: float | None = None
    seconds: float | None = None
    rises: Direction = lambda _: None
    samples: Mapping[str, int | None]

    def is_due(self, saved: SavedCheckpoint, last_step: int, last_at: float) -> bool:
        """Whether a checkpoint is to be evaluated after the last one that was."""
        if saved.step <= last_step:
            return False
        if self.seconds is not None:
            return saved.at - last_at >= self.seconds
        return self.steps is None or saved.step - last_step >= self.steps


def evaluation_priority(job: Job, asked: int | None) -> int:
    """Where an evaluation of a job's checkpoint stands: as its job file says, else so that training is not stopped.

    A job that can go on with fewer devices gives one up; for any other an evaluation takes what nobody uses.
    """
    if asked is not None:
        return asked
    can_shrink = job.resumable and (job.at_most is None or job.at_most > job.at_least)
    return job.priority if can_shrink else _BELOW_ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationDraft:
    """The job that evaluates the checkpoint of a ``step``, and where it finds that."""

    job: JobDraft
    step: int
    checkpoint: str


class EvaluationDrafting(Protocol):
    """What the loop asks of whoever knows job files."""

    def demand(self, spec: Mapping[str, Any]) -> EvaluationDemand: ...

    def draft(self, record: JobRecord, saved: SavedCheckpoint, *, earlier: str, now: float) -> EvaluationDraft:
        """The job that evaluates a checkpoint; raises :class:`~penstock.core.InputError`."""
        ...

    def release(self, needed: Callable[[str], bool]) -> None:
        """Let go of checkpoints that no evaluation needs any more."""
        ...


class EvaluationDrafts:
    """Job files as ``spec`` reads them. ``fitted`` gives a job the bounds that its tenant's quota allows."""

    def __init__(
        self, reader: JobReading, links: CheckpointLinks | None = None, fitted: Callable[[Job], Job] = lambda job: job
    ) -> None:
        self._reader = reader
        self._links = links
        self._fitted = fitted

    def demand(self, spec: Mapping[str, Any]) -> EvaluationDemand:
        from penstock.spec import parse_job, steps_between

        file = parse_job(spec)
        if file.evaluate is None:
            return EvaluationDemand(samples={})
        return EvaluationDemand(
            steps=steps_between(file), seconds=file.evaluate.every.seconds, rises=file.evaluate.rises,
            samples=file.evaluate.sets,
        )  # fmt: skip

    def draft(self, record: JobRecord, saved: SavedCheckpoint, *, earlier: str, now: float) -> EvaluationDraft:
        """The speed of an evaluation is that of any checkpoint's: which one it is does not count for it."""
        from penstock.spec import CHECKPOINT_PLACE, evaluation_spec, parse_job

        file, job_id = parse_job(record.submission.spec), evaluation_id(record.id, saved.step)
        path = saved.path or record.recipe.checkpoint_dir
        place = path if self._links is None else self._links.keep(record, path, job_id)
        spec = evaluation_spec(file, step=saved.step, checkpoint=place)
        draft = self._reader.read(spec, job_id=job_id, tenant=record.job.tenant, now=now)
        alike = self._reader.read(
            evaluation_spec(file, step=0, checkpoint=CHECKPOINT_PLACE), job_id=job_id, tenant=record.job.tenant, now=now
        )
        assert file.evaluate is not None
        brief = EvaluationBrief(
            step=saved.step, checkpoint=place, sets=file.evaluate.data_sets, metric=file.evaluate.metric_words,
            metric_by_shard=file.evaluate.metric_by_shard, earlier=earlier,
        )  # fmt: skip
        told = {EVALUATION: brief.to_text(), CHECKPOINT: place, CHECKPOINT_STEP: str(saved.step)}
        env = tuple(sorted({**dict(draft.recipe.env), **told}.items()))
        command = SCORING_COMMAND if brief.metric else ()
        recipe = replace(draft.recipe, env=env, fingerprint=alike.recipe.fingerprint, cpu_command=command)
        priority = evaluation_priority(record.job, file.evaluate.priority)
        job = replace(draft.job, priority=priority, curve=alike.job.curve, costs=alike.job.costs)
        made = replace(draft, job=self._fitted(job), recipe=recipe)
        return EvaluationDraft(job=made, step=saved.step, checkpoint=place)

    def release(self, needed: Callable[[str], bool]) -> None:
        if self._links is not None:
            self._links.release(needed)
