"""A Slurm cluster of four nodes on this machine, as real as its controller: everything below one temporary folder."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tools import needs
from tests.tools.needs import engine

NODES = ("n0", "n1", "n2", "n3")
PARTITION = "penstock"
GPU_NODE, GPU_PARTITION, GPUS = "g0", "gpus", 2
"""A node beside the others whose accelerators exist by name."""
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")
_CONFIGURATION = """
ClusterName=penstock
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdParameters=config_overrides
MpiDefault=none
KillWait=2
MessageTimeout=2
SlurmdTimeout=5
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1
GresTypes=gpu
{nodes}
PartitionName={partition} Nodes={names} Default=YES MaxTime=120 State=UP
PartitionName={gpu_partition} Nodes={gpu_node} MaxTime=120 State=UP
"""


@dataclass(slots=True)
class SlurmCluster:
    """Daemons by their names, and the way to talk to them.

    ``before`` has commands in front of the daemons of some nodes, whose limits hold for all that these start.
    """

    folder: Path
    daemons: "dict[str, subprocess.Popen[bytes]]"
    before: Mapping[str, Sequence[str]]

    @property
    def configuration(self) -> Path:
        return self.folder / "slurm.conf"

    def run(self, *words: str) -> str:
        env = {**os.environ, "SLURM_CONF": str(self.configuration)}
        return subprocess.run(words, check=True, capture_output=True, text=True, env=env, timeout=30).stdout

    def start(self, name: str, *words: str) -> None:
        """A daemon in the foreground of a session of its own, with its output in the folder."""
        env = {**os.environ, "SLURM_CONF": str(self.configuration)}
        with (self.folder / f"{name}.out").open("ab") as out:
            self.daemons[name] = subprocess.Popen(
                words, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=env, start_new_session=True
            )

    def start_node(self, name: str) -> None:
        self.start(name, *self.before.get(name, ()), engine("slurmd"), "-D", "-N", name)

    def start_controller(self) -> None:
        self.start("slurmctld", engine("slurmctld"), "-D")

    def stop(self, name: str) -> None:
        """Kill one daemon; jobs on a node live on without theirs."""
        daemon = self.daemons.pop(name)
        daemon.kill()
        daemon.wait()

    def stop_controller(self) -> None:
        """End the controller as a restart does: what it knows of jobs is on the disk afterwards."""
        daemon = self.daemons.pop("slurmctld")
        daemon.terminate()
        daemon.wait(20)


@contextmanager
def running_slurm(folder: Path, before: Mapping[str, Sequence[str]] | None = None) -> Iterator[SlurmCluster]:
    """A cluster that is idle and answers; skips where Slurm is not installed."""
    for program in _PROGRAMS:
        engine(program)
    if os.geteuid() != 0:
        needs.skip("a Slurm of the test's own needs root", needs.ROOT)
    cluster = SlurmCluster(folder, {}, before or {})
    try:
        _configure(folder)
        _start(cluster)
        yield cluster
    finally:
        for name in list(cluster.daemons):
            cluster.stop(name)
        shutil.rmtree(folder, ignore_errors=True)


def _configure(folder: Path) -> None:
    folder.mkdir(parents=True, mode=0o755)
    (folder / "state").mkdir()
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o600)
    names = (*NODES, GPU_NODE)
    ports, host = _free_ports(len(names) + 1), socket.gethostname()
    nodes = "\n".join(
        f"NodeName={name} NodeAddr=127.0.0.1 NodeHostname={host} Port={port} CPUs=4 RealMemory=4000"
        + (f" Gres=gpu:a100:{GPUS}" if name == GPU_NODE else "")
        for name, port in zip(names, ports[1:], strict=True)
    )
    text = _CONFIGURATION.format(
        folder=folder, ports=ports, host=host, nodes=nodes, partition=PARTITION, names=",".join(NODES),
        gpu_partition=GPU_PARTITION, gpu_node=GPU_NODE,
    )  # fmt: skip
    (folder / "slurm.conf").write_text(text)
    for number in range(GPUS):
        (folder / f"gpu{number}").touch()
    (folder / "gres.conf").write_text(f"NodeName={GPU_NODE} Name=gpu Type=a100 File={folder}/gpu[0-{GPUS - 1}]\n")


def _start(cluster: SlurmCluster) -> None:
    at = cluster.folder
    cluster.start(
        "munged", engine("munged"), "--foreground", "--force", f"--key-file={at}/munge.key",
        f"--socket={at}/munge.sock", f"--pid-file={at}/munge.pid", f"--log-file={at}/munge.log",
        f"--seed-file={at}/munge.seed",
    )  # fmt: skip
    _until((at / "munge.sock").exists, cluster, "munged")
    cluster.start_controller()
    for name in (*NODES, GPU_NODE):
        cluster.start_node(name)
    _until(lambda: _idle(cluster) == len(NODES) + 1, cluster, "five idle nodes")


def _idle(cluster: SlurmCluster) -> int:
    try:
        return cluster.run("sinfo", "--noheader", "--Node", "--format=%T").split().count("idle")
    except subprocess.SubprocessError:
        return 0


def _until(probe: Callable[[], bool], cluster: SlurmCluster, what: str, limit_s: float = 30.0) -> None:
    deadline = time.monotonic() + limit_s
    while not probe():
        if time.monotonic() > deadline:
            tails = [f"{log.name}: {log.read_text(errors='replace')[-800:]}" for log in cluster.folder.glob("*.out")]
            pytest.fail(f"waited {limit_s:g} s for {what}\n" + "\n".join(tails))
        time.sleep(0.05)


def _free_ports(count: int) -> Sequence[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
