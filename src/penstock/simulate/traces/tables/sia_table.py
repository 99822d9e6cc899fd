"""The profiles of Sia and Pollux (SOSP 2023, OSDI 2021): measured step times by kind, placement and local batch size.

One folder per application: ``placements-KIND.csv`` and ``scalability-KIND.csv`` say how long a step takes and how much
of that is spent on exchanging gradients, ``validation-BATCH.csv`` after how many iterations training at that global
batch size is over. A global batch that does not fit is accumulated over several passes, of which the last exchanges
gradients. A placement counts by its devices and nodes; of several the fastest is taken.

With *adaptive* batches a job has one curve of goodput: on every placement the global batch with the most progress per
second, between the smallest and the largest that was validated. The files say how much progress training made at every
batch; the gradient noise scale that is fitted to it is one number for the whole training, although it grows.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from penstock.core import Curve, Scaling, StatisticalEfficiency, TraceError
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
_NOISE_SCALES = np.geomspace(1.0, 1e9, 4097)
"""Among these, in samples, one is fitted."""


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


Tables = tuple[dict[tuple[str, int], Curve], dict[tuple[str, int], float]]
Choice = tuple[int, float]
"""A global batch, 0 where it is given, and how fast it goes."""
Placements = Mapping[tuple[int, int], _Steps]
"""By devices and nodes."""


def is_like(directory: Path) -> bool:
    return any(directory.glob("*/placements-*.csv"))


def read(directory: Path) -> Tables:
    """Curves, and iterations of a whole training, by application and global batch size."""
    curves: dict[tuple[str, int], Curve] = {}
    work: dict[tuple[str, int], float] = {}
    for folder, kinds in _applications(directory):
        for file in sorted(folder.glob("validation-*.csv")):
            batch = _batch(file)
            if curve := _curve(kinds, partial(_fixed, batch)):
                curves[folder.name, batch] = curve
                work[folder.name, batch] = _total(file, "iteration")
    return _some(curves, directory), work


def read_adaptive(directory: Path) -> tuple[*Tables, dict[str, StatisticalEfficiency]]:
    """The same where global batches follow the devices; then every batch of an application has the same curve and work,
    in iterations of the smallest. Third, what batches are worth by application."""
    curves: dict[tuple[str, int], Curve] = {}
    work: dict[tuple[str, int], float] = {}
    statistics: dict[str, StatisticalEfficiency] = {}
    for folder, kinds in _applications(directory):
        progress = {
            _batch(file): (_total(file, "progress"), _total(file, "iteration"))
            for file in folder.glob("validation-*.csv")
        }
        if not progress:
            continue
        fitted = _fitted(progress)
        if curve := _curve(kinds, partial(_best, fitted)):
            statistics[folder.name] = fitted
            curves |= {(folder.name, batch): curve for batch in sorted(progress)}
            work |= {(folder.name, batch): progress[fitted.initial_batch][0] for batch in sorted(progress)}
    return _some(curves, directory), work, statistics


def _applications(directory: Path) -> Iterator[tuple[Path, dict[str, Placements]]]:
    for folder in sorted(path for path in directory.iterdir() if path.is_dir() and path.name not in _PIPELINED):
        yield folder, {kind: _placements(folder, name) for name, (kind, _) in CLUSTERS.items()}


def _some(curves: dict[tuple[str, int], Curve], directory: Path) -> dict[tuple[str, int], Curve]:
    if not curves:
        raise TraceError(f"no profiles in {directory}", "a folder per application with placements and validations")
    return curves


def _fitted(progress: Mapping[int, tuple[float, float]]) -> StatisticalEfficiency:
    """The noise scale with the least squares of the logarithms of efficiency, from progress and iterations by batch."""
    batches, least = np.array(sorted(progress)), min(progress)
    done, iterations = np.array([progress[batch] for batch in batches.tolist()]).T
    measured = np.log(done / iterations * least / batches)
    expected = np.log((_NOISE_SCALES[:, None] + least) / (_NOISE_SCALES[:, None] + batches))
    noise = float(_NOISE_SCALES[((expected - measured) ** 2).sum(axis=1).argmin()])
    return StatisticalEfficiency(noise_scale=noise, initial_batch=least, most_batch=int(batches[-1]))


def _fixed(batch: int, devices: int, steps: _Steps) -> Choice:
    return 0, steps.rate(batch / devices) if devices <= batch else 0.0


def _best(statistics: StatisticalEfficiency, devices: int, steps: _Steps) -> Choice:
    return statistics.best(lambda batch: steps.rate(batch / devices), at_least=devices)


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


def _curve(kinds: Mapping[str, Placements], choose: Callable[[int, _Steps], Choice]) -> Curve | None:
    scalings = [(kind, scaling) for kind, found in kinds.items() if (scaling := _scaling(found, kind, choose))]
    return Curve(tuple(scalings)) if scalings else None


def _scaling(placements: Placements, kind: str, choose: Callable[[int, _Steps], Choice]) -> Scaling | None:
    node = next(devices for name, devices in CLUSTERS.values() if name == kind)
    chosen = {key: choose(key[0], steps) for key, steps in sorted(placements.items())}
    chosen = {key: choice for key, choice in chosen.items() if choice[1] > 0}
    compact = {count: choice for (count, nodes), choice in chosen.items() if nodes == -(-count // node)}
    spread = tuple(
        (count, nodes, rate)
        for (count, nodes), (_, rate) in chosen.items()
        if count in compact and nodes > -(-count // node)
    )
    if not compact:
        return None
    batches = tuple(batch for batch, _ in compact.values())
    return Scaling(
        counts=tuple(compact), rates=tuple(rate for _, rate in compact.values()), spread=spread,
        batches=batches if all(batches) else (),
    )  # fmt: skip


def _batch(file: Path) -> int:
    text = file.stem.removeprefix("validation-")
    if not text.isdecimal():
        raise TraceError(f"{file} names no batch size", "validation-BATCH.csv")
    return int(text)


def _total(file: Path, name: str) -> float:
    last = 0.0
    for row in _rows(file):
        last = row.positive(row.table.column(name))
    if not last:
        raise TraceError(f"{file} holds no {name}", "a row per epoch after the header")
    return last
