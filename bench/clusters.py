"""What a cluster's engine costs a job: resizes over two nodes, a killed worker, and the way from a submission to pods.

`python -m bench.clusters [kubernetes] [slurm] [--rounds 3] [--submissions 100]` (``make bench-clusters``)

The engines are real and of this machine: Kubernetes' control plane (``make engines-kubernetes``) with a kubelet whose
containers are local processes, and Slurm with four slurmd. On each, in turns,

* an elastic run grows from two workers on two nodes to three, one of which is then killed without a word;
* the same run, losing the same worker, is stopped as a whole and started again from its last checkpoint without the
  lost one, as ElasticFlow and every scheduler without elastic workers does. It is asked to at the moment of the kill:
  how long such a scheduler takes to notice is not counted against it.

What a kill costs is the longest time after it without a step that had not been completed before, the tenth of a second
of the step itself included. Then servers are started on both: they play the README's demo (``bench.cluster_demo``), and
the one on Kubernetes is submitted to: from the call to the pods' being in the API.
"""

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table
from tests.backends.kubernetes.backends import backend_on
from tests.tools.kubernetes import Testbed, opened_testbed, shared_control_plane
from tests.tools.processes import Guard
from tests.tools.slurm import NODES, PARTITION, SlurmCluster, running_slurm

from bench import timed_steps
from bench.cluster_demo import DemoFigures, EngineSite, play
from bench.live import percentile
from bench.timed_steps import SAVE_STEPS, last_step, longest_halt
from penstock.backends import Backend, SlurmBackend, SlurmSettings
from penstock.backends.testing import make_launch, output, status, until, wait_for, wait_for_end, workers_on
from penstock.client import Client, DataDir, ensure_server
from penstock.core import DeviceSlot, Report, ReportKind

LOST = "w1"
ROUNDS = 3
SUBMISSIONS = 100
SLURM_SERVER = f"""backend = "slurm"
[backend_settings]
partition = "{PARTITION}"
owner = true
cpus = 2
host = "127.0.0.1"
"""
SETTLED = 10
"""Steps that a run completes before something happens to it."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A backend on a real engine, three devices of two of its nodes, and how a worker of a run is killed there."""

    name: str
    backend: Backend
    places: tuple[DeviceSlot, ...]
    kill: Callable[[str, str], float]


@dataclass(slots=True)
class EngineFigures:
    """Seconds, one of each kind for every round."""

    grown: list[float] = field(default_factory=list)
    survived: list[float] = field(default_factory=list)
    restarted: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StepRun:
    """One run of ``timed_steps`` on an engine."""

    engine: Engine
    run_id: str
    folder: Path

    def launch(self, places: tuple[DeviceSlot, ...], attempt: int = 0) -> None:
        checkpoints = self.folder / "checkpoints"
        checkpoints.mkdir(parents=True, exist_ok=True)
        command = (sys.executable, timed_steps.__file__)
        backend = self.engine.backend
        backend.launch(
            make_launch(
                backend, command, run_id=self.run_id, workers=workers_on(places), working_dir=str(self.folder),
                checkpoint_dir=str(checkpoints), env=(("OMP_NUM_THREADS", "1"),), attempt=attempt,
            )
        )  # fmt: skip

    def grow(self) -> Report:
        """From two workers on two nodes to three."""
        self.await_steps(SETTLED)
        self.engine.backend.resize(self.run_id, workers_on(self.engine.places), 1)
        return wait_for(self.engine.backend, self.run_id, ReportKind.RESIZED, generation=1)

    def kill(self) -> float:
        """A worker, once there is a checkpoint; returns when."""
        self.await_steps(self.last_step() + SAVE_STEPS + SETTLED)
        return self.engine.kill(self.run_id, LOST)

    def halt_after(self, killed_at: float) -> float:
        """The longest time without a new step since then, once new ones come again."""
        self.await_steps(self.last_step() + SETTLED)
        return longest_halt(self.folder, killed_at)

    def restart(self) -> None:
        """Of the whole run without the lost worker."""
        backend = self.engine.backend
        backend.stop(self.run_id, 0.0)
        wait_for_end(backend, self.run_id)
        self.launch((self.engine.places[0], self.engine.places[2]), attempt=1)

    def await_steps(self, step: int) -> None:
        try:
            until(lambda: self.last_step() >= step, f"step {step}", 120.0)
        except AssertionError as error:
            raise SystemExit(f"{error}: {output(self.engine.backend, self.run_id)[-2000:]}") from None

    def last_step(self) -> int:
        return last_step(self.folder)

    def end(self) -> None:
        if status(self.engine.backend, self.run_id).alive:
            self.engine.backend.stop(self.run_id, 0.0)
            until(lambda: not status(self.engine.backend, self.run_id).alive, "the end of the run")


