"""From a job file to something that can be scheduled and started; the only place that knows the rooms beside us.

``spec`` reads the file, ``estimate`` says how fast the job runs. Both are imported when they are first needed.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from penstock.control.entries import Recipe
from penstock.control.records import JobRecord
from penstock.core import Cluster, Curve, InputError, Job, Report, ReportKind

if TYPE_CHECKING:
    from penstock.estimate import CurveStore, Measurement, ProgressMeter
    from penstock.spec import JobFile

_GUESS = 1.0
"""Steps per second on one device for a job that was never measured; the first seconds of its run replace it."""

_WATCHED_S = 5.0
_NEWS = 0.05
"""A measured rate is news when it differs by more than this share from the one the job is scheduled by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A job file understood: what to schedule, how to start it, and the file as it will be kept."""

    name: str
    job: Job
    recipe: Recipe
    spec: Mapping[str, Any]


class Intake(Protocol):
    """What the platform asks of whoever reads job files and measures speeds."""

    def prepare(self, spec: Mapping[str, Any], *, job_id: str, tenant: str, now: float) -> Prepared:
        """Understand a job file; raises :class:`~penstock.core.InputError`. May take long: called without locks."""
        ...

    def learn(self, report: Report, record: JobRecord) -> Curve | None:
        """Take note of how fast a run is; a curve if it is not the one the job is scheduled by."""
        ...


class LiveIntake:
    """Job files as ``spec`` reads them, speeds as ``estimate`` keeps them under ``data_dir``."""

    def __init__(self, data_dir: Path, cluster: Callable[[], Cluster]) -> None:
        self._data_dir = data_dir
        self._cluster = cluster
        self._meters: dict[str, ProgressMeter] = {}
        self._store: CurveStore | None = None

    def prepare(self, spec: Mapping[str, Any], *, job_id: str, tenant: str, now: float) -> Prepared:
        from penstock.spec import parse_job, to_mapping

        file = parse_job(spec)
        if not file.working_dir.is_absolute():
            raise InputError(
                f"the working directory {str(file.working_dir)!r} is relative", "an absolute path",
                "Set environment.working_dir; the command line does it by itself",
            )  # fmt: skip
        recipe = self._recipe(file, job_id)
        job = file.to_job(job_id=job_id, curve=self._curve(recipe.fingerprint, file.kinds), now=now)
        return Prepared(name=file.name, job=replace(job, tenant=tenant), recipe=recipe, spec=to_mapping(file))

    def learn(self, report: Report, record: JobRecord) -> Curve | None:
        if report.run_id != record.run_id or record.grant is None:
            return None
        measured = self._watch(report)
        if measured is None:
            return None
        scale = record.work / report.total if report.total else 1.0
        kind, width = record.grant.kind, report.width or record.grant.width
        fingerprint = record.submission.recipe.fingerprint
        self._curves().observe(
            fingerprint, kind, width, measured.rate * scale, measured.seconds, measured.spread * scale
        )
        curve = self._curve(fingerprint, record.job.kinds)
        believed = record.job.curve.rate(width, kind)
        return curve if abs(curve.rate(width, kind) - believed) > _NEWS * believed else None

    def _watch(self, report: Report) -> "Measurement | None":
        """The rate over the last stretch, once it is long enough to mean something."""
        from penstock.estimate import ProgressMeter

        meter = self._meters.setdefault(report.run_id, ProgressMeter())
        if report.kind is ReportKind.RESIZED:
            meter.resized()
        if report.kind is not ReportKind.PROGRESS or report.step is None:
            return None
        meter.report(report.at, report.step)
        measured = meter.measured()
        return meter.drain() if measured is not None and measured.seconds >= _WATCHED_S else None

    def _recipe(self, file: "JobFile", job_id: str) -> Recipe:
        from penstock.spec import EnvironmentBuilder

        built = EnvironmentBuilder(self._data_dir / "environments").build(
            file.environment.requirements, base=file.working_dir
        )
        around = built.variables({**os.environ, **file.environment.env}) if built.prefix else {}
        return Recipe(
            command=file.command_line(built.python), env=tuple(sorted({**file.environment.env, **around}.items())),
            working_dir=str(file.working_dir),
            checkpoint_dir=file.checkpoint.dir or str(self._data_dir / "checkpoints" / job_id),
            grace_s=file.grace, hang_after_s=file.hang_after, fingerprint=file.fingerprint(),
            max_retries=file.retries.max, backoff_s=file.retries.backoff,
        )  # fmt: skip

    def _curve(self, fingerprint: str, kinds: tuple[str, ...]) -> Curve:
        """One curve over every kind of device there is that the job can use."""
        cluster = self._cluster()
        usable = [kind for kind in cluster.kinds if not kinds or kind in kinds]
        scalings = [
            scaling
            for kind in usable or cluster.kinds
            for scaling in self._curves().curve(fingerprint, kind, cluster.capacity(kind), guess=_GUESS).scalings
        ]
        return Curve(tuple(scalings))

    def _curves(self) -> "CurveStore":
        from penstock.estimate import CurveStore

        if self._store is None:
            self._store = CurveStore(self._data_dir / "curves.db")
        return self._store
