"""A whole platform without processes: a journal on a real database, a virtual machine room and a clock to turn."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from penstock.control.evaluation.drafts import EvaluationDemand, EvaluationDraft, SavedCheckpoint, evaluation_priority
from penstock.control.future.forecasts import Forecasts
from penstock.control.loop.job_reader import JobDraft
from penstock.control.loop.learning import Learned
from penstock.control.loop.preparation import Preparer
from penstock.control.loop.reconciler import Reconciler
from penstock.control.loop.run_diagnosis import RunDiagnoser
from penstock.control.observe.device_readings import DeviceReadings
from penstock.control.observe.metrics import Metrics
from penstock.control.platform.commands import Commands
from penstock.control.platform.job_files import FilePlaces
from penstock.control.platform.service import Platform as PlatformService
from penstock.control.state.entries import Configured
from penstock.control.state.evaluations import evaluation_id
from penstock.control.state.journal import Journal
from penstock.control.state.records import JobRecord
from penstock.control.state.store import Principal, Role, Store
from penstock.core import (
    NO_COSTS,
    BestEffort,
    Costs,
    Curve,
    Deadline,
    InputError,
    Job,
    Node,
    NodeChoice,
    PreflightRule,
    Recipe,
    Report,
    StopRule,
    Work,
    build,
)
from penstock.diagnose import examined
from penstock.wire import JobPhase
from tests.control.fake_backend import FakeBackend

ADMIN = Principal(id="a", name="ada", role=Role.ADMIN, tenant="default")
PROPORTIONAL = Curve.from_table({1: 1.0, 2: 2.0, 4: 4.0})


@dataclass
class TestClock:
    """Time that stands still until the test moves it."""

    __test__ = False
    time: float = 1_000_000.0

    def __call__(self) -> float:
        return self.time


_KEYS = {"name", "work", "within", "at_least", "at_most", "retries", "backoff", "tenant", "packages", "resumable"}
_KEYS |= {"after", "after_any", "dir", "notify", "until", "evaluate", "preflight", "nodes"}


class StandInReader:
    """Understands a tiny job file: name, work, within (seconds to the deadline), at_least, at_most, retries.

    A job with packages has to be prepared. What jobs save lies in ``files_at``, a directory for each.
    """

    def __init__(self, files_at: Path = Path("/checkpoints")) -> None:
        self._files_at = files_at

    def read(self, spec: Mapping[str, Any], *, job_id: str, tenant: str, now: float) -> JobDraft:
        if unknown := set(spec) - _KEYS:
            raise InputError(f"unknown key {sorted(unknown)[0]!r}", "name, work, within")
        job = Job(
            id=job_id, work=Work(float(spec.get("work", 100)), _rule(spec)), curve=PROPORTIONAL, tenant=tenant,
            submitted_at=now,
            goal=Deadline(now + spec["within"]) if "within" in spec else BestEffort(),
            at_least=spec.get("at_least", 1), at_most=spec.get("at_most"), requested=spec.get("at_least", 1),
            resumable=spec.get("resumable", True), nodes=build(NodeChoice, spec.get("nodes", {})),
        )  # fmt: skip
        recipe = Recipe(
            command=("train",), checkpoint_dir=spec.get("dir", f"{self._files_at}/{job_id}"),
            max_retries=spec.get("retries", 3),
            retries_early_exits="retries" in spec, backoff_s=spec.get("backoff", 1.0),
            requirements=tuple(spec.get("packages", ())),
            preflight=build(PreflightRule, spec["preflight"]) if "preflight" in spec else None,
        )  # fmt: skip
        return JobDraft(
            name=spec.get("name", "job"), job=job, recipe=recipe, spec=dict(spec),
            needs_preparation=bool(recipe.requirements), after=tuple(spec.get("after", ())),
            after_any=spec.get("after_any", False),
        )  # fmt: skip


def _rule(spec: Mapping[str, Any]) -> StopRule | None:
    return build(StopRule, spec["until"]) if "until" in spec else None


class StandInDrafts:
    """Evaluations of ``evaluate: {steps: 10}``, or of ``{seconds: 30}``: jobs on one device, as long as ``work`` says.

    What is called accuracy shall rise; every data set has a thousand samples. With ``metric`` they need no devices
    in the end.
    """

    def __init__(self) -> None:
        self.earlier: list[str] = []
        self.needed: list[str] = []

    def demand(self, spec: Mapping[str, Any]) -> EvaluationDemand:
        asked = spec["evaluate"]
        return EvaluationDemand(
            steps=asked.get("steps"), seconds=asked.get("seconds"), samples=dict.fromkeys(("arc", "code"), 1000),
            rises=lambda metric: True if metric.endswith("accuracy") else None,
        )  # fmt: skip

    def draft(self, record: JobRecord, saved: SavedCheckpoint, *, earlier: str, now: float) -> EvaluationDraft:
        asked = record.submission.spec["evaluate"]
        if asked.get("refused"):
            raise InputError("eval.py is gone", "a script", "Put it back")
        self.earlier.append(earlier)
        spec = {"name": f"job-eval-{saved.step}", "work": asked.get("work", 20), "at_most": 1}
        job_id = evaluation_id(record.id, saved.step)
        draft = StandInReader().read(spec, job_id=job_id, tenant=record.job.tenant, now=now)
        job = replace(draft.job, priority=evaluation_priority(record.job, asked.get("priority")))
        recipe = replace(draft.recipe, cpu_command=("score",) if asked.get("metric") else ())
        return EvaluationDraft(job=replace(draft, job=job, recipe=recipe), step=saved.step, checkpoint=saved.path)

    def release(self, needed: Callable[[str], bool]) -> None:
        self.needed = [each for each in self.needed if needed(each)]


class StandInStores:
    """Every job is as fast as every other."""

    def expected(self, fingerprint: str, kinds: tuple[str, ...]) -> tuple[Curve, Costs]:  # noqa: ARG002
        return PROPORTIONAL, NO_COSTS


class StandInLearner:
    """Has nothing to learn."""

    def learn(self, report: Report, record: JobRecord) -> Learned:  # noqa: ARG002
        return Learned()


@dataclass
class Platform:
    """One server's lifetime; :meth:`restart` begins the next on the same database and the same machine room."""

    url: str
    clock: TestClock = field(default_factory=TestClock)
    policy: str = "deadline"
    forecast_every_s: float = 2.0
    foreseeing: bool = False
    files_at: Path = Path("/checkpoints")
    nodes: tuple[Node, ...] = (Node(name="node-0", device_count=4),)
    backend: FakeBackend = field(init=False)
    journal: Journal = field(init=False)
    reconciler: Reconciler = field(init=False)
    forecasts: Forecasts = field(init=False)
    commands: Commands = field(init=False)
    platform: PlatformService = field(init=False)
    metrics: Metrics = field(init=False)
    readings: DeviceReadings = field(init=False)
    drafts: StandInDrafts = field(default_factory=StandInDrafts)
    diagnoses: list[Callable[[], None]] | None = None
    """Diagnoses that have begun and wait for the test to make them; without a list each is made at once."""
    preparations: list[Callable[[], None]] = field(default_factory=list)
    """What has begun to be prepared and is not done before :meth:`prepare` does it."""

    def __post_init__(self) -> None:
        self.backend = FakeBackend(self.clock, self.nodes)
        self._start()

    def restart(self, **changes: Any) -> None:
        """As after kill -9: nothing of the old process is used again."""
        for name, value in changes.items():
            setattr(self, name, value)
        self.journal.store.close()
        self.backend.crash_before = self.backend.crash_after = ""
        self.preparations = []
        self.diagnoses = None if self.diagnoses is None else []
        self._start()

    def _start(self) -> None:
        self.journal = Journal(Store(self.url), self.clock)
        self.forecasts = Forecasts(self.journal, every_s=self.forecast_every_s)
        preparer = Preparer(self.journal, self.backend, StandInStores(), start=self.preparations.append)
        self.reconciler = Reconciler(
            self.journal, self.backend, StandInLearner(), preparer=preparer,
            forecasts=self.forecasts if self.foreseeing else None, launch_grace_s=5.0, nodes_every_s=1.0,
            patience_s=20.0, concurrency=0, evaluations=self.drafts,
            diagnoser=RunDiagnoser(self.backend, examine=examined), start_diagnosis=self._diagnose,
            data_dir=Path(self.url.removeprefix("sqlite:///")).parent,
        )  # fmt: skip
        self.reconciler.begin(Configured(at=0.0, nodes=self.backend.nodes(), policy=self.policy))
        self.commands = Commands(self.journal, StandInReader(self.files_at), self.forecasts)
        self.readings = DeviceReadings(self.journal, self.backend)
        self.platform = PlatformService(
            self.journal, self.reconciler, self.commands, self.forecasts, self.readings,
            places=FilePlaces(root=self.files_at),
        )  # fmt: skip
        self.metrics = Metrics(self.journal, self.reconciler, self.readings)
        self.journal.subscribe(self.metrics)
        self.reconciler.subscribe(self.metrics)

    def submit(self, who: Principal = ADMIN, **spec: Any) -> str:
        return self.commands.submit(spec, who).job_id

    def _diagnose(self, work: Callable[[], None]) -> None:
        if self.diagnoses is None:
            work()
        else:
            self.diagnoses.append(work)

    def prepare(self) -> None:
        """Do what has begun."""
        while self.preparations:
            self.preparations.pop(0)()

    def passes(self, seconds: float = 0.0, every: float = 1.0) -> None:
        """Let time pass, one pass of the loop after the other, at least two."""
        for _ in range(max(2, math.ceil(seconds / every))):
            self.clock.time += every if seconds else 0.0
            self.step()

    def step(self) -> None:
        self.reconciler.step()
        self.journal.state.scheduler.validate()
        assert self.backend.violations == []

    def phase(self, job_id: str) -> JobPhase:
        return self.journal.state.phase(self.record(job_id))

    def record(self, job_id: str) -> JobRecord:
        record = self.journal.find(job_id)
        assert record is not None
        return record


@cache
def _empty_database() -> bytes:
    """A database with the newest schema and nothing in it; migrating one takes longer than most tests."""
    with TemporaryDirectory() as folder:
        Store(f"sqlite:///{folder}/penstock.db").close()
        return Path(folder, "penstock.db").read_bytes()


@contextmanager
def platform(folder: Path, **options: Any) -> Iterator[Platform]:
    if not (database := folder / "penstock.db").exists():
        database.write_bytes(_empty_database())
    built = Platform(f"sqlite:///{folder}/penstock.db", **options)
    try:
        yield built
    finally:
        built.journal.store.close()
