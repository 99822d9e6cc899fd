"""The job file as a value.

One model for YAML, JSON, Python and flags. It knows the meaning of its keys and how they become a
:class:`~penstock.core.Job`; it reads no files except, for its fingerprint, the ones it names.
"""

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from penstock.core import (
    ANYWHERE,
    Curve,
    Deadline,
    Goal,
    Job,
    JobError,
    NodeChoice,
    SecretUse,
    StopRule,
    Work,
    format_duration,
    located,
)
from penstock.spec.amounts import filled
from penstock.spec.commands import needs_shell, process_of, words_of
from penstock.spec.evaluate_part import Evaluate
from penstock.spec.fields import (
    IN_FILE,
    After,
    Command,
    Count,
    DeadlineText,
    Delay,
    Flag,
    HangAfter,
    JobFilePart,
    Kinds,
    Name,
    Priority,
    ProfileMode,
    Profiling,
    Refused,
    Secrets,
    Text,
    Words,
    WorkAmount,
)
from penstock.spec.fingerprint import fingerprint_of
from penstock.spec.launchers import LauncherUse, find_launcher
from penstock.spec.local_modules import imports_elastic
from penstock.spec.nodes_part import Nodes
from penstock.spec.notify_part import Notify
from penstock.spec.parts import (
    CheckpointPart,
    Devices,
    DevicesPart,
    GoalPart,
    Preflight,
    Retries,
    RetriesPart,
    WatchPart,
)
from penstock.spec.quantities import MOST_WORK, WorkUnit
from penstock.spec.surroundings import EnvironmentPart, LimitsPart

TRAINER = "penstock.runtime.parallel.train"
PLAN_PLACE = "{plan}"


