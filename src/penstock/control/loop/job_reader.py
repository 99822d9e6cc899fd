"""From a job file to a job and a recipe, in the moment somebody asks.

Reading installs nothing, runs nothing and changes nothing, so a quote may do it: what is known comes from the stores,
and what is not known yet is said. Making ready what the job needs is :mod:`penstock.control.loop.preparation`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from penstock.control.loop.learning_stores import LearningStores
from penstock.core import CHECKPOINT_EVERY, INTERPRETER, InputError, Job, PreflightRule, Recipe, SavingInterval, Source
from penstock.policies import weakest_source
from penstock.tools import UnixUser, acting_as

if TYPE_CHECKING:
    from penstock.spec import JobFile

_NOT_MEASURED = "its speed is not known yet: measured when it first runs"
_NOT_PREDICTED = "its speed is not known yet: predicted from its penstock_model when it is prepared"
_NOT_PLANNED = "its speed is not known yet: a plan for each number of devices is searched when it is prepared"
_NO_BATCH = "its penstock_model is not asked: the job file gives no global_batch"
_PREDICTED = "its speed follows from its penstock_model"
_MOST_RETRIES = 3
"""Where the job file says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDraft:
    """A job file understood: what to schedule, how to start it, and the file as it will be kept.

    ``needs_preparation``: something has to be installed or predicted before it can be scheduled. ``note`` says where
    its speed comes from, beyond the word for it. ``after`` names what it waits for, as its file does.
    """

    name: str
    job: Job
    recipe: Recipe
    spec: Mapping[str, Any]
    needs_preparation: bool = False
    note: str = ""
    after: tuple[str, ...] = ()
    after_any: bool = False


class JobReading(Protocol):
    """What requests ask of whoever reads job files."""

    def read(self, spec: Mapping[str, Any], *, job_id: str, tenant: str, now: float) -> JobDraft:
        """Understand a job file; raises :class:`~penstock.core.InputError`. Quick, and nothing is changed."""
        ...


