"""Plans for the models of Aceso's evaluation: our search beside Aceso's, in one run, by Aceso's own cost model.

`python -m bench.plan` searches every setting of the published table and prints predicted seconds per iteration, how
soon the first plan was there and how far the best may be from the optimum. `--aceso 60` gives our version of Aceso's
search 60 seconds beside it (0 leaves it out); `--budget 20` is ours; `--curve` prints predicted time against search
time, `--picture FILE.svg` draws it; `--other` takes settings that are in no table: other memory limits, device counts,
sizes and 1,000 layers; `--random 12` draws settings by chance and lists the worst gaps to the bound first. Names pick
settings: `python -m bench.plan gpt-1_3B`. `--bound 120` spends so much more time on the bound, which for long chains
takes longer than the search. Times are CPU seconds of one core, by which the budget is counted too, so
that a busy machine does not matter; wall seconds stand beside them.
"""

import argparse
import csv
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.aceso import search as aceso
from bench.aceso.profiles import ProfileDatabase
from bench.plan_picture import Curve, write_picture
from penstock.parallel.devices import MB, Mesh
from penstock.parallel.search import anytime
from penstock.parallel.search.bound import micro_batch_bound_s, relaxed_bound_s
from penstock.parallel.search.problem import Problem
from penstock.parallel.search.record import SearchRecord

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
                nodes=int(row["nodes"]),
                per_node=int(row["gpus_per_node"]),
                memory_bytes=float(row["memory_limit_MB"]) * MB,
            )
            yield Setting(
                row["profile_db"], row["model"], row["size"], mesh, int(row["global_batch"]), None,
                float(row["uniform_grid_pred_s"]), min(known, default=None), row["set"],
            )  # fmt: skip


def other() -> Iterator[Setting]:
    """Settings nobody published: nothing here is tuned to the table."""
    for memory in (9_000.0, 10_000.0, 16_000.0, 20_000.0):
        yield Setting(
            "miniset", "gpt", "1_3B", Mesh(per_node=4, memory_bytes=memory * MB), 512, group=f"{memory:.0f} MB"
        )
    yield Setting("miniset", "resnet", "500M", Mesh(per_node=4, memory_bytes=8_000.0 * MB), 768, group="8000 MB")
    yield Setting(
        "eurosys", "gpt", "2_6B", Mesh(nodes=2, per_node=8, memory_bytes=16_000.0 * MB), 512, group="2x8 16000 MB"
    )
    yield Setting(
        "eurosys", "gpt", "6_7B", Mesh(nodes=4, per_node=8, memory_bytes=20_000.0 * MB), 512, group="4x8 20000 MB"
    )
    yield Setting("eurosys", "t5", "770M", Mesh(per_node=8, memory_bytes=20_000.0 * MB), 512, group="1x8 20000 MB")
    yield Setting(
        "eurosys", "resnet", "4B", Mesh(nodes=2, per_node=8, memory_bytes=20_000.0 * MB), 768, group="2x8 20000 MB"
    )
    for layers in (64, 1000):
        yield Setting(
            "eurosys", "gpt", "scale-layer", Mesh(per_node=8, memory_bytes=28_000.0 * MB), 1024, layers, group="1x8"
        )


SIZES = (
    ("eurosys", "gpt", "1_3B"), ("eurosys", "gpt", "2_6B"), ("eurosys", "gpt", "6_7B"), ("eurosys", "t5", "770M"),
    ("eurosys", "t5", "3B"), ("eurosys", "resnet", "2B"), ("eurosys", "resnet", "4B"), ("miniset", "gpt", "1_3B"),
    ("miniset", "resnet", "1B"),
)  # fmt: skip


def drawn(count: int, seed: int = 1) -> Iterator[Setting]:
    """Settings by chance: model, machines, memory, batch and, where layers repeat, their number."""
    chance = random.Random(seed)
    for number in range(count):
        db, model, size = chance.choice(SIZES)
        nodes, per_node = (1, 4) if db == "miniset" else chance.choice([(1, 4), (1, 8), (2, 8), (4, 4)])
        memory = float(chance.randrange(10_000, 30_000, 1000))
        layers = chance.randrange(8, 60) if model == "gpt" else None
        batch = chance.choice((256, 384, 512, 768, 1536))
        mesh = Mesh(nodes=nodes, per_node=per_node, memory_bytes=memory * MB)
        name = f"#{number} {nodes}x{per_node} {memory:.0f} MB B {batch}"
        yield Setting(db, model, size, mesh, batch, layers, group=name)