def survived(run: StepRun, figures: EngineFigures) -> None:
    """Ours: the others go on."""
    run.launch(run.engine.places[:2])
    figures.grown.append(run.grow().pause_s or 0.0)
    killed_at = run.kill()
    wait_for(run.engine.backend, run.run_id, ReportKind.RESIZED, width=2)
    figures.survived.append(run.halt_after(killed_at))
    run.end()


def restarted(run: StepRun, figures: EngineFigures) -> None:
    """Theirs: all of it goes back to the last checkpoint."""
    run.launch(run.engine.places)
    killed_at = run.kill()
    run.restart()
    figures.restarted.append(run.halt_after(killed_at))
    run.end()


def measured(engine: Engine, folder: Path, rounds: int) -> EngineFigures:
    figures = EngineFigures()
    for number in range(rounds):
        for measure in (survived, restarted):
            name = f"{measure.__name__}-{number}"
            measure(StepRun(engine, name, folder / engine.name / name), figures)
    return figures


# --- engines ------------------------------------------------------------------------------------------------------


@contextmanager
def kubernetes_cluster(place: Path) -> Iterator[Testbed]:
    plane = shared_control_plane(place / "control-plane")
    with opened_testbed(plane, place, [{"nvidia.com/gpu": "2"}] * 2) as testbed:
        yield testbed


def kill_pod(testbed: Testbed, worker: str) -> float:
    """By force; returns when."""
    labels = {pod["metadata"]["name"]: pod["metadata"]["labels"] for pod in testbed.pods()}
    name = next(name for name, own in labels.items() if own["penstock.dev/worker"] == worker)
    killed_at = time.time()
    testbed.rest.delete(testbed.pod_path(name), gracePeriodSeconds=0)
    return killed_at


def kill_batch_job(cluster: SlurmCluster, run_id: str, worker: str) -> float:
    """All its processes at once; returns when."""
    shown = cluster.run("squeue", "--noheader", "--states=RUNNING", "--format=%i %j").splitlines()
    job = next(line.split()[0] for line in shown if f"penstock/{run_id}/{worker}-" in line)
    killed_at = time.time()
    cluster.run("scancel", "--full", "--signal=KILL", job)
    return killed_at


@contextmanager
def kubernetes_engine(testbed: Testbed, place: Path) -> Iterator[Engine]:
    left, right = testbed.nodes
    places = (DeviceSlot(left, 0), DeviceSlot(right, 0), DeviceSlot(right, 1))
    with backend_on(testbed, place / "kubernetes-state", schedule_timeout_s=60.0) as backend:
        yield Engine("kubernetes", backend, places, lambda _, worker: kill_pod(testbed, worker))


def slurm_engine(cluster: SlurmCluster, place: Path) -> Engine:
    settings = SlurmSettings(partition=PARTITION, owner=True, host="127.0.0.1")
    backend = SlurmBackend(place / "slurm-state", settings)
    places = (DeviceSlot("n0", 0), DeviceSlot("n1", 0), DeviceSlot("n1", 1))
    return Engine("slurm", backend, places, lambda run_id, worker: kill_batch_job(cluster, run_id, worker))


# --- from a submission to pods ------------------------------------------------------------------------------------


@contextmanager
def served(data: Path, configuration: str) -> Iterator[Client]:
    """A server of its own, which is stopped afterwards."""
    data.mkdir(mode=0o700)
    (data / "penstock.toml").write_text(configuration)
    with ensure_server(data) as client:
        yield client
    if (address := DataDir(data).address()) is not None:
        os.kill(address.pid, signal.SIGTERM)
        until(lambda: not DataDir(data).is_served(), "the end of the server")


