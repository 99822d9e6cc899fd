"""Misfortune on a real engine: pods, nodes, batch jobs, controllers and API servers fall, and every sample counts once.

``python -m tests.live.cluster_chaos kubernetes 20`` (``make chaos-kubernetes SEEDS=20``, ``make chaos-slurm SEEDS=10``;
a further number is the first of the seeds) deals the blows of :mod:`tests.live.chaos` that make sense there, and those
of the engine: pods that are deleted with and without grace, nodes that fall silent, an API server that is killed; batch
jobs that are cancelled, a slurmd that is killed, a controller that is restarted or killed, a drained node. Every seed
is a new server on the same engine. What must hold is the same as on one machine, and that nothing of a job is left in
the engine.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from penstock.control.loop.run_troubles import job_of_run
from tests.live.chaos import Chaos, survive
from tests.live.site import Site, until
from tests.tools.kubernetes import Testbed, opened_testbed, shared_control_plane
from tests.tools.processes import Guard
from tests.tools.slurm import NODES, PARTITION, SlurmCluster, running_slurm

COMMON = Counter(
    kill_worker=1, kill_server=1, kill_agent=1, submit_plain=1, submit_promised=2, cancel=1, pause=1, resume=1
)  # fmt: skip
DEVICES = 4


class ClusterSite(Site):
    """A server whose backend is an engine; ``left`` lists what of its jobs is still in there."""

    def __init__(self, folder: Path, configuration: str, left: Callable[[], list[str]]) -> None:
        super().__init__(folder, DEVICES)
        self.left = left
        self.data.mkdir(mode=0o700)
        (self.data / "penstock.toml").write_text(configuration)

    def options(self) -> list[str]:
        return []


class ClusterChaos(Chaos):
    """Fewer blows than on one machine, which hit elastic runs where there are any: a seed is to be over soon.

    They begin when there is something to lose: a run that goes back then goes back to a checkpoint.
    """

    epochs: ClassVar[int] = 40
    expendable_steps: ClassVar[int] = 3000
    first_steps: ClassVar[int] = 25

    def kill_worker(self) -> None:
        if workers := self.site.workers():
            chosen = workers[self._random.choice(self.elastic_first([worker.run_id for worker in workers]))]
            self._kill(chosen.run_id, chosen.pid)

    def kill_agent(self) -> None:
        if agents := self.site.agents():
            self._kill(*agents[self._random.choice(self.elastic_first([run_id for run_id, _ in agents]))])

    def elastic_first(self, run_ids: list[str]) -> list[int]:
        """Which of these to choose from, by their places in the row."""
        elastic = {plan.id for plan in self.plans.values() if plan.is_elastic}
        hit = [place for place, run_id in enumerate(run_ids) if job_of_run(run_id) in elastic]
        return hit or list(range(len(run_ids)))


class KubernetesChaos(ClusterChaos):
    """On a testbed of two nodes with two devices each."""

    blows: ClassVar[Counter[str]] = COMMON + Counter(delete_pod=1, drain_pod=1, silence_node=1, restart_api_server=1)
    testbed: ClassVar[Testbed]

    def delete_pod(self) -> None:
        """By force: nobody is told before."""
        self._delete_pod(gracePeriodSeconds=0)

    def drain_pod(self) -> None:
        """As a drain does, with the pod's grace."""
        self._delete_pod()

    def _delete_pod(self, **options: Any) -> None:
        if pods := sorted(self.testbed.pods(), key=lambda pod: str(pod["metadata"]["name"])):
            runs = [str(pod["metadata"]["annotations"]["penstock.dev/run-id"]) for pod in pods]
            chosen = self._random.choice(self.elastic_first(runs))
            about = pods[chosen]["metadata"]
            self.struck.add(runs[chosen])
            self.testbed.rest.delete(self.testbed.pod_path(about["name"]), **options)

    def silence_node(self) -> None:
        """Its kubelet does not speak; long enough, sometimes, for the cluster to give the node up."""
        node = self._random.choice(self.testbed.nodes)
        self.struck.update(pod["metadata"]["annotations"]["penstock.dev/run-id"] for pod in self.testbed.pods())
        self.testbed.kubelet.silence(node)
        time.sleep(self._random.uniform(1.0, 9.0))
        self.testbed.kubelet.speak(node)

    def restart_api_server(self) -> None:
        self.testbed.plane.restart_api_server(self._random.uniform(0.0, 2.0))


