"""Plans for the models of Aceso's evaluation: our search beside Aceso's, in one run, by Aceso's own cost model.

`python -m bench.plan` searches every setting of the published table and prints predicted seconds per iteration, how
soon the first plan was there and how far the best may be from the optimum. `--aceso 60` gives our version of Aceso's
search 60 seconds beside it (0 leaves it out); `--budget 20` is ours; `--curves` prints time against search time;
`--other` takes settings that are in no table: other memory limits, device counts, sizes and 1,000 layers. Names pick
settings: `python -m bench.plan gpt-1_3B`. Times are CPU seconds of one core: a busy machine does not matter.
"""

import argparse
import csv
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from penstock.parallel.mesh import Mesh
from penstock.parallel.profiles import ProfileDatabase
from penstock.parallel.search import aceso, anytime
from penstock.parallel.search.problem import Problem
from penstock.parallel.search.progress import Progress

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "aceso"
PUBLISHED_ELSEWHERE = {"gpt-6_7B large": 87.32, "resnet-6_8B large": 45.67}
"""Predictions of the plans Aceso's authors ran that the table of the data set does not repeat."""


@dataclass(frozen=True)
class Setting:
    """A model, a cluster and a batch; what the uniform grid and Aceso's artifact reach there, where known."""

    db: str
    model: str
    size: str
    mesh: Mesh
    batch: int
    layers: int | None = None
    grid_s: float | None = None
    artifact_s: float | None = None
    group: str = ""

    @property
    def name(self) -> str:
        return f"{self.model}-{self.size}" + (f"x{self.layers}" if self.layers else "") + f" {self.group}"

    def problem(self, database: ProfileDatabase) -> Problem:
        return Problem(database.tables(self.db, self.model, self.size, self.layers), self.mesh, self.batch)


def published() -> Iterator[Setting]:
    """The settings of the table beside the profile database; the better of the artifact's two predictions."""
    with (DATA / "reference_plans.csv").open() as file:
        for row in csv.DictReader(file):
            known = [float(row[key]) for key in ("artifact_ref_pred_s", "rerun_pred_s") if row[key]]
            name = f"{row['model']}-{row['size']} {row['set']}"
            known += [PUBLISHED_ELSEWHERE[name]] if name in PUBLISHED_ELSEWHERE else []
            mesh = Mesh(
                nodes=int(row["nodes"]), per_node=int(row["gpus_per_node"]), memory_mb=float(row["memory_limit_MB"])
            )
            yield Setting(
                row["profile_db"], row["model"], row["size"], mesh, int(row["global_batch"]), None,
                float(row["uniform_grid_pred_s"]), min(known, default=None), row["set"],
            )  # fmt: skip


def other() -> Iterator[Setting]:
    """Settings nobody published: nothing here is tuned to the table."""
    for memory in (9_000.0, 10_000.0, 16_000.0, 20_000.0):
        yield Setting("miniset", "gpt", "1_3B", Mesh(per_node=4, memory_mb=memory), 512, group=f"{memory:.0f} MB")
    yield Setting("miniset", "resnet", "500M", Mesh(per_node=4, memory_mb=8_000.0), 768, group="8000 MB")
    yield Setting("eurosys", "gpt", "2_6B", Mesh(nodes=2, per_node=8, memory_mb=16_000.0), 512, group="2x8 16000 MB")
    yield Setting("eurosys", "gpt", "6_7B", Mesh(nodes=4, per_node=8, memory_mb=20_000.0), 512, group="4x8 20000 MB")
    yield Setting("eurosys", "t5", "770M", Mesh(per_node=8, memory_mb=20_000.0), 512, group="1x8 20000 MB")
    yield Setting("eurosys", "resnet", "4B", Mesh(nodes=2, per_node=8, memory_mb=20_000.0), 768, group="2x8 20000 MB")
    for layers in (64, 1000):
        yield Setting("eurosys", "gpt", "scale-layer", Mesh(per_node=8, memory_mb=28_000.0), 1024, layers, group="1x8")


def main() -> None:
    arguments = _arguments()
    if not DATA.is_dir():
        print(f"skipped: the profile database of Aceso is not at {DATA.parent.name}/{DATA.name} beside the repository")
        sys.exit(0)
    database = ProfileDatabase(DATA)
    warm_up(database)
    table = Table(
        "setting", "grid", "artifact", "aceso (ours)", "its CPU s", "penstock", "better by", "first plan s", "CPU s",
        "bound", "gap",
    )  # fmt: skip
    settings = [one for one in (other() if arguments.other else published()) if _picked(one, arguments.names)]
    for setting in settings:
        problem = setting.problem(database)
        ours = anytime.search(problem, arguments.budget, clock=time.process_time)
        theirs = aceso.search(problem, arguments.aceso, clock=time.process_time) if arguments.aceso else None
        table.add_row(*_row(setting, ours, theirs))
        if arguments.curves:
            _print_curves(setting, ours, theirs)
        print(f"{setting.name}: {_best(ours)} s, bound {ours.bound_s:.2f} s", file=sys.stderr)
    Console(width=160).print(table)


def warm_up(database: ProfileDatabase) -> None:
    """Compile all loops once, so that no setting pays for it."""
    tables = database.tables("miniset", "gpt", "1_3B", 2)
    anytime.search(Problem(tables, Mesh(per_node=4, memory_mb=3_000.0), 16), 30.0)


def _row(setting: Setting, ours: Progress, theirs: Progress | None) -> list[str]:
    found = ours.best
    known = [value for value in (setting.artifact_s, theirs and theirs.best and theirs.best.iteration_s) if value]
    better = f"{(min(known) / found.iteration_s - 1):+.2%}" if known and found else "-"
    return [
        setting.name,
        _seconds(setting.grid_s),
        _seconds(setting.artifact_s),
        _best(theirs) if theirs else "-",
        f"{theirs.elapsed_s:.0f}" if theirs else "-",
        _best(ours),
        better,
        f"{ours.curve[0].at_s:.2f}" if ours.curve else "-",
        f"{ours.elapsed_s:.1f}",
        f"{ours.bound_s:.2f}",
        f"{ours.gap:.2%}",
    ]


def _print_curves(setting: Setting, ours: Progress, theirs: Progress | None) -> None:
    for name, progress in (("penstock", ours), ("aceso", theirs)):
        points = [f"{found.at_s:.2f}:{found.iteration_s:.2f}" for found in progress.curve] if progress else []
        print(f"{setting.name} {name:8} {' '.join(points)}")


def _best(progress: Progress) -> str:
    return _seconds(progress.best.iteration_s if progress.best else None)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _picked(setting: Setting, names: list[str]) -> bool:
    return not names or any(name in setting.name for name in names)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="settings whose name contains one of these")
    parser.add_argument("--budget", type=float, default=20.0, help="seconds for our search")
    parser.add_argument("--aceso", type=float, default=60.0, help="seconds for Aceso's search; 0 leaves it out")
    parser.add_argument("--curves", action="store_true", help="print time against search time")
    parser.add_argument("--other", action="store_true", help="settings in no published table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