class JobFile(JobFilePart):
    """A training job as a person describes it.

    >>> from penstock.spec import job
    >>> night = job(script="train.py", work="30 epochs", dataset_size=50_000, global_batch=256, deadline="6h")
    >>> night.name, night.steps, night.device_bounds(resumable=True)
    ('train', 5880, DevicesPart(min=1, max=None))
    """

    name: Name = Field(default="job", description="What people call the job; taken from the script if left out.")
    command: Command | None = Field(
        default=None, description="What every worker runs: a command line or a list of words."
    )
    script: Text | None = Field(default=None, description="A Python script, instead of command.")
    args: Words = Field(default=(), description="Arguments of the script, or of the trainer of a model.")
    model: Text | None = Field(
        default=None,
        description="A model by name or config.json, trained under the best parallel plan of each number of devices.",
    )
    seq: Count | None = Field(default=None, description="Tokens per sample of the model; its own by default.")
    work: WorkAmount = Field(
        description="How much there is to do, in steps or epochs, or until a metric says that it is enough."
    )
    global_batch: Count | None = Field(default=None, description="Samples per step over all devices together.")
    dataset_size: Count | None = Field(
        default=None, description="Samples in one epoch; with global_batch, for work in epochs."
    )
    steps_per_epoch: Count | None = Field(default=None, description="Steps in one epoch, instead of dataset_size.")
    goal: GoalPart | None = Field(
        default=None, description="The goal in full: deadline, strictness and what late is worth, or best_effort."
    )
    deadline: DeadlineText | None = Field(default=None, description="Short for a goal with this hard deadline.")
    best_effort: Flag | None = Field(default=None, description="Short for a goal of best effort, the default.")
    devices: Devices | None = Field(
        default=None,
        description='Bounds on the number of devices: 4, "1..8", "2..". Any number for jobs that can resume, else one.',
    )
    kinds: Kinds = Field(default=(), description="Kinds of devices the job can use; any by default.")
    nodes: Nodes | None = Field(
        default=None,
        description="The only nodes it runs on; or only, avoid and prefer: where it may run and where it would rather.",
    )
    environment: EnvironmentPart = Field(
        default=EnvironmentPart(), description="Software, variables and working directory."
    )
    limits: LimitsPart = Field(default=LimitsPart(), description="Memory and processors for each device.")
    secrets: Secrets = Field(
        default_factory=dict,
        description="Stored secrets the job needs: names, or VARIABLE: name, or VARIABLE: file:name for a file.",
    )
    checkpoint: CheckpointPart = Field(default=CheckpointPart(), description="Where and how often state is saved.")
    retries: Retries = Field(default=RetriesPart(), description="How often and how soon to try again after a failure.")
    tenant: Name = Field(default="default", description="Whom the job is accounted to.")
    priority: Priority = Field(default=0, description="0 (least) to 100 (most urgent); a promise outweighs it.")
    after: After = Field(
        default=(), description="Jobs or job arrays, by id or name, that must have finished before this one asks."
    )
    after_any: Flag = Field(default=False, description="They only have to end, whether they finish or fail.")
    notify: Notify | None = Field(
        default=None, description="Whom to tell of promises and of the end: addresses, or to and on."
    )
    evaluate: Evaluate | None = Field(
        default=None, description="How its checkpoints are evaluated, by jobs of their own while it trains."
    )
    preflight: Preflight | None = Field(
        default=None,
        description="Check its nodes before its workers start: quick, full or off, or level, again_after and"
        " from_devices; as the server's configuration says by default.",
    )
    watch: WatchPart = Field(default=WatchPart(), description="What is looked at while it trains, and what is done.")
    hang_after: HangAfter = Field(
        default=None,
        description="Stop and retry a job that reports nothing for this long, or never; learned from how long its"
        " steps take by default, for scripts that use penstock.elastic.",
    )
    grace: Delay = Field(default=30.0, description="Time between the polite request to stop and the end.")
    resumable: Flag | None = Field(
        default=None,
        description="Whether it goes on from a checkpoint when it is started again; found out by default.",
    )
    profile: ProfileMode = Field(
        default=Profiling.AUTO,
        description="How an unknown speed is measured: auto (while it runs), first (short runs before), never.",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for check in _CHECKS:
            check(self)
        return self

    @property
    def steps_in_epoch(self) -> int | None:
        """Steps of one epoch, if the file says enough to know."""
        if self.steps_per_epoch is not None:
            return self.steps_per_epoch
        if self.dataset_size is None or self.global_batch is None:
            return None
        return math.ceil(self.dataset_size / self.global_batch)

    @property
    def steps(self) -> int:
        """All the work in steps; a fraction of an epoch is rounded up."""
        per_unit = self.steps_in_epoch if self.work.unit is WorkUnit.EPOCHS else 1
        return math.ceil(self.work.value * (per_unit or 1))

    @property
    def stop_rule(self) -> StopRule | None:
        """What ends training before all the work is done, if the file says so."""
        clause = self.work.until
        if clause is None:
            return None
        per_unit = self.steps_in_epoch if clause.patience and clause.patience.unit is WorkUnit.EPOCHS else 1
        return clause.rule(None if clause.patience is None else clause.patience.value * (per_unit or 1))

    @property
    def epochs(self) -> int | None:
        """All the work in whole epochs, if it can be counted so."""
        if self.work.unit is WorkUnit.EPOCHS:
            return int(self.work.value) if self.work.value == int(self.work.value) else None
        per_epoch = self.steps_in_epoch
        return self.steps // per_epoch if per_epoch and self.steps % per_epoch == 0 else None

    @property
    def learns_hangs(self) -> bool:
        """Whether how long a step may take is learned from the run itself."""
        return self.hang_after is None

    @property
    def hang_limit_s(self) -> float | None:
        """How long the job may be silent, where the file says so."""
        return self.hang_after if self.hang_after is not None and math.isfinite(self.hang_after) else None

    @property
    def working_dir(self) -> Path:
        return Path(self.environment.working_dir or ".")

    @property
    def script_path(self) -> Path | None:
        """Where the script is, seen from here."""
        return None if self.script is None else self.working_dir / self.script

    @property
    def secret_uses(self) -> tuple[SecretUse, ...]:
        """The stored secrets this job needs, and where its workers find them."""
        return tuple(
            SecretUse(variable=variable, secret=name.removeprefix(IN_FILE), as_file=name.startswith(IN_FILE))
            for variable, name in sorted(self.secrets.items())
        )

    def goal_at(self, now: float) -> Goal:
        """The goal of this job if it is submitted at ``now``."""
        given = self.goal or GoalPart.model_construct(deadline=self.deadline)
        goal = given.goal_at(now)
        if isinstance(goal, Deadline) and goal.at <= now:
            late = format_duration(now - goal.at)
            raise JobError(f"the deadline {given.deadline} was {late} ago", "a time after now", "Give a later one")
        return goal

    def command_line(self, python: str = sys.executable) -> tuple[str, ...]:
        """The words every worker executes; a script is run with ``python``."""
        amounts = {"steps": self.steps, "epochs": self.epochs}
        if self.script is not None:
            return (python, self.script, *(filled(word, amounts) for word in self.args))
        if self.uses_own_trainer:
            steps = ("--steps", str(self.steps), "--checkpoint-every", f"{self.checkpoint.every_s:g}")
            return (python, "-m", TRAINER, *steps, *(filled(word, amounts) for word in self.args))
        if (launcher := self.launcher) is not None and launcher.command:
            return _unwrapped(launcher, python, amounts)
        if isinstance(self.command, str):
            return process_of(filled(self.command, amounts))
        return process_of(tuple(filled(word, amounts) for word in self.command or ()))

    def fingerprint(self) -> str:
        """What determines the job's speed, as a short hash: equal fingerprints share one scaling curve."""
        return fingerprint_of(
            command=self._decisive_words,
            working_dir=self.working_dir,
            global_batch=self.global_batch,
            env=self.variables,
            requirements=self.environment.requirements,
            software=self.environment.software,
            limits=(self.limits.memory, self.limits.cpus),
        )

    @property
    def _decisive_words(self) -> str | tuple[str, ...]:
        """What is run, without the interpreter and how long: the part of a command that decides its speed."""
        planned = ("model", self.model, str(self.seq or "")) if self.model else ()
        if self.script:
            return (*planned, "python", self.script, *self.args)
        if self.uses_own_trainer:
            return (*planned, *self.args)
        if (launcher := self.launcher) is not None and launcher.command:
            return (*planned, "python", *launcher.command)
        return (*planned, *words_of(self.command or ())) if planned else self.command or ()

    @property
    def uses_own_trainer(self) -> bool:
        """Whether the job is a model alone, which Penstock trains by itself."""
        return self.model is not None and self.command is None and self.script is None

    @property
    def launcher(self) -> LauncherUse | None:
        """The launcher that its command begins with, which starts a process for each device, as Penstock does."""
        return None if self.command is None or needs_shell(self.command) else find_launcher(words_of(self.command))

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables of every worker: the file's own over what its launcher would have set."""
        return {**dict(self.launcher.variables if self.launcher else ()), **self.environment.env}

    @property
    def says_resumable(self) -> bool:
        """Whether the file says that the job goes on when its devices change, or a script does by using our library."""
        if self.resumable is not None:
            return self.resumable
        words = (self.script,) if self.script is not None else words_of(self.command or ())
        scripts = [self.working_dir / word for word in words if word.endswith(".py")]
        return self.uses_own_trainer or any(map(imports_elastic, scripts))

    def device_bounds(self, *, resumable: bool) -> DevicesPart:
        """How many devices the job may get: as it says, else as its launcher says, else any number if it can resume.

        A job that cannot would keep what it is started with until it ends, needed or not: it gets one.
        """
        if self.devices is not None:
            return self.devices
        if self.launcher is not None and self.launcher.devices is not None:
            return DevicesPart(min=self.launcher.devices, max=self.launcher.devices)
        return DevicesPart(max=None if resumable or self.model is not None else 1)

    def to_job(self, *, job_id: str, curve: Curve, now: float, resumable: bool) -> Job:
        """The job the scheduler sees. Rigid policies get the fewest devices it accepts, so that they can start it."""
        bounds = self.device_bounds(resumable=resumable)
        return Job(
            id=job_id,
            work=Work(float(self.steps), self.stop_rule),
            curve=curve,
            goal=self.goal_at(now),
            tenant=self.tenant,
            submitted_at=now,
            requested=bounds.min,
            at_least=bounds.min,
            at_most=self.most_devices(resumable=resumable),
            resumable=resumable,
            kinds=self.kinds,
            nodes=self.node_choice,
            priority=self.priority,
            checkpoint_every_s=self.checkpoint.every_s,
            model=self.name,
            batch=self.global_batch or 0,
        )

    @property
    def node_choice(self) -> NodeChoice:
        """Where it may run, and where it would rather."""
        return ANYWHERE if self.nodes is None else self.nodes.choice

    def most_devices(self, *, resumable: bool) -> int | None:
        """The most devices that can have work: a batch cannot be cut finer than into single samples."""
        most = self.device_bounds(resumable=resumable).max
        return min((bound for bound in (most, self.global_batch) if bound is not None), default=None)

    def located(self, base: Path) -> "JobFile":
        """The same job with every path absolute; relative ones are meant from ``base``, the script from its own."""
        root = base.absolute()
        environment = self.environment.located(root, self.working_dir)
        checkpoint = self.checkpoint
        if checkpoint.dir is not None:
            checkpoint = checkpoint.model_copy(update={"dir": located(checkpoint.dir, root)})
        model = str(root / self.model) if self.model is not None and self.model.endswith(".json") else self.model
        return self.model_copy(update={"environment": environment, "checkpoint": checkpoint, "model": model})


def _unwrapped(launcher: LauncherUse, python: str, amounts: Mapping[str, int | None]) -> tuple[str, ...]:
    return (launcher.interpreter or python, *(filled(word, amounts) for word in launcher.command))


def _check_model(job: JobFile) -> None:
    if job.model is None:
        if job.seq is not None:
            raise Refused(JobError("seq without a model", "seq beside model", "Add model: gpt-1.3b"), "seq")
        return
    if job.global_batch is None:
        missing = JobError(f"the model {job.model} without global_batch", "samples per step", "Add global_batch: 64")
        raise Refused(missing, "model")
    if not job.uses_own_trainer and not any(PLAN_PLACE in word for word in (*words_of(job.command or ()), *job.args)):
        where = "args" if job.script is not None else "command"
        problem = JobError(
            f"a model beside a {'script' if job.script is not None else 'command'} that is not given the plan",
            f"{PLAN_PLACE} among its words, which stands for the file of the plan; or the model alone",
            f"Write {PLAN_PLACE} into {where}, or remove model",
        )
        raise Refused(problem, where)


def _check_command(job: JobFile) -> None:
    if job.uses_own_trainer:
        return
    if (job.command is None) == (job.script is None):
        given = "neither command nor script nor model" if job.script is None else "both command and script"
        raise Refused(
            JobError(given, "one of them", "Try script: train.py, command: python train.py or model: gpt-1.3b"),
            "command",
        )
    if job.args and job.script is None:
        raise Refused(JobError("args without a script", "args beside script", "Put them into command"), "args")


def _check_work(job: JobFile) -> None:
    if job.dataset_size is not None and job.steps_per_epoch is not None:
        both = JobError("both dataset_size and steps_per_epoch", "one of the two", "Remove dataset_size")
        raise Refused(both, "steps_per_epoch")
    patience = job.work.until.patience if job.work.until is not None else None
    in_epochs = WorkUnit.EPOCHS in (job.work.unit, patience.unit if patience is not None else None)
    if in_epochs and job.steps_in_epoch is None:
        missing = "global_batch" if job.dataset_size is not None else "dataset_size"
        given = JobError(
            f"{job.work} cannot be counted in steps: {missing} is missing",
            "epochs together with steps_per_epoch, or with dataset_size and global_batch",
            f"Add {missing}, or give the work in steps",
        )
        raise Refused(given, "work")
    if job.steps > MOST_WORK:
        much = JobError(
            f"{job.work} are {job.steps:_} steps, more than any job has", f"at most {MOST_WORK:_} steps",
            "Check the size of the data set and of the batch",
        )  # fmt: skip
        raise Refused(much, "work")


def _check_amounts(job: JobFile) -> None:
    try:
        job.command_line()
    except JobError as problem:
        raise Refused(problem, "args" if job.script is not None else "command") from None


def _check_goal(job: JobFile) -> None:
    given = [key for key in ("goal", "deadline", "best_effort") if getattr(job, key) not in (None, False)]
    if len(given) > 1:
        problem = JobError(f"both {given[0]} and {given[1]}", "one goal", f"Remove {given[1]}")
        raise Refused(problem, given[1])


def _check_after(job: JobFile) -> None:
    if job.after_any and not job.after:
        problem = JobError("after_any without after", "after_any beside after", "Add after: JOB, or remove after_any")
        raise Refused(problem, "after_any")


def _check_evaluate(job: JobFile) -> None:
    pace = job.evaluate.every.work if job.evaluate is not None else None
    if pace is not None and pace.unit is WorkUnit.EPOCHS and job.steps_in_epoch is None:
        problem = JobError(
            f"every {pace} cannot be counted in steps", "epochs together with steps_per_epoch",
            "Add steps_per_epoch, or give steps",
        )  # fmt: skip
        raise Refused(problem, "evaluate", "every")


def _check_secrets(job: JobFile) -> None:
    if both := sorted(job.secrets.keys() & job.environment.env.keys()):
        problem = JobError(f"{both[0]} both a secret and a variable", "one of the two", f"Remove {both[0]} from env")
        raise Refused(problem, "secrets")


def _check_batch(job: JobFile) -> None:
    least = job.device_bounds(resumable=True).min
    if job.global_batch is not None and least > job.global_batch:
        problem = JobError(
            f"a global batch of {job.global_batch} on at least {least} devices",
            "at least one sample for each device",
            "Raise global_batch or lower devices.min",
        )
        raise Refused(problem, "devices")


_CHECKS = (
    _check_model, _check_command, _check_work, _check_amounts, _check_goal, _check_batch, _check_after, _check_secrets,
    _check_evaluate,
)  # fmt: skip