class SlurmChaos(ClusterChaos):
    """On a cluster of four nodes, of which one slot each is used."""

    blows: ClassVar[Counter[str]] = COMMON + Counter(
        cancel_part=1, kill_slurmd=1, restart_controller=1, kill_controller=1, drain_node=1
    )
    cluster: ClassVar[SlurmCluster]

    def cancel_part(self) -> None:
        if lines := _own_jobs(self.cluster):
            runs = [line.split("/")[1] for line in lines]
            chosen = self._random.choice(self.elastic_first(runs))
            self.struck.add(runs[chosen])
            with contextlib.suppress(subprocess.SubprocessError):
                self.cluster.run("scancel", lines[chosen].split()[0])

    def kill_slurmd(self) -> None:
        """Its jobs go on; Slurm gives the node up if it stays away for five seconds."""
        node = self._random.choice(NODES)
        self.struck.update(line.split("/")[1] for line in _own_jobs(self.cluster))
        self.cluster.stop(node)
        time.sleep(self._random.uniform(0.5, 8.0))
        self.cluster.start_node(node)

    def restart_controller(self) -> None:
        self.cluster.stop_controller()
        time.sleep(self._random.uniform(0.0, 3.0))
        self.cluster.start_controller()

    def kill_controller(self) -> None:
        """What it has not written yet is lost: jobs it forgot are ended when their nodes report them."""
        self.struck.update(line.split("/")[1] for line in _own_jobs(self.cluster))
        self.cluster.stop("slurmctld")
        time.sleep(self._random.uniform(0.0, 3.0))
        self.cluster.start_controller()

    def drain_node(self) -> None:
        node = self._random.choice(NODES)
        for state in ("DRAIN Reason=chaos", "RESUME"):
            with contextlib.suppress(subprocess.SubprocessError):
                self.cluster.run("scontrol", "update", f"NodeName={node}", *f"State={state}".split())
            time.sleep(self._random.uniform(0.5, 4.0))


def _own_jobs(cluster: SlurmCluster) -> list[str]:
    """Number and name of every batch job of ours that is not over, as soon as there is a controller to say so."""
    found: list[str] = []

    def answered() -> bool:
        try:
            found[:] = cluster.run("squeue", "--noheader", "--format=%i %j").splitlines()
        except subprocess.SubprocessError:
            return False
        return True

    until(answered, "a controller that answers")
    return sorted(line for line in found if " penstock/" in line)


@contextmanager
def kubernetes_sites(place: Path) -> Iterator[tuple[Callable[[Path], ClusterSite], type[Chaos]]]:
    plane = shared_control_plane(place / "control-plane")
    with opened_testbed(plane, place, [{"nvidia.com/gpu": str(DEVICES // 2)}] * 2) as testbed:
        KubernetesChaos.testbed = Testbed(
            testbed.plane, plane.rest(60.0), testbed.kubelet, testbed.namespace, testbed.nodes
        )

        def left() -> list[str]:
            return [str(pod["metadata"]["name"]) for pod in KubernetesChaos.testbed.pods()]

        yield lambda folder: ClusterSite(folder, testbed.server_settings(), left), KubernetesChaos


@contextmanager
def slurm_sites(place: Path) -> Iterator[tuple[Callable[[Path], ClusterSite], type[Chaos]]]:
    with running_slurm(place / "cluster") as cluster:
        os.environ["SLURM_CONF"] = str(cluster.configuration)
        SlurmChaos.cluster = cluster
        lines = ('backend = "slurm"', "[backend_settings]", f'partition = "{PARTITION}"', "owner = true", "cpus = 4")
        configuration = "\n".join([*lines, 'host = "127.0.0.1"'])
        yield lambda folder: ClusterSite(folder, configuration, lambda: _own_jobs(cluster)), SlurmChaos


ENGINES = {"kubernetes": kubernetes_sites, "slurm": slurm_sites}


def survive_on_engine(site: ClusterSite, seed: int, kind: type[Chaos]) -> Counter[str]:
    dealt = survive(site, seed, kind)
    until(lambda: not site.left(), "the engine to have nothing of the jobs any more", 60.0)
    return dealt


def main(engine: str, seeds: int, first: int = 0) -> int:
    guard, first, dealt, failed = Guard(), first or int(time.time()), Counter[str](), []
    with tempfile.TemporaryDirectory() as place:
        try:
            with ENGINES[engine](Path(place) / "engine" if engine == "slurm" else Path(place)) as (site_of, kind):
                for seed in range(first, first + seeds):
                    site = site_of(_folder(Path(place), seed))
                    began = time.monotonic()
                    try:
                        dealt += survive_on_engine(site, seed, kind)
                        print(f"seed {seed} survived in {time.monotonic() - began:.0f} s", flush=True)
                    except Exception as error:
                        failed.append(seed)
                        print(f"seed {seed} FAILED after {time.monotonic() - began:.0f} s: {error}", flush=True)
                        print("\n".join(getattr(error, "__notes__", ())), flush=True)
                    finally:
                        site.close()
        finally:
            guard.end()
    print(f"\n{engine}: {seeds - len(failed)} of {seeds} seeds survived; failed: {failed or 'none'}\n")
    for blow, count in sorted(dealt.items()):
        print(f"{blow.replace('_', ' '):32} {count:8}")
    return 1 if failed else 0


def _folder(place: Path, seed: int) -> Path:
    folder = place / f"seed-{seed}"
    folder.mkdir()
    return folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:4])))
