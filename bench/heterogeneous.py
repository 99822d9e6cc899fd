"""Gavel, Sia and Pollux beside ours, in one world, on the workloads that Gavel and Sia were published with.

Gavel's traces have jobs of a fixed size; changes of devices are free there, as in its simulator. Sia's jobs are
elastic, and a change costs 30 s, what Pollux assumes; once with the batch that the trace names, once with batches that
follow the devices (``penstock simulate … --adaptive-batches``). Published figures stand beside ours. Those of Gavel are
a run of its artifact on the same jobs, throughputs and cluster: comparable but for how rounds begin. Those of Sia are
means over several workloads of its own simulator, with restarts, speeds that have to be learned, a noise scale that
grows and GPT jobs in pipelines: only the order of the policies is comparable.

``python -m bench.heterogeneous [PART …]``: rows of worlds and policies whose "world policy" contains any PART.
``python -m bench.heterogeneous noise``: how long trainings take with one noise scale for the whole of them, against the
best of the validated batches in every fiftieth.
"""

import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.data import DATA
from penstock.core import Cluster, Overhead
from penstock.policies import Floats, policy_named
from penstock.scheduler import ExpectedCosts
from penstock.simulate import Profiles, Summary, Workload, read_trace, simulate
from penstock.simulate.traces.tables import sia_table

GAVEL, SIA = DATA.parent / "gavel", DATA.parent / "sia"
SLOT_S = 60.0
CHANGE_S = 30.0
OURS = ("deadline", "unified", "fair")
RIGID = tuple(f"gavel:objective={each}" for each in ("max-min", "finish-time", "makespan", "cost"))
ELASTIC = ("gavel:objective=max-min", "gavel:objective=finish-time", "sia", "pollux")
ARTIFACT, PAPER = "Gavel's artifact", "Sia, SOSP'23"


@dataclass(frozen=True)
class Published:
    """Hours; what the figure is of."""

    jct: float
    makespan: float
    source: str


@dataclass(frozen=True)
class World:
    """Jobs, what they run on, and what was published about them by policy."""

    name: str
    trace: Path
    profiles: Path
    cluster: str
    policies: tuple[str, ...]
    published: dict[str, Published]
    change_s: float = 0.0
    adaptive: bool = False

    def run(self, policy: str) -> Summary:
        profiles = Profiles.load(self.profiles, adaptive=self.adaptive)
        jobs = Workload(trace=read_trace(self.trace), profiles=profiles).jobs()
        costs = ExpectedCosts(Overhead(change_s=self.change_s, worst_s=self.change_s))
        return simulate(jobs, Cluster.parse(self.cluster), policy_named(policy), slot=SLOT_S, costs=costs).summary


def gavel_world(name: str, trace: str, *figures: tuple[float, float]) -> World:
    """``figures`` are mean completion time and makespan of max-min, finish-time and makespan."""
    published = {policy: Published(*each, ARTIFACT) for policy, each in zip(RIGID, figures, strict=False)}
    path, tables = GAVEL / "traces" / trace, GAVEL / "simulation_throughputs.json.gz"
    return World(name, path, tables, "2x4xV100+4x4xP100+6x4xK80", (*RIGID, *OURS), published)


def sia_worlds(name: str, folder: str, *figures: tuple[float, float]) -> Iterator[World]:
    """``figures`` are mean completion time and makespan of Sia, Pollux, and Gavel with jobs tuned by hand."""
    names = ("sia", "pollux", "gavel:objective=max-min")
    published = {policy: Published(*each, PAPER) for policy, each in zip(names, figures, strict=True)}
    for adaptive in (False, True):
        yield World(
            f"{name}, {'adaptive' if adaptive else 'fixed'} batches", SIA / "workloads" / folder / "workload-1.csv",
            SIA / "profiles", "6x4xT4+3x8xRTX2080Ti+2x8xA100-40GB", (*ELASTIC, *OURS),
            published if adaptive else {}, CHANGE_S, adaptive,
        )  # fmt: skip