class JobReader:
    """Job files as ``spec`` reads them, with speeds from the stores.

    ``predicts``: preparing may import a script that offers its model, because jobs run on this machine anyway.
    ``checkpoints`` is where jobs save that name no place. ``user_of`` says whose jobs a tenant's are on this machine:
    files that a job file names are read as that user, who may not see what the server can. ``preflight`` holds for jobs
    that say nothing about checks of their nodes.
    """

    def __init__(
        self,
        stores: LearningStores,
        *,
        predicts: bool = True,
        checkpoints: Path | None = None,
        user_of: Callable[[str], UnixUser | None] = lambda _: None,
        preflight: PreflightRule | None = None,
    ) -> None:
        self._stores = stores
        self._preflight = preflight
        self._predicts = predicts
        self._checkpoints = checkpoints or stores.data_dir / "checkpoints"
        self._user_of = user_of

    def read(self, spec: Mapping[str, Any], *, job_id: str, tenant: str, now: float) -> JobDraft:
        from penstock.spec import Profiling, parse_job, to_mapping

        file = parse_job(spec)
        if not file.working_dir.is_absolute():
            raise InputError(
                f"the working directory {str(file.working_dir)!r} is relative", "an absolute path",
                "Set environment.working_dir; the command line does it by itself",
            )  # fmt: skip
        user = self._user_of(tenant)
        recipe = self._recipe(file, job_id, tenant, user)
        said, saving = to_mapping(file), self._saving(file, recipe.fingerprint)
        if saving is not None:
            every = file.checkpoint.model_copy(update={"every": saving.seconds})
            file = file.model_copy(update={"checkpoint": every})
            recipe = replace(self._recipe(file, job_id, tenant, user), fingerprint=recipe.fingerprint)
        self._stores.plans.check(file, self._stores.usable(file.kinds))
        curve, costs = self._stores.expected(recipe.fingerprint, file.kinds)
        with acting_as(user):
            resumable = file.says_resumable
        self._stores.check_nodes(file.node_choice, file.kinds, file.device_bounds(resumable=resumable).min)
        job = file.to_job(job_id=job_id, curve=curve, now=now, resumable=resumable)
        job = replace(job, tenant=tenant, costs=costs, measure_first=file.profile is not Profiling.NEVER)
        planless = needs_plans(file, recipe.fingerprint, self._stores)
        predictable = self._predicts and is_predictable(file, recipe.fingerprint, self._stores, user)
        told = _NOT_PLANNED if planless else self._note(file, job, predictable, user)
        return JobDraft(
            name=file.name, job=job, recipe=recipe, spec=said, after=file.after, after_any=file.after_any,
            note="; ".join(filter(None, (told, str(saving) if saving is not None else ""))),
            needs_preparation=planless or predictable or bool(recipe.prepared_parts),
        )  # fmt: skip

    def _recipe(self, file: "JobFile", job_id: str, tenant: str, user: UnixUser | None) -> Recipe:
        wanted = file.environment.requirements
        command = self._stores.plans.command(file, file.command_line(INTERPRETER), user)
        from penstock.learn import scoped_fingerprint

        with acting_as(user):
            fingerprint = scoped_fingerprint(file.fingerprint(), tenant)
        recipe = Recipe(
            command=command, tenant=tenant, secrets=file.secret_uses,
            env=tuple(sorted(_variables(file).items())),
            working_dir=str(file.working_dir),
            checkpoint_dir=file.checkpoint.dir or str(self._checkpoints / job_id),
            grace_s=file.grace, hang_after_s=file.hang_limit_s, learns_hangs=file.learns_hangs, fingerprint=fingerprint,
            max_retries=_MOST_RETRIES if file.retries.max is None else file.retries.max,
            retries_early_exits=file.retries.max is not None, backoff_s=file.retries.backoff,
            requirements=() if wanted is None or isinstance(wanted, str) else tuple(wanted),
            requirements_file=wanted if isinstance(wanted, str) else "",
            conda=file.environment.conda or "", setup=file.environment.setup or "",
            container=file.environment.container, limits=file.limits.resources,
            preflight=self._preflight if file.preflight is None else file.preflight.rule,
        )  # fmt: skip
        log = str(self._stores.data_dir / "preparations" / f"{job_id}.log")
        return replace(recipe, preparation_log=log) if recipe.prepared_parts else recipe

    def _saving(self, file: "JobFile", fingerprint: str) -> SavingInterval | None:
        """How often to save by what was seen; nothing where the job file says it, or the job never saved."""
        if file.checkpoint.every is not None:
            return None
        return self._stores.saving_interval(fingerprint, file.device_bounds(resumable=True).min)

    def _note(self, file: "JobFile", job: Job, predictable: bool, user: UnixUser | None) -> str:
        source = weakest_source(job)
        if predictable and source is Source.GUESSED:
            return _NOT_PREDICTED
        if self._predicts and source is not Source.MEASURED and _offers_model(file, user):
            return _NO_BATCH if file.global_batch is None else _PREDICTED if source is Source.PREDICTED else ""
        return _NOT_MEASURED if source is Source.GUESSED else ""


def _variables(file: "JobFile") -> dict[str, str]:
    """What workers find in their environment: what our library reads there, and what the file adds to it."""
    return {CHECKPOINT_EVERY: f"{file.checkpoint.every_s:g}", **file.watch.variables, **file.variables}


def needs_plans(file: "JobFile", fingerprint: str, stores: LearningStores) -> bool:
    """Whether the job names a model and nobody has planned it for these devices yet."""
    kinds = stores.usable(file.kinds)
    return file.model is not None and all(stores.plans.scaling(fingerprint, kind) is None for kind in kinds)


def is_predictable(file: "JobFile", fingerprint: str, stores: LearningStores, user: UnixUser | None = None) -> bool:
    """Whether a prediction would tell more than is known: the script offers its model and nobody has measured it."""
    if file.model is not None or file.global_batch is None or not _offers_model(file, user):
        return False
    return any(
        stores.predictions.known(fingerprint, kind) is None for kind in stores.unmeasured(fingerprint, file.kinds)
    )


def _offers_model(file: "JobFile", user: UnixUser | None) -> bool:
    from penstock.predict import offers_hook

    with acting_as(user):
        return file.script_path is not None and offers_hook(file.script_path)
