"""From a job file to something that can be scheduled and started; the only place that knows the rooms beside us.

``spec`` reads the file, ``estimate`` says how fast the job runs. Both are imported when they are first needed.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from penstock.control.loop.learning import Learned, Learner
from penstock.control.loop.plan_preparation import PlanPreparation, planned_scaling
from penstock.control.state.entries import Recipe
from penstock.control.state.records import JobRecord
from penstock.core import Cluster, Costs, Curve, InputError, Job, Report, Scaling

if TYPE_CHECKING:
    from penstock.learn import CostStore, CurveStore
    from penstock.predict import PredictionCache
    from penstock.spec import JobFile

_GUESS = 1.0
"""Steps per second on one device for a job that was never measured; the first seconds of its run replace it."""

_HALF_LIFE_S = 60.0
"""A job that was watched for a minute outweighs what was known before: forecasts are about today's machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A job file understood: what to schedule, how to start it, and the file as it will be kept."""

    name: str
    job: Job
    recipe: Recipe
    spec: Mapping[str, Any]
    note: str = ""
    """What to say about where its speed comes from, beyond the word for it."""


class Intake(Protocol):
    """What the platform asks of whoever reads job files and measures speeds."""

    def prepare(self, spec: Mapping[str, Any], *, job_id: str, tenant: str, now: float) -> Prepared:
        """Understand a job file; raises :class:`~penstock.core.InputError`. May take long: called without locks."""
        ...

    def learn(self, report: Report, record: JobRecord) -> Learned:
        """Take note of how fast a run is and how long it stands still; says what was not known before."""
        ...