WORLDS = (
    gavel_world("Gavel, 96 jobs", "max_min_fairness.trace", (4.062, 17.762), (4.169, 18.048), (6.381, 17.087)),
    gavel_world("Gavel, makespan", "minimize_makespan.trace", (9.905, 19.034), (10.093, 19.556), (17.715, 17.978)),
    *sia_worlds("Philly", "philly", (0.6, 14.2), (1.0, 24.5), (1.9, 33.8)),
    *sia_worlds("Helios", "saturn", (0.7, 14.9), (1.0, 25.5), (2.5, 43.0)),
    *sia_worlds("newTrace", "newtrace", (0.7, 52.2), (1.5, 62.3), (11.3, 110.0)),
)


def main() -> None:
    if not (GAVEL.is_dir() and SIA.is_dir()):
        print("skipped: the traces of Gavel and Sia are not at shared/data beside the repository")
        return
    if sys.argv[1:] == ["noise"]:
        Console(width=160).print(noise_scales())
        return
    table = Table(
        "world", "policy", "JCT h", "makespan h", "stops", "resizes", "CPU s", "published: JCT, makespan", "of"
    )
    for world in WORLDS:
        for policy in world.policies:
            if wanted(f"{world.name} {policy}"):
                table.add_row(*row(world, policy))
    Console(width=160).print(table)


def wanted(name: str) -> bool:
    return len(sys.argv) < 2 or any(part in name for part in sys.argv[1:])


def row(world: World, policy: str) -> list[str]:
    print(f"{world.name}: {policy}", file=sys.stderr, flush=True)
    found, published = world.run(policy), world.published.get(policy)
    return [
        world.name, policy, f"{found.jct_mean_s / 3600:.2f}", f"{found.makespan_s / 3600:.2f}", str(found.suspensions),
        str(found.rescales), f"{found.cpu_s:.1f}",
        f"{published.jct:.2f}, {published.makespan:.1f}" if published else "", published.source if published else "",
    ]  # fmt: skip


def noise_scales() -> Table:
    """Per application, over placements of 1, 2, 4, 8 and 16 T4 and A100: mean and worst."""
    table = Table("application", "noise scale", "placements", "longer by, mean", "worst")
    adaptive = Profiles.load(SIA / "profiles", adaptive=True)
    for model, statistics in adaptive.statistics.items():
        curves = [iterations_by_progress(file) for file in (SIA / "profiles" / model).glob("validation-*.csv")]
        longer = []
        for cluster in ("aws", "dgx-ext"):
            for (devices, _), steps in sia_table._placements(SIA / "profiles" / model, cluster).items():
                if devices in (1, 2, 4, 8, 16):
                    rates = {batch: steps.rate(batch / devices) for batch in statistics.batches(devices)}
                    spent = [each / steps.rate(batch / devices) for batch, each in curves if batch >= devices]
                    whole = adaptive.work[model, statistics.initial_batch]
                    longer.append(whole / statistics.best(rates.__getitem__, devices)[1] / np.min(spent, 0).sum() - 1)
        table.add_row(
            model, f"{statistics.noise_scale:.0f}", str(len(longer)), f"{np.mean(longer):+.1%}", f"{max(longer):+.1%}"
        )
    return table


def iterations_by_progress(file: Path) -> tuple[int, Floats]:
    """The batch of a validation, and the iterations of every fiftieth of its progress."""
    with file.open() as lines:
        rows = [(float(row["progress"]), float(row["iteration"])) for row in csv.DictReader(lines)]
    progress, iterations = np.array([(0.0, 0.0), *rows]).T
    return int(file.stem.partition("-")[2]), np.diff(np.interp(np.linspace(0, progress[-1], 51), progress, iterations))


if __name__ == "__main__":
    main()
