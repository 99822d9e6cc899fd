"""A large cluster on a real API server: 1,000 nodes with 8,000 devices, 500 running gangs, 5,000 pods.

`python -m bench.cluster_scale [--nodes 1000] [--gangs 500] [--width 10]` (``make bench-cluster-scale``)

Nodes are objects without a machine behind them. The gangs were submitted and decided on like any others, but nothing of
them runs: their pods are bound as they are created and set to Running as a kubelet would, and their agents are locks
and journals without a process. Then jobs come whose agents and pods are real. Measured are the server's processor time
while nothing happens, its memory, and how long a decision takes from the call to the pods' being in the API.
"""

import argparse
import fcntl
import os
import resource
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table
from tests.tools.kubernetes import ControlPlane, shared_control_plane
from tests.tools.kubernetes.rest import Rest
from tests.tools.processes import Guard

from bench.live import percentile, running
from penstock.backends import KubernetesBackend, KubernetesSettings
from penstock.backends.agent.parts import Part
from penstock.backends.agent.report_journal import ReportJournalWriter
from penstock.backends.kubernetes.labels import object_name
from penstock.backends.kubernetes.pods.device_claims import DeviceClaim
from penstock.backends.kubernetes.pods.pod_manifest import RunOwner, pod_manifest, secret_manifest
from penstock.backends.testing import until
from penstock.client import Client
from penstock.core import AgentAddress, Launch, ReportKind, RunState
from penstock.serve import Config, serve
from penstock.tools import write_atomically

NODES, GANGS, WIDTH, DEVICES = 1000, 500, 10, 8
NAMESPACE = "scale"
REAL = "real"
"""A file in the data directory: from now on runs are real."""
IDLE_S = 30.0
SETTLE_S = 120.0
"""A server that has just written much reads it once again and compares it with its checksums."""
DECISIONS = 10
STARTING_S = 1800.0
_THREADS = 8


