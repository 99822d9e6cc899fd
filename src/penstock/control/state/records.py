"""What the platform knows of one job besides what the scheduler knows: where it runs, and how often it failed."""

import math
from dataclasses import dataclass, field, replace

from penstock.control.state.entries import FailureReported, RunFailed, Submitted
from penstock.control.state.evaluations import EvaluationResult, LatestEvaluation
from penstock.core import (
    CPU_WORKER,
    NO_DEVICE,
    DeviceSlot,
    Diagnosis,
    Grant,
    Job,
    MetricBest,
    Outlook,
    ParallelPlan,
    Quote,
    Recipe,
    StopRule,
    Worker,
    fresh_directory,
)
from penstock.scheduler import SUSPENDED
from penstock.scheduler import Entry as Note
from penstock.wire import OVER, JobPhase

BROKEN_PROMISE = "its promise is broken: "
"""What the reason of a finished job says before the cause."""
_LONGEST_WAIT_S = 60.0
_MOST_DOUBLINGS = 30
_MOST_METRIC_POINTS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A run that should be alive now, and in which shape."""

    job_id: str
    run_id: str
    workers: tuple[Worker, ...]
    generation: int
    attempt: int
    not_before: float
    plans: tuple[ParallelPlan, ...] = ()
    """How the model of the job is split at each width it may have; none for jobs without a model."""
    until: StopRule | None = None
    best: MetricBest | None = None
    cpu_worker: Worker | None = None
    saved_step: int = 0

    @property
    def devices(self) -> frozenset[DeviceSlot]:
        return frozenset(worker.place for worker in self.workers)


def stint_of(run_id: str) -> int:
    """The number of the stint that a run is of; 0 where the name does not say."""
    number = run_id.rpartition(".")[2]
    return int(number) if number.isdigit() else 0


@dataclass(slots=True)
class JobRecord:
    """One job.

    A *stint* is the time from getting devices to losing them; each is a run of its own with its own id, so that a word
    from an earlier run is never mistaken for one from the present run. A *generation* is one world of workers, counted
    through all stints.
    """

    id: str
    number: int
    submission: Submitted
    job: Job
    mark: JobPhase | None = None
    quote: Quote | None = None
    started_at: float | None = None
    ended_at: float | None = None
    stint: int = 0
    generation: int = 0
    grant: Grant | None = None
    granted_at: float = 0.0
    workers: tuple[Worker, ...] = ()
    workers_made: int = 0
    runs: list[str] = field(default_factory=list)
    places: tuple[DeviceSlot, ...] = ()
    """The devices of the grant by node and slot: their indices mean something to the scheduler only."""
    released: bool = False
    """It has done its part on devices and given them back for good; what is left of it needs none."""
    cpu_node: str = ""
    """Where it goes on then."""
    displaced: bool = False
    """Its grant is what its run is still on, although its bounds do not allow it: the next decision says where to."""
    footprints: dict[str, frozenset[DeviceSlot]] = field(default_factory=dict)
    failures: int = 0
    unfit_nodes: int = 0
    """Nodes that were drained because they failed the check before one of its runs."""
    restarting: bool = False
    """Its workers were restarted for a resize, and have not made a step since."""
    losses: int = 0
    streak: int = 0
    failed_at_step: int = 0
    saved_step: int = 0
    """The last step that its ended runs reported as saved."""
    unreadable: str = ""
    """What its last run said of a checkpoint that it could not read."""
    retry_at: float = 0.0
    pause_asked_at: float | None = None
    """Since when it is to be paused at its next checkpoint, and by whom."""
    pause_asked_by: str = ""
    reason: str = ""
    exit_code: int | None = None
    tail: tuple[str, ...] = ()
    failing: FailureReported | None = None
    """The failure of its present run, which is being diagnosed and is not decided yet."""
    diagnosis: Diagnosis | None = None
    """What its last failure was found to mean."""
    notes: list[Note] = field(default_factory=list)
    expected_at: float | None = None
    """When it was first expected to be done, as far as that was noted."""
    energy_j: float | None = None
    """What its runs that are over have drawn, as far as they told."""
    energy_estimated: bool = False
    metric: list[tuple[int, float]] = field(default_factory=list)
    """The metric it trains until, by step, thinned."""
    best: MetricBest | None = None
    outlook: Outlook | None = None
    evaluation: LatestEvaluation | None = None
    """Of a job whose checkpoints are evaluated, the last one that was."""
    results: list[EvaluationResult] = field(default_factory=list)
    """Of an evaluation, what it found."""
    worse: list[str] = field(default_factory=list)

    def copy(self) -> "JobRecord":
        """The same, standing still."""
        return replace(
            self, runs=self.runs.copy(), notes=self.notes.copy(), footprints=self.footprints.copy(),
            metric=self.metric.copy(), results=self.results.copy(), worse=self.worse.copy(),
        )  # fmt: skip

    def count_energy(self, joules: float | None, *, estimated: bool) -> None:
        """A run is over that has drawn so much."""
        if joules is not None:
            self.energy_j = (self.energy_j or 0.0) + joules
            self.energy_estimated = self.energy_estimated or estimated

    @property
    def run_id(self) -> str:
        """The run of the present or last stint."""
        return f"{self.id}.{self.stint}"

    @property
    def work(self) -> float:
        """Iterations in all, as submitted."""
        return self.submission.job.work.iterations

    @property
    def until(self) -> StopRule | None:
        """What ends its training before all its work is done, if anything does."""
        return self.submission.job.work.until

    @property
    def total(self) -> float:
        """Iterations it is expected to take in all."""
        return self.work if self.outlook is None else self.outlook.expected

    def measure(self, step: int, value: float) -> None:
        """Take in a value of its metric; steps that are made again after a restart replace what was told of them."""
        while self.metric and self.metric[-1][0] >= step:
            self.metric.pop()
        self.metric.append((step, value))
        if len(self.metric) > _MOST_METRIC_POINTS:
            self.metric = [*self.metric[:-1:2], self.metric[-1]]
        if self.until is not None and (self.best is None or self.until.improves(value, self.best.value)):
            self.best = MetricBest(value, step)

    @property
    def recipe(self) -> Recipe:
        """How it is started, and on whose behalf; jobs of earlier versions do not say the latter themselves."""
        recipe = self.submission.recipe
        return recipe if recipe.tenant == self.job.tenant else replace(recipe, tenant=self.job.tenant)

    @property
    def fingerprint(self) -> str:
        """What jobs of the same speed and the same start have in common; empty where nobody knows."""
        return self.submission.recipe.fingerprint

    @property
    def has_evaluations(self) -> bool:
        """Whether its job file asks for its checkpoints to be evaluated."""
        return bool(self.submission.spec.get("evaluate"))

    @property
    def is_scheduled(self) -> bool:
        """Whether the scheduler knows it: not before it has been prepared."""
        return self.mark not in (JobPhase.BLOCKED, JobPhase.PREPARING)

    @property
    def over(self) -> bool:
        return self.mark in OVER

    def begin_from_scratch(self) -> None:
        """Forget what was saved: the next run begins at step 0 and saves elsewhere."""
        recipe = self.submission.recipe
        recipe = replace(recipe, checkpoint_dir=fresh_directory(recipe.checkpoint_dir))
        self.submission = replace(self.submission, recipe=recipe)
        self.saved_step = self.failed_at_step = self.streak = 0
        self.unreadable = ""

    def tell(self, at: float, text: str) -> None:
        self.notes.append(Note(at, text))

    def take(self, grant: Grant, places: tuple[DeviceSlot, ...], at: float) -> None:
        """Devices to run on: a new run, unless one is there that only has to move."""
        if self.grant is None:
            self.begin_stint(grant, places, at)
        elif set(self.places) != set(places):
            self.reshape(grant, places, at)
        else:
            self.grant = grant

    def begin_stint(self, grant: Grant, places: tuple[DeviceSlot, ...], at: float) -> None:
        self.stint += 1
        self.workers = ()
        if self.reason.startswith(SUSPENDED):
            self.reason = ""
        self.reshape(grant, places, at)

    def reshape(self, grant: Grant, places: tuple[DeviceSlot, ...], at: float) -> None:
        """A new world. Workers whose devices stay keep their ids and come first; the others are new."""
        self.grant, self.places, self.granted_at = grant, places, at
        self.generation += 1
        ids = {worker.place: worker.id for worker in self.workers}
        order = [*(place for place in ids if place in places), *(place for place in places if place not in ids)]
        self.workers = tuple(
            Worker(id=ids.get(place) or self._new_worker(), rank=rank, node=place.node, slot=place.slot)
            for rank, place in enumerate(order)
        )
        used = self.footprints.get(self.run_id, frozenset())
        self.footprints[self.run_id] = used | frozenset(places)

    def settle(self) -> None:
        """The run has taken the shape it was told to take."""
        self.losses = 0
        if self.grant is not None:
            self.footprints[self.run_id] = frozenset(self.places)

    def lose_devices(self, why: str = "") -> None:
        self.grant, self.restarting = None, False
        self.displaced = False
        self.reason = why or self.reason

    def release_devices(self) -> None:
        """Its run goes on without them, where its first worker was; nobody else has to wait for what it leaves."""
        self.cpu_node = self._first_node()
        self.released, self.workers, self.places = True, (), ()
        self.footprints.pop(self.run_id, None)
        self.lose_devices()

    def _first_node(self) -> str:
        return self.workers[0].node if self.workers else self.cpu_node

    def stay_until_decided(self, grant: Grant) -> None:
        """It lost these devices because of its own bounds: its run waits on them for others, and is not ended."""
        self.grant = grant
        self.displaced = True

    def lose_worker(self, worker_id: str) -> None:
        """Its place in the next world goes to a new worker."""
        self.workers = tuple(worker for worker in self.workers if worker.id != worker_id)

    def replace_lost(self, at: float) -> None:
        """Ask for the whole world again: at once the first time, later and later if the new workers keep dying."""
        self.retry_at = at + min(2.0 ** min(self.losses, _MOST_DOUBLINGS) - 1.0, _LONGEST_WAIT_S)
        self.losses += 1
        if self.grant is not None:
            self.reshape(self.grant, self.places, at)

    def begin_again(self, at: float) -> None:
        """The run ended but the devices are still ours, or none are needed: the next run goes on."""
        if self.grant is not None:
            self.begin_stint(self.grant, self.places, at)
        elif self.released:
            self.stint += 1
            self.generation += 1

    @property
    def is_failing(self) -> bool:
        """Whether its present run has failed and waits for its diagnosis."""
        return self.failing is not None and self.failing.run_id == self.run_id

    def end_run(self, run_id: str) -> None:
        """It uses no devices any more, and what it ended with is known."""
        self.footprints.pop(run_id, None)
        if self.failing is not None and self.failing.run_id == run_id:
            self.failing = None

    def streak_after(self, entry: RunFailed) -> int:
        """Failures in a row without progress: one that got further than the last begins anew."""
        return 1 if (entry.step or 0) > self.failed_at_step else self.streak + 1

    def count_failure(self, entry: RunFailed) -> None:
        self.streak = self.streak_after(entry)
        self.failed_at_step = max(self.failed_at_step, entry.step or 0)
        self.failures += 1
        self.reason, self.tail, self.exit_code = entry.reason, entry.tail, entry.code
        self.diagnosis = entry.diagnosis
        self.retry_at = entry.retry_at or 0.0

    def wanted(self) -> Wanted | None:
        if self.grant is None and not self.released:
            return None
        return Wanted(
            job_id=self.id, run_id=self.run_id, workers=self.workers, generation=self.generation,
            attempt=self.failures, not_before=math.inf if self.is_failing else self.retry_at, plans=self._plans(),
            until=self.until, best=self.best, cpu_worker=self._cpu_worker(), saved_step=self.saved_step,
        )  # fmt: skip

    def _cpu_worker(self) -> Worker | None:
        command = self.recipe.cpu_command
        if not command:
            return None
        return Worker(id=CPU_WORKER, rank=0, node=self._first_node(), slot=NO_DEVICE, command=command)

    def _plans(self) -> tuple[ParallelPlan, ...]:
        scaling = None if self.grant is None else self.job.curve.scaling(self.grant.kind)
        return scaling.plans if scaling is not None else ()

    def _new_worker(self) -> str:
        self.workers_made += 1
        return f"w{self.workers_made - 1}"
