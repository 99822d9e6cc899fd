"""From a machine without any of them to the first result of the same job: Penstock, Slurm and Ray Train.

``python -m bench.arrival [penstock] [slurm] [ray] [--with-torch]`` (``make bench-arrival``). Each route is what its own
guide tells a newcomer to type, in an empty folder with an empty virtual environment: every command is counted and
timed, and so is every line of configuration and code that has to be written before the job can run. The job is one
script of data-parallel PyTorch on two workers; it has to say how its training ended.

PyTorch is the same for all three, so the environments see the one of this checkout; with ``--with-torch`` each route
installs it itself. A route whose engine is not there, or cannot be installed, is left out with the reason. Wall seconds
mean something on a quiet machine only; processor seconds are those of the commands, without daemons.
"""

import argparse
import os
import resource
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from tests.packaging.building import build_wheel
from tests.tools.slurm import NODES, running_slurm

STEPS = 200
WORKERS = 2
PATIENCE_S = 900.0
_DONE = "trained"
_OF_TORCH = (
    "torch", "torchgen", "functorch", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "fsspec", "filelock",
    "typing_extensions.py",
)  # fmt: skip
_TRAINING = f"""
net = torch.nn.Linear(16, 1)
model = {{wrap}}(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(1, {STEPS} + 1):
    x = torch.randn(64, 16)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SCRIPT = f"""import torch
import torch.distributed as dist
dist.init_process_group("gloo")
{_TRAINING.format(wrap="torch.nn.parallel.DistributedDataParallel").strip()}
    if dist.get_rank() == 0:
        print(f"penstock: step={{step}} total={STEPS} loss={{loss.item():.4f}}", flush=True)
if dist.get_rank() == 0:
    print("{_DONE}", flush=True)
dist.destroy_process_group()
"""
_INDENTED = _TRAINING.format(wrap="ray.train.torch.prepare_model").strip().replace("\n", "\n    ")
RAY_SCRIPT = f"""import ray.train.torch
import torch
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer

def train(config):
    {_INDENTED}
    if ray.train.get_context().get_world_rank() == 0:
        print("{_DONE}", flush=True)

TorchTrainer(train, scaling_config=ScalingConfig(num_workers={WORKERS})).fit()
"""
BATCH_SCRIPT = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --output=out.txt
export MASTER_ADDR=127.0.0.1 MASTER_PORT=29517
srun sh -c "RANK=\\$SLURM_PROCID WORLD_SIZE=\\$SLURM_NTASKS LOCAL_RANK=0 {python} train.py"
"""


class LeftOutError(RuntimeError):
    """A route that cannot be walked on this machine."""


@dataclass(slots=True)
class Arrival:
    """One newcomer on one route: what was typed, what was written, and what it took."""

    name: str
    home: Path
    with_torch: bool
    variables: dict[str, str] = field(default_factory=dict)
    commands: list[tuple[str, float]] = field(default_factory=list)
    lines: int = 0
    cpu_s: float = 0.0

    @property
    def python(self) -> str:
        return str(self.home / "env" / "bin" / "python")

    def types(self, *words: str, shown: str = "", limit_s: float = PATIENCE_S) -> str:
        """Run a command; returns what it said on both streams."""
        before, begun = _children_s(), time.perf_counter()
        env = {**os.environ, "PATH": f"{self.home}/env/bin:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            words, cwd=self.home, env={**env, **self.variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", timeout=limit_s, check=False,
        )  # fmt: skip
        self.counts(shown or " ".join(Path(word).name if "/" in word else word for word in words), begun)
        self.cpu_s += _children_s() - before
        if done.returncode != 0:
            raise LeftOutError(f"{' '.join(words)} ended with {done.returncode}: {done.stdout.strip()[-300:]}")
        return done.stdout

    def counts(self, shown: str, begun: float) -> None:
        self.commands.append((shown, time.perf_counter() - begun))

    def writes(self, name: str, text: str) -> None:
        """A file that has to be there; its lines are counted unless it is the training script everybody brings."""
        (self.home / name).write_text(text)
        self.lines += 0 if name == "train.py" else len(text.splitlines())

    def environment(self, *packages: str) -> None:
        self.types(sys.executable, "-m", "venv", "env", shown="python -m venv env")
        if not self.with_torch:
            self._see_torch()
        torch = ("torch",) if self.with_torch else ()
        if packages or torch:
            words = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages, *torch)
            self.types(self.python, *words, shown=f"pip install {' '.join(map(_short, (*packages, *torch)))}")

    def _see_torch(self) -> None:
        """PyTorch of this checkout at the end of the path, out of reach of pip, and nothing else that is there."""
        shared, ours = self.home / "shared", Path(sysconfig.get_paths()["purelib"])
        shared.mkdir()
        for name in _OF_TORCH:
            for found in ours.glob(name):
                (shared / found.name).symlink_to(found)
        (site,) = (self.home / "env").glob("lib/python*/site-packages")
        (site / "torch-of-the-checkout.pth").write_text(f"{shared}\n")