def submissions(client: Client, testbed: Testbed, count: int) -> list[float]:
    """Seconds from the call to two pods of a job in the API, one job after the other."""
    taken = []
    for number in range(-1, count):
        began = time.monotonic()
        spec = {
            "name": f"submission-{number}", "command": ["sleep", "600"], "work": "1 steps", "devices": 2,
            "best_effort": True, "environment": {"working_dir": "/"},
        }  # fmt: skip
        job = client.submit(spec).job.id
        until(lambda: len(testbed.pods()) == 2, "the pods")
        taken.append(time.monotonic() - began)
        client.cancel(job)
        until(lambda: not testbed.pods(), "their end")
    return taken[1:]


# --- the table ----------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description="what an engine costs a job")
    parser.add_argument("engines", nargs="*", default=["kubernetes", "slurm"], help="kubernetes, slurm")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--submissions", type=int, default=SUBMISSIONS)
    wanted = parser.parse_args()
    guard = Guard()
    table = Table("engine", "what", "Penstock (s)", "stop and restart (s)", "target (s)")
    with tempfile.TemporaryDirectory() as folder:
        try:
            for name in wanted.engines:
                _BENCHES[name](Path(folder), wanted, table)
        finally:
            guard.end()
    Console().print(table)
    return 0


def _kubernetes(place: Path, wanted: argparse.Namespace, table: Table) -> None:
    with kubernetes_cluster(place) as testbed:
        with kubernetes_engine(testbed, place) as engine:
            add_rows(table, engine.name, measured(engine, place, wanted.rounds))
        with served(place / "data", testbed.server_settings()) as client:
            site = EngineSite("kubernetes", client, lambda _, worker: kill_pod(testbed, worker))
            add_demo_rows(table, site, demos(site, place, wanted.rounds))
            taken = submissions(client, testbed, wanted.submissions)
    shown = f"median {statistics.median(taken):.2f}, p99 {percentile(taken):.2f}"
    table.add_row("kubernetes", f"submission to pods created, of {len(taken)}", shown, "-", "p99 < 1")


def _slurm(place: Path, wanted: argparse.Namespace, table: Table) -> None:
    with running_slurm(place / "slurm-cluster") as cluster:
        os.environ["SLURM_CONF"] = str(cluster.configuration)
        engine = slurm_engine(cluster, place)
        add_rows(table, engine.name, measured(engine, place, wanted.rounds))
        for spare in NODES[2:]:
            cluster.run("scontrol", "update", f"NodeName={spare}", "State=DRAIN", "Reason=two nodes are enough")
        with served(place / "slurm-data", SLURM_SERVER) as client:
            site = EngineSite("slurm", client, lambda run_id, worker: kill_batch_job(cluster, run_id, worker))
            add_demo_rows(table, site, demos(site, place, wanted.rounds))


def demos(site: EngineSite, place: Path, rounds: int) -> DemoFigures:
    figures = DemoFigures()
    for number in range(rounds):
        play(site, place / site.name / f"demo-{number}", figures)
    return figures


_BENCHES = {"kubernetes": _kubernetes, "slurm": _slurm}


def add_rows(table: Table, name: str, figures: EngineFigures) -> None:
    table.add_row(name, "two workers to three over two nodes, in place", spread(figures.grown), "-", "< 1")
    table.add_row(name, "a killed worker", spread(figures.survived), spread(figures.restarted), "< 2")


def add_demo_rows(table: Table, site: EngineSite, figures: DemoFigures) -> None:
    kept = f"{figures.promises.count('kept')} of {len(figures.promises)} kept"
    table.add_row(site.name, "demo: shrunk for a deadline over two nodes, in place", spread(figures.shrunk), "-", "< 1")
    table.add_row(site.name, "demo: grown again, in place", spread(figures.grown), "-", "< 1")
    table.add_row(site.name, "demo: a worker killed", spread(figures.survived), "-", "< 2")
    table.add_row(site.name, "demo: first step of the job with a deadline", spread(figures.began), "-", "-")
    table.add_row(site.name, "demo: promises", kept, "-", "all")


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    sys.exit(main())