class LiveIntake:
    """Job files as ``spec`` reads them, speeds as ``estimate`` keeps them under ``data_dir``."""

    def __init__(self, data_dir: Path, cluster: Callable[[], Cluster], *, foresee: bool = True) -> None:
        """``foresee`` imports scripts that offer their model: only where jobs run on this machine anyway."""
        self._data_dir = data_dir
        self._foresee = foresee
        self._cluster = cluster
        self._teacher = Learner(self)
        self._known: dict[tuple[str, tuple[str, ...], Cluster], tuple[Curve, Costs]] = {}
        self._curve_store: CurveStore | None = None
        self._cost_store: CostStore | None = None
        self._predictions: PredictionCache | None = None
        self._planned_jobs = PlanPreparation(data_dir, cluster)

    def prepare(self, spec: Mapping[str, Any], *, job_id: str, tenant: str, now: float) -> Prepared:
        from penstock.spec import Profiling, parse_job, to_mapping

        file = parse_job(spec)
        if not file.working_dir.is_absolute():
            raise InputError(
                f"the working directory {str(file.working_dir)!r} is relative", "an absolute path",
                "Set environment.working_dir; the command line does it by itself",
            )  # fmt: skip
        recipe = self._recipe(file, job_id)
        note = self._planned_jobs.prepare(file, recipe.fingerprint, self._usable(file.kinds))
        note = note or (self._predicted(file, recipe) if self._foresee else "")
        curve, costs = self._expected(recipe.fingerprint, file.kinds)
        job = file.to_job(job_id=job_id, curve=curve, now=now)
        job = replace(job, tenant=tenant, costs=costs, measure_first=file.profile is not Profiling.NEVER)
        return Prepared(name=file.name, job=job, recipe=recipe, spec=to_mapping(file), note=note)

    def learn(self, report: Report, record: JobRecord) -> Learned:
        return self._teacher.hear(report, record)

    def learned(self) -> None:
        """What was believed a moment ago may be wrong now."""
        self._known.clear()

    def _expected(self, fingerprint: str, kinds: tuple[str, ...]) -> tuple[Curve, Costs]:
        """Curve and costs, remembered until something is learned: a burst of the same jobs asks the same question."""
        question = (fingerprint, kinds, self._cluster())
        if question not in self._known:
            self._known[question] = self.curve(fingerprint, kinds), self.costs(fingerprint, kinds)
        return self._known[question]

    def _recipe(self, file: "JobFile", job_id: str) -> Recipe:
        from penstock.spec import EnvironmentBuilder

        built = EnvironmentBuilder(self._data_dir / "environments").build(
            file.environment.requirements, base=file.working_dir
        )
        around = built.variables({**os.environ, **file.environment.env}) if built.prefix else {}
        return Recipe(
            command=self._planned_jobs.command(file, file.command_line(built.python)),
            env=tuple(sorted({**file.environment.env, **around}.items())),
            working_dir=str(file.working_dir),
            checkpoint_dir=file.checkpoint.dir or str(self._data_dir / "checkpoints" / job_id),
            grace_s=file.grace, hang_after_s=file.hang_after, fingerprint=file.fingerprint(),
            max_retries=file.retries.max, backoff_s=file.retries.backoff,
        )  # fmt: skip

    def curve(self, fingerprint: str, kinds: tuple[str, ...]) -> Curve:
        """One curve over every kind of device there is that the job can use."""
        plans = {kind: self._planned_jobs.scaling(fingerprint, kind) for kind in self._usable(kinds)}
        planned = {kind: scaling for kind, scaling in plans.items() if scaling is not None}
        return Curve(tuple((kind, self._scaling(fingerprint, kind, plans[kind])) for kind in planned or plans))

    def _scaling(self, fingerprint: str, kind: str, planned: Scaling | None) -> Scaling:
        capacity = self._cluster().capacity(kind)
        prior = planned or self.predictions.known(fingerprint, kind)
        counts = planned.counts if planned else None
        found = self.speeds.curve(fingerprint, kind, capacity, counts=counts, guess=_GUESS, prior=prior)
        return planned_scaling(planned, found, capacity) if planned else found.scalings[0][1]

    def _predicted(self, file: "JobFile", recipe: Recipe) -> str:
        """Predict the job on every kind of device it was never measured on; returns what to say about it."""
        from penstock.predict import offers_hook

        if file.script_path is None or not offers_hook(file.script_path):
            return ""
        unknown = [kind for kind in self._usable(file.kinds) if not self.speeds.points(recipe.fingerprint, kind)]
        if unknown and file.global_batch is None:
            return "its penstock_model was not asked: the job file gives no global_batch"
        notes = [self._ask(file, recipe, kind) for kind in unknown]
        return "; ".join(dict.fromkeys(filter(None, notes)))

    def _ask(self, file: "JobFile", recipe: Recipe, kind: str) -> str:
        from penstock.predict import PredictionRequest, counts_up_to

        capacity = self._cluster().capacity(kind)
        before = self.predictions.known(recipe.fingerprint, kind)
        answer = self.predictions.ask(
            PredictionRequest(
                fingerprint=recipe.fingerprint, script=str(file.script_path), batch=file.global_batch or 1, kind=kind,
                counts=counts_up_to(min(capacity, file.most_devices or capacity)),
                profiles=str(self._data_dir / "profiles"), threads=max(1, (os.cpu_count() or 1) // capacity),
                working_dir=recipe.working_dir,
            ),
            python=recipe.command[0], env=dict(recipe.env),
        )  # fmt: skip
        if answer.scaling != before:
            self.learned()
        return answer.reason or f"its speed on {kind} follows from its penstock_model"

    def costs(self, fingerprint: str, kinds: tuple[str, ...]) -> Costs:
        """What starting and ending takes, on the kind where that takes longest: which one it will be is not known."""
        found = [self.delays.costs(fingerprint, kind) for kind in self._usable(kinds)]
        return max(found, key=lambda costs: costs.start.likely)

    def _usable(self, kinds: tuple[str, ...]) -> list[str]:
        there = self._cluster().kinds
        return [kind for kind in there if not kinds or kind in kinds] or list(there)

    @property
    def speeds(self) -> "CurveStore":
        from penstock.learn import CurveStore

        if self._curve_store is None:
            self._curve_store = CurveStore(self._data_dir / "curves.db", half_life_s=_HALF_LIFE_S)
        return self._curve_store

    @property
    def predictions(self) -> "PredictionCache":
        from penstock.predict import PredictionCache

        if self._predictions is None:
            self._predictions = PredictionCache(self._data_dir / "foreseen")
        return self._predictions

    @property
    def delays(self) -> "CostStore":
        from penstock.learn import CostStore

        if self._cost_store is None:
            self._cost_store = CostStore(self._data_dir / "curves.db")
        return self._cost_store
