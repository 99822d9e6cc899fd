"""The profiles of Sia and Pollux (SOSP 2023, OSDI 2021): measured step times by kind, placement and local batch size.

One folder per application: ``placements-KIND.csv`` and ``scalability-KIND.csv`` say how long a step takes and how much
of that is spent on exchanging gradients, ``validation-BATCH.csv`` after how many iterations training at that global
batch size is over. A global batch that does not fit is accumulated over several passes, of which the last exchanges
gradients. A placement counts by its devices and nodes; of several the fastest is taken.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from penstock.core import Curve, Scaling, TraceError
from penstock.simulate.traces.files import Row, Table, read_lines

CLUSTERS = {
    "dgx-ext": ("A100", 8),
    "azure": ("V100", 8),
    "quad": ("RTX6000", 4),
    "rtx": ("RTX2080Ti", 8),
    "aws": ("T4", 4),
}
"""Our name of the kind and the devices of a node, by the name in the file; ``dgx`` is a smaller ``dgx-ext``."""
_PIPELINED = ("gpt_pmp",)
"""Applications whose rows are pipelines, which take several devices for one replica."""


@dataclass(slots=True)
class _Steps:
    """Step and exchange times of one placement by local batch size."""

    times: dict[int, tuple[float, float]] = field(default_factory=dict)

    def add(self, local: int, step_s: float, sync_s: float) -> None:
        if local not in self.times or step_s < self.times[local][0]:
            self.times[local] = (step_s, sync_s)

    def rate(self, local: float) -> float:
        """Iterations per second at ``local`` samples per replica, in as few passes as fit."""
        sizes = sorted(self.times)
        passes = max(1, int(np.ceil(local / sizes[-1])))
        step_s = float(np.interp(local / passes, sizes, [self.times[size][0] for size in sizes]))
        sync_s = float(np.interp(local / passes, sizes, [self.times[size][1] for size in sizes]))
        return 1.0 / (step_s + (passes - 1) * max(step_s - sync_s, 0.0))


Placements = Mapping[tuple[int, int], _Steps]
"""By devices and nodes."""


def is_like(directory: Path) -> bool:
    return any(directory.glob("*/placements-*.csv"))


def read(directory: Path) -> tuple[dict[tuple[str, int], Curve], dict[tuple[str, int], float]]:
    """Curves, and iterations of a whole training, by application and global batch size."""
    curves: dict[tuple[str, int], Curve] = {}
    work: dict[tuple[str, int], float] = {}
    for folder in sorted(path for path in directory.iterdir() if path.is_dir() and path.name not in _PIPELINED):
        kinds = {kind: _placements(folder, name) for name, (kind, _) in CLUSTERS.items()}
        for file in sorted(folder.glob("validation-*.csv")):
            batch = _batch(file)
            scalings = [(kind, scaling) for kind, found in kinds.items() if (scaling := _scaling(found, kind, batch))]
            if scalings:
                curves[folder.name, batch] = Curve(tuple(scalings))
                work[folder.name, batch] = _iterations(file)
    if not curves:
        raise TraceError(f"no profiles in {directory}", "a folder per application with placements and validations")
    return curves, work


def _placements(folder: Path, cluster: str) -> Placements:
    found: dict[tuple[int, int], _Steps] = defaultdict(_Steps)
    for row, key in (*_placed(folder, cluster), *_scaled(folder, cluster)):
        columns = (row.table.column(name) for name in ("local_bsz", "step_time", "sync_time"))
        local, step, sync = columns
        found[key].add(row.count(local), row.positive(step), max(row.number(sync), 0.0))
    return found


def _placed(folder: Path, cluster: str) -> Iterator[tuple[Row, tuple[int, int]]]:
    for row in _rows(folder / f"placements-{cluster}.csv"):
        column = row.table.column("placement")
        text = row.text(column)
        if not text.isdecimal() or "0" in text:
            row.refuse(column, "a digit per node, its devices")
        yield row, (sum(map(int, text)), len(text))


def _scaled(folder: Path, cluster: str) -> Iterator[tuple[Row, tuple[int, int]]]:
    for row in _rows(folder / f"scalability-{cluster}.csv"):
        yield row, (row.count(row.table.column("num_replicas")), row.count(row.table.column("num_nodes")))


def _rows(file: Path) -> Iterator[Row]:
    return Table.from_csv(str(file), read_lines(file)).rows() if file.exists() else iter(())


def _scaling(placements: Placements, kind: str, batch: int) -> Scaling | None:
    node = next(devices for name, devices in CLUSTERS.values() if name == kind)
    rates = {key: steps.rate(batch / key[0]) for key, steps in sorted(placements.items()) if key[0] <= batch}
    compact = {count: rate for (count, nodes), rate in rates.items() if nodes == -(-count // node)}
    spread = tuple(
        (count, nodes, rate) for (count, nodes), rate in rates.items() if count in compact and nodes > -(-count // node)
    )
    if not compact:
        return None
    return Scaling(counts=tuple(compact), rates=tuple(compact.values()), spread=spread)


def _batch(file: Path) -> int:
    text = file.stem.removeprefix("validation-")
    if not text.isdecimal():
        raise TraceError(f"{file} names no batch size", "validation-BATCH.csv")
    return int(text)


def _iterations(file: Path) -> float:
    last = 0.0
    for row in _rows(file):
        last = row.positive(row.table.column("iteration"))
    if not last:
        raise TraceError(f"{file} holds no iteration", "a row per epoch after the header")
    return last