def penstock(person: Arrival) -> None:
    wheel = build_wheel(person.home)
    person.variables["PENSTOCK_DATA_DIR"] = str(person.home / "data")
    person.environment(str(wheel))
    person.writes("train.py", SCRIPT)
    run = ("run", "--work", f"{STEPS} steps", "--devices", str(WORKERS), "--", "train.py")
    try:
        _expect(person.types(str(person.home / "env/bin/penstock"), *run, shown=f"penstock {' '.join(run)}"))
    finally:
        subprocess.run(
            [str(person.home / "env/bin/penstock"), "stop"], env={**os.environ, **person.variables}, check=False,
            capture_output=True,
        )  # fmt: skip


def slurm(person: Arrival) -> None:
    person.environment()
    begun = time.perf_counter()
    person.counts("apt install slurmctld slurmd slurm-client munge", begun)
    try:
        with running_slurm(person.home / "slurm") as cluster:
            for daemon in ("create-munge-key", "munged", "slurmctld", *(f"slurmd -N {node}" for node in NODES)):
                person.counts(daemon, begun)
                begun = time.perf_counter()
            person.lines += len(cluster.configuration.read_text().split("\n"))
            person.variables["SLURM_CONF"] = str(cluster.configuration)
            person.writes("train.py", SCRIPT)
            person.writes("job.sh", BATCH_SCRIPT.format(python=person.python))
            person.types("sbatch", "--wait", "job.sh")
            _expect(person.types("cat", "out.txt"))
    except pytest.skip.Exception as reason:
        raise LeftOutError(str(reason)) from None


def ray(person: Arrival) -> None:
    person.environment("ray[train]")
    person.writes("train_ray.py", RAY_SCRIPT)
    _expect(person.types(person.python, "train_ray.py"))


ROUTES: dict[str, Callable[[Arrival], None]] = {"penstock": penstock, "slurm": slurm, "ray": ray}
_NOTES = {
    "slurm": "installing Slurm by apt is counted and not timed; its daemons are timed together, with the first of them",
    "ray": "lines are the whole script, which has to be written for Ray Train; the others run any torchrun script",
}


def walk(name: str, with_torch: bool) -> Arrival | str:
    """The route to its end, or why it was left out."""
    with tempfile.TemporaryDirectory(prefix=f"arrival-{name}-") as folder:
        person = Arrival(name, Path(folder), with_torch)
        try:
            ROUTES[name](person)
        except (LeftOutError, subprocess.TimeoutExpired) as reason:
            return str(reason)
        return person


def _expect(said: str) -> None:
    if _DONE not in said:
        raise LeftOutError(f"the job did not train: {said.strip()[-300:]}")


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _short(package: str) -> str:
    return "penstock" if package.endswith(".whl") else package


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.arrival", description=__doc__)
    parser.add_argument("routes", nargs="*", metavar="ROUTE", help=f"of {', '.join(ROUTES)}; all by default")
    parser.add_argument("--with-torch", action="store_true", help="let each route install PyTorch itself")
    options = parser.parse_args(words)
    if unknown := sorted(set(options.routes) - ROUTES.keys()):
        parser.error(f"unknown route {unknown[0]!r}; allowed: {', '.join(ROUTES)}")
    console = Console()
    table = Table("route", "commands", "lines written", "minutes", "processor s", box=None)
    for name in options.routes or ROUTES:
        found = walk(name, options.with_torch)
        if isinstance(found, str):
            console.print(f"{name} is left out: {found}", soft_wrap=True, markup=False)
            continue
        for shown, wall_s in found.commands:
            console.print(f"{name}: {wall_s:7.1f} s  {shown}", soft_wrap=True, markup=False, highlight=False)
        minutes = sum(wall_s for _, wall_s in found.commands) / 60
        table.add_row(name, str(len(found.commands)), str(found.lines), f"{minutes:.1f}", f"{found.cpu_s:.1f}")
    console.print(table)
    console.print(
        f"load of the machine: {os.getloadavg()[0]:.1f}; PyTorch {'' if options.with_torch else 'not '}included"
    )
    for name in options.routes or ROUTES:
        if note := _NOTES.get(name):
            console.print(f"{name}: {note}", soft_wrap=True)


if __name__ == "__main__":
    main()