class PretendedGangs(KubernetesBackend):
    """Runs that are there for whoever looks, in the cluster and beside the server, until real ones are wanted."""

    def launch(self, launch: Launch) -> None:
        if (self.state_dir / REAL).exists():
            super().launch(launch)
            return
        self._pretend_pods(launch)
        self._pretend_agent(launch)

    def _pretend_agent(self, launch: Launch) -> None:
        run_dir = self._directory(launch.run_id)
        run_dir.path.mkdir(parents=True, exist_ok=True)
        run_dir.write_launch(launch)
        held = os.open(run_dir.lock_file, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(held, fcntl.LOCK_EX)
        journal = ReportJournalWriter(run_dir.journal, launch.run_id)
        journal.append(ReportKind.LAUNCHED, {"pid": os.getpid(), "width": len(launch.workers)})
        for worker in launch.workers:
            journal.append(ReportKind.WORKER_STARTED, {"worker": worker.id, "pid": os.getpid()})
        journal.close()
        write_atomically(run_dir.state_file, RunState.RUNNING.value)
        write_atomically(run_dir.agent_file, f'{{"pid": {os.getpid()}, "socket": ""}}')

    def _pretend_pods(self, launch: Launch) -> None:
        base = f"/api/v1/namespaces/{self._settings.namespace}"
        owner = RunOwner(installation=self._installation, run_id=launch.run_id, namespace=self._settings.namespace)
        uid = self._api.create(f"{base}/secrets", secret_manifest(owner, "none"))["metadata"]["uid"]
        owner = RunOwner(installation=owner.installation, run_id=owner.run_id, namespace=owner.namespace, uid=str(uid))
        for worker in self._with_environment(launch.workers):
            nobody = AgentAddress(host="127.0.0.1", port=1)
            part = Part(name=f"{worker.id}-1", worker=worker, launch=launch, agent=nobody, secret="none")
            pod = pod_manifest(part, owner, self._settings)
            pod["spec"]["nodeName"] = DeviceClaim.of(dict(worker.device_env)).host
            made = self._api.create(f"{base}/pods", pod)
            self._api.patch(f"{base}/pods/{made['metadata']['name']}/status", {"status": running_status(made)})


def running_status(pod: dict[str, Any]) -> dict[str, Any]:
    """What a kubelet says of a pod whose containers run."""
    containers = [
        {
            "name": one["name"], "image": one["image"], "imageID": one["image"], "ready": True, "restartCount": 0,
            "state": {"running": {}}, "lastState": {},
        }
        for one in pod["spec"]["containers"]
    ]  # fmt: skip
    conditions = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Ready", "ContainersReady")]
    return {"phase": "Running", "podIP": "10.0.0.1", "conditions": conditions, "containerStatuses": containers}


def pretended(data_dir: Path, **settings: Any) -> PretendedGangs:
    """The backend's factory, by which a server's configuration names it."""
    return PretendedGangs(data_dir, KubernetesSettings.of(settings))


# --- the cluster --------------------------------------------------------------------------------------------------


def create_nodes(rest: Rest, count: int) -> None:
    def create(number: int) -> None:
        name = f"node-{number:04}"
        labels = {
            "topology.kubernetes.io/rack": f"rack-{number // 16}",
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
        }
        amounts = {"cpu": "128", "memory": "1000Gi", "pods": "110", "nvidia.com/gpu": str(DEVICES)}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        rest.post("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "spec": {}})
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        rest.patch(f"/api/v1/nodes/{name}/status", {"status": status})

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(create, range(count)))


def job(name: str, devices: int) -> dict[str, Any]:
    return {
        "name": name, "command": ["train"], "work": "1_000_000_000 steps", "devices": devices, "best_effort": True,
        "environment": {"working_dir": "/"},
    }  # fmt: skip


def pods_of(rest: Rest, run: str) -> int:
    """From what the API server remembers: reading thousands of pods anew at every look would be what is measured."""
    selector = f"penstock.dev/run={run}"
    found = rest.get(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=selector, resourceVersion="0")
    return len(found["items"])


# --- measuring ----------------------------------------------------------------------------------------------------


def idle_percent(process: psutil.Process) -> float:
    before, began = process.cpu_times(), time.monotonic()
    time.sleep(IDLE_S)
    after = process.cpu_times()
    return 100 * (after.user + after.system - before.user - before.system) / (time.monotonic() - began)


def running_jobs(client: Client) -> int:
    return sum(one.state == "running" for one in client.jobs(limit=1000).jobs)


def decision_s(client: Client, rest: Rest, number: int) -> float:
    """From the call to all pods in the API."""
    began = time.monotonic()
    made = client.submit(job(f"real-{number}", DEVICES)).job.id
    until(lambda: client.job(made).run_id, "the decision")
    run = str(client.job(made).run_id)
    until(lambda: pods_of(rest, object_name(run)) == DEVICES, "the pods")
    return time.monotonic() - began


def measured(wanted: argparse.Namespace, plane: ControlPlane, data: Path, table: Table) -> None:
    rest = plane.rest()
    with running(data, "bench.cluster_scale", "--serve", str(data), patience_s=120.0) as (client, process):
        table.add_row("memory with all nodes and no pods", f"{process.memory_info().rss / 1e6:.0f} MB", "-")
        for number in range(wanted.gangs):
            client.submit(job(f"gang-{number}", wanted.width))
        deadline = time.monotonic() + STARTING_S
        while (left := wanted.gangs - running_jobs(client)) and time.monotonic() < deadline:
            time.sleep(2.0)
        if left:
            log = (data / "bench-server.log").read_text()[-2000:]
            raise SystemExit(f"{left} gangs do not run after {STARTING_S:g} s: {log}")
        time.sleep(wanted.settle)
        shown = f"{wanted.gangs} gangs, {wanted.gangs * wanted.width} pods"
        table.add_row(f"idle processor time with {shown}", f"{idle_percent(process):.1f} %", "< 3 %")
        table.add_row(f"memory with {shown}", f"{process.memory_info().rss / 1e6:.0f} MB", "< 500 MB")
        (data / REAL).touch()
        taken = [decision_s(client, rest, number) for number in range(DECISIONS)]
        said = f"median {statistics.median(taken):.2f} s, worst {percentile(taken):.2f} s"
        table.add_row("a decision carried out: from the call to 8 pods", said, "< 2 s")


def serve_scaled(data: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)), hard))
    settings = {"namespace": NAMESPACE, "kubeconfig": (data / "kubeconfig").read_text(), "agent_host": "127.0.0.1"}
    serve(
        Config(
            data_dir=data, backend="bench.cluster_scale:pretended", backend_settings=settings, requests_per_s=1e9,
            burst=10**9,
        )
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="a server on a large cluster")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    for name, usual in (("nodes", NODES), ("gangs", GANGS), ("width", WIDTH)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--settle", type=float, default=SETTLE_S, help="seconds before the idle server is measured")
    wanted = parser.parse_args()
    if wanted.serve is not None:
        serve_scaled(wanted.serve)
        return 0
    guard = Guard()
    table = Table("what", "measured", "target")
    with tempfile.TemporaryDirectory() as folder:
        try:
            plane = shared_control_plane(Path(folder) / "control-plane", node_grace_s=86_400)
            plane.rest().post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
            create_nodes(plane.rest(), wanted.nodes)
            data = Path(folder) / "data"
            data.mkdir(mode=0o700)
            (data / "kubeconfig").write_text(str(plane.kubeconfig))
            measured(wanted, plane, data, table)
        finally:
            Console().print(table)
            guard.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
