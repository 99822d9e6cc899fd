"""A virtual machine room that obeys the backend's protocol and keeps its own books.

Runs make progress when the test's clock moves: n workers make n steps a second, from the step their job last saved.
It refuses what would be a fault in the real world: two runs of one job alive at once, two runs on one device, a run
started twice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.backends import BackendError
from penstock.core import (
    DeviceSlot,
    InputError,
    Launch,
    MetricSeries,
    Node,
    Recipe,
    Report,
    ReportKind,
    RunState,
    RunStatus,
    RunWatch,
    UnknownNameError,
    Usage,
    Worker,
)


class Crash(BaseException):
    """The server's process dies here."""


@dataclass
class Run:
    launch: Launch
    alive: bool = True
    started_at: float = 0.0
    step: float = 0.0
    updated_at: float = 0.0
    reports: list[Report] = field(default_factory=list)
    leaving: bool = False

    @property
    def state(self) -> RunState:
        if not self.alive:
            return RunState.ENDED
        return RunState.ENDING if self.leaving else RunState.RUNNING


@dataclass
class FakeBackend:
    """``total_of`` says how many steps a job has; ``calls`` is everything that was asked for, in order."""

    clock: Callable[[], float]
    nodes_there: tuple[Node, ...] = (Node(name="node-0", device_count=4),)
    name: str = "fake"
    total: int = 100
    slow_to_leave: bool = False
    saves: bool = True
    calls: list[tuple[str, str]] = field(default_factory=list)
    all_runs: dict[str, Run] = field(default_factory=dict)
    saved: dict[str, float] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    violations: list[str] = field(default_factory=list)
    crash_before: str = ""
    crash_after: str = ""
    refuse: dict[str, Exception] = field(default_factory=dict)
    output: dict[str, bytes] = field(default_factory=dict)
    usage_series: dict[str, list[MetricSeries]] = field(default_factory=dict)
    written: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    metric_series: dict[str, list[MetricSeries]] = field(default_factory=dict)
    watches: dict[str, RunWatch] = field(default_factory=dict)
    broken: dict[DeviceSlot, str] = field(default_factory=dict)
    ignores_stops: set[str] = field(default_factory=set)

    def nodes(self) -> tuple[Node, ...]:
        return self.nodes_there

    promises = True

    def unusable(self) -> Mapping[DeviceSlot, str]:
        return self.broken

    def prepare(self, recipe: Recipe, tell: Callable[[str], None]) -> Recipe:
        self._called("prepare", recipe.checkpoint_dir)
        tell("packing its bags")
        self._happened("prepare")
        return replace(recipe, env=(*recipe.env, ("PREPARED", "yes")))

    def launch(self, launch: Launch) -> None:
        self._called("launch", launch.run_id)
        if self._is_new(launch):
            self._check(launch.run_id, launch.job_id, launch.workers)
            step = self.saved.get(launch.job_id, 0.0)
            told = self.all_runs[launch.run_id].reports if launch.run_id in self.all_runs else []
            self.all_runs[launch.run_id] = Run(launch, True, self.clock(), step, self.clock(), told)
            self.tell(launch.run_id, ReportKind.LAUNCHED, pid=1)
            for worker in launch.workers:
                self.tell(launch.run_id, ReportKind.WORKER_STARTED, worker=worker.id, generation=launch.generation)
        self._happened("launch")

    def resize(self, run_id: str, workers: tuple[Worker, ...], generation: int) -> None:
        self._called("resize", run_id)
        run = self._run(run_id)
        if not run.launch.workers:
            raise BackendError("the run has given its devices back and cannot be resized")
        if generation < run.launch.generation:
            raise BackendError(f"generation {generation} was overtaken by generation {run.launch.generation}")
        if run.alive and generation > run.launch.generation:
            self._advance(run)
            self._check(run_id, run.launch.job_id, workers)
            run.launch = replace(run.launch, workers=workers, generation=generation)
            self.tell(run_id, ReportKind.RESIZED, generation=generation, width=len(workers), pause_s=0.1, in_place=True)
        self._happened("resize")

    def suspend(self, run_id: str) -> None:
        self._called("suspend", run_id)
        run = self._run(run_id)
        if run.alive:
            run.leaving = True
            if not self.slow_to_leave:
                self.leave(run_id)
        self._happened("suspend")

    def leave(self, run_id: str) -> None:
        """A run that was asked to suspend has saved its state."""
        run = self.all_runs[run_id]
        self._advance(run)
        if run.alive:
            if self.saves:
                self.saved[run.launch.job_id] = run.step
            self.tell(
                run_id, ReportKind.SUSPENDED, **({"step": int(run.step), "total": self.total} if self.saves else {})
            )
            run.alive = False

    def stop(self, run_id: str, grace_s: float) -> None:  # noqa: ARG002
        self._called("stop", run_id)
        run = self._run(run_id)
        if run.alive and run_id not in self.ignores_stops:
            run.alive = False
            self.tell(run_id, ReportKind.FAILED, reason="stopped", code=-15)
        self._happened("stop")

    def forget(self, run_id: str) -> None:
        self._called("forget", run_id)
        if self._run(run_id).alive:
            raise InputError(f"run {run_id!r} still lives", "a run that has ended")
        self.forgotten.add(run_id)

    def runs(self) -> tuple[RunStatus, ...]:
        for run in self.all_runs.values():
            self._advance(run)
        return tuple(
            RunStatus(run_id=run_id, state=run.state, last_seq=len(run.reports))
            for run_id, run in self.all_runs.items()
            if run_id not in self.forgotten
        )

    def reports(self, run_id: str, after_seq: int) -> tuple[Report, ...]:
        return tuple(self._run(run_id).reports[after_seq:])

    def logs(self, run_id: str, worker: str | None, offset: int, limit: int) -> tuple[bytes, int]:  # noqa: ARG002
        text = self.output.get(run_id, b"")[offset : offset + limit]
        return text, offset + len(text)

    def log_offset(self, run_id: str, worker: str | None, since: float) -> int:  # noqa: ARG002
        return next(
            (offset for at, offset in self.written.get(run_id, ()) if at >= since), len(self.output.get(run_id, b""))
        )

    def metrics(self, run_id: str) -> tuple[MetricSeries, ...]:
        return tuple(self.metric_series.get(run_id, ()))

    def usage_curves(self, run_id: str) -> tuple[MetricSeries, ...]:
        return tuple(self.usage_series.get(run_id, ()))

    def watched(self, run_id: str) -> RunWatch | None:
        return self.watches.get(run_id)

    def usage(self, run_id: str) -> Usage:  # noqa: ARG002
        return Usage()

    def alive(self) -> list[str]:
        return sorted(run_id for run_id, run in self.all_runs.items() if run.alive)

    def width(self, run_id: str) -> int:
        return len(self.all_runs[run_id].launch.workers)

    def tell(self, run_id: str, kind: ReportKind, **said: Any) -> None:
        run = self.all_runs[run_id]
        run.reports.append(Report(run_id=run_id, seq=len(run.reports) + 1, at=self.clock(), kind=kind, **said))

    def fail(self, run_id: str, *, code: int = 1, tail: tuple[str, ...] = ("boom",), save: bool = False) -> None:
        """The script dies."""
        run = self.all_runs[run_id]
        self._advance(run)
        if save:
            self.saved[run.launch.job_id] = run.step
        run.alive = False
        self.tell(run_id, ReportKind.FAILED, code=code, reason="exit", tail=tail)

    def release(self, run_id: str) -> None:
        """All work on devices is done: the workers are gone, and the one without a device goes on."""
        run = self.all_runs[run_id]
        if run.launch.cpu_worker is None:
            self.violations.append(f"{run_id}: nobody goes on without devices")
        for worker in run.launch.workers:
            self.tell(run_id, ReportKind.WORKER_EXITED, worker=worker.id, code=0)
        run.launch = replace(run.launch, workers=())
        self.tell(run_id, ReportKind.RELEASED)

    def finish(self, run_id: str) -> None:
        """A run ends well."""
        self.all_runs[run_id].alive = False
        self.tell(run_id, ReportKind.FINISHED, code=0)

    def vanish(self, run_id: str) -> None:
        """The agent dies without a word."""
        self._advance(self.all_runs[run_id])
        self.all_runs[run_id].alive = False

    def _is_new(self, launch: Launch) -> bool:
        run = self.all_runs.get(launch.run_id)
        if run is None:
            return True
        known = run.launch
        return not run.alive and (launch.attempt, launch.generation) > (known.attempt, known.generation)

    def _run(self, run_id: str) -> Run:
        if run_id not in self.all_runs:
            raise UnknownNameError.of("run", run_id, self.all_runs)
        return self.all_runs[run_id]

    def _advance(self, run: Run) -> None:
        if not run.alive:
            return
        run.step = min(run.step + len(run.launch.workers) * max(0.0, self.clock() - run.updated_at), self.total)
        run.updated_at = max(run.updated_at, self.clock())
        width, generation = len(run.launch.workers), run.launch.generation
        self.tell(
            run.launch.run_id, ReportKind.PROGRESS, step=int(run.step), total=self.total, width=width,
            generation=generation,
        )  # fmt: skip
        if run.step >= self.total and run.launch.cpu_worker is not None and run.launch.workers:
            self.release(run.launch.run_id)
        elif run.step >= self.total and run.launch.workers:
            self.finish(run.launch.run_id)

    def _check(self, run_id: str, job_id: str, workers: tuple[Worker, ...]) -> None:
        others = [run for other, run in self.all_runs.items() if other != run_id and run.alive]
        if any(run.launch.job_id == job_id for run in others):
            self.violations.append(f"{run_id}: another run of {job_id} is alive")
        taken = {worker.place for run in others for worker in run.launch.workers}
        if taken & {worker.place for worker in workers}:
            self.violations.append(f"{run_id}: on a device that is in use")
        sizes = {node.name: node.device_count for node in self.nodes_there}
        if not all(0 <= worker.slot < sizes.get(worker.node, 0) for worker in workers):
            self.violations.append(f"{run_id}: on a device that is not there")
        if (
            not workers
            and self.all_runs.get(run_id) is None
            and not any(run.launch.job_id == job_id for run in self.all_runs.values())
        ):
            self.violations.append(f"{run_id}: a first run without devices")
        if sorted(worker.rank for worker in workers) != list(range(len(workers))):
            self.violations.append(f"{run_id}: ranks {[worker.rank for worker in workers]}")
        if len({worker.id for worker in workers}) != len(workers):
            self.violations.append(f"{run_id}: two workers of one name")

    def _called(self, what: str, run_id: str) -> None:
        if self.crash_before == what:
            raise Crash(what)
        if what in self.refuse:
            raise self.refuse[what]
        self.calls.append((what, run_id))

    def _happened(self, what: str) -> None:
        if self.crash_after == what:
            raise Crash(what)