def _settings(arguments: argparse.Namespace) -> list[Setting]:
    unpublished = drawn(arguments.random) if arguments.random else other()
    found = unpublished if arguments.random or arguments.other else published()
    return [one for one in found if _picked(one, arguments.names)]


def main() -> None:
    arguments = _arguments()
    if not DATA.is_dir():
        print(f"skipped: the profile database of Aceso is not at {DATA.parent.name}/{DATA.name} beside the repository")
        sys.exit(0)
    database = ProfileDatabase(DATA)
    warm_up(database)
    curves: list[Curve] = []
    rows: list[tuple[float, list[str]]] = []
    for setting in _settings(arguments):
        problem = setting.problem(database)
        started = time.perf_counter()
        ours = anytime.search(problem, arguments.budget, clock=time.process_time)
        wall_s = time.perf_counter() - started
        _tighten(ours, arguments.bound)
        theirs = aceso.search(problem, arguments.aceso, clock=time.process_time) if arguments.aceso else None
        rows.append((ours.gap, _row(setting, ours, theirs, wall_s)))
        curves += [_curve(setting, name, run) for name, run in (("penstock", ours), ("aceso", theirs)) if run]
        print(f"{setting.name}: {_best(ours)} s, bound {ours.bound_s:.2f} s", file=sys.stderr)
    _print(rows, worst_first=bool(arguments.random))
    if arguments.curve:
        for curve in curves:
            print(f"{curve.setting} {curve.search:8} {' '.join(f'{at:.2f}:{took:.2f}' for at, took in curve.points)}")
    if arguments.picture:
        write_picture(arguments.picture, curves)


def _print(rows: list[tuple[float, list[str]]], worst_first: bool) -> None:
    table = Table(
        "setting", "grid", "artifact", "aceso (ours)", "its CPU s", "penstock", "better by", "first plan s", "CPU s",
        "wall s", "bound", "gap",
    )  # fmt: skip
    for _, row in sorted(rows, key=lambda one: -one[0]) if worst_first else rows:
        table.add_row(*row)
    Console(width=190).print(table)


def _curve(setting: Setting, search: str, run: SearchRecord) -> Curve:
    points = [(found.at_s, found.iteration_s) for found in run.curve]
    return Curve(setting.name, search, (*points, (run.elapsed_s, points[-1][1])) if points else ())


def _tighten(ours: SearchRecord, seconds: float) -> None:
    """Go on with the bound alone."""
    if not seconds or ours.best is None:
        return
    end, best_s = time.process_time() + seconds, ours.best.iteration_s

    def late() -> bool:
        return time.process_time() > end

    bounds = {size: relaxed_bound_s(ours.problem, size, best_s, late) for size in ours.problem.micro_batches}
    for size in sorted(bounds, key=bounds.__getitem__):
        bounds[size] = max(bounds[size], micro_batch_bound_s(ours.problem, size, best_s, late))
    ours.bound_s = max(ours.bound_s, min(bounds.values()))


def warm_up(database: ProfileDatabase) -> None:
    """Compile all loops once, so that no setting pays for it."""
    for model, size in (("gpt", "1_3B"), ("t5", "770M")):
        tables = database.tables("miniset", model, size, 2)
        anytime.search(Problem(tables, Mesh(per_node=4, memory_bytes=3_000.0 * MB), 16), 30.0)


def _row(setting: Setting, ours: SearchRecord, theirs: SearchRecord | None, wall_s: float) -> list[str]:
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
        f"{wall_s:.1f}",
        f"{ours.bound_s:.2f}",
        f"{ours.gap:.2%}",
    ]


def _best(progress: SearchRecord) -> str:
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
    parser.add_argument("--curve", action="store_true", help="print predicted time against search time")
    parser.add_argument("--picture", type=Path, help="draw predicted time against search time into this SVG file")
    parser.add_argument("--bound", type=float, default=0.0, help="further seconds for the bound alone")
    parser.add_argument("--random", type=int, default=0, help="so many settings by chance")
    parser.add_argument("--other", action="store_true", help="settings in no published table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
