"""Times of all stages worth considering for one micro-batch, and the best pipelines made of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from penstock.core import PenstockError
from penstock.parallel.devices import Mesh
from penstock.parallel.operators import Floats
from penstock.parallel.search.cuts import CutStage, cheapest_pipeline, least_total
from penstock.parallel.search.problem import Problem, Split
from penstock.parallel.search.stages.arrays import ChainCosts, Ints, StageLimits, Target
from penstock.parallel.search.stages.columns import Columns, least_of, least_work, mixed_columns, uniform_columns
from penstock.parallel.search.stages.mixed import priced_rows
from penstock.parallel.search.stages.relaxed import by_price, relaxed_rows
from penstock.parallel.search.stages.uniform import uniform_rows

PRICES = np.concatenate([[0.0], np.geomspace(0.03, 300.0, 11)])
"""Microseconds per megabyte at which mixed stages trade time for memory."""
BOUND_PRICES = np.concatenate([[0.0], np.geomspace(0.03, 300.0, 23)])
"""The same for bounds, which are the better the nearer a price is to the right one."""
FREE_US = 1e12
"""A time no stage takes."""
ROUNDING = 1e-6
"""More than what single precision loses of a bound."""
MOST_BYTES = 500_000_000
"""What the times of one table may take up."""
TOLERANCE = 5e-5
"""How near to the least possible slowest stage the search for it goes."""
LOOSE = 1e-3
"""How near a loose bound is looked for."""
RELAXED = (1.001, 1.002, 1.004, 1.008, 1.016)
"""Slower slowest stages that may have a shorter pipeline in all."""


STARTS_AT_ONCE = 24
"""First operators whose stages are computed between two looks at the clock."""


class OutOfTimeError(PenstockError):
    """A table that was not filled in time says nothing."""


def never() -> bool:
    return False


def _laters(most_stages: int) -> NDArray[np.int64]:
    """0, 1, 2, 3, 5, 7, 11, 15 … and the most there can be."""
    steps = [0, 1, 2, 3, 5, 7, 11, 15, 23, 31, 47, 63]
    return np.array([*(step for step in steps if step < most_stages - 1), most_stages - 1])


@dataclass(frozen=True)
class PipelineCuts:
    """Cuts and devices of every stage, with the stage times they were chosen by, for one micro-batch size."""

    micro_batch: int
    stages: tuple[CutStage, ...]
    times_us: tuple[float, ...]

    def iteration_us(self, micro_batches: int) -> float:
        return (micro_batches - 1) * max(self.times_us) + sum(self.times_us)


@dataclass(frozen=True)
class StageTable:
    """Stage times for micro-batches of ``micro_batch`` between the operators in ``cuts``, up to ``bound_us``.

    ``mixing``: also stages whose operators are split differently. ``bounding``: instead of times that can be had,
    times that cannot be beaten, by these ``prices`` of memory or, ``relaxed``, quickly and a little lower. ``parts``:
    times that no stage can beat that holds these operators and any others around them.
    """

    problem: Problem
    micro_batch: int
    cuts: NDArray[np.int64]
    bound_us: float
    most_stages: int
    buckets: int = 256
    mixing: bool = True
    bounding: bool = False
    parts: bool = False
    relaxed: bool = False
    prices: Floats = field(default_factory=lambda: BOUND_PRICES, repr=False)
    enough: Callable[[], bool] = never
    """Asked while the table is filled, which is most of the work; :class:`OutOfTimeError` once it says so."""

    @cached_property
    def _splits(self) -> dict[int, tuple[Split, ...]]:
        splits = {n: self.problem.splits(self.micro_batch, n) for n in self.problem.stage_devices}
        return {n: found for n, found in splits.items() if found}

    @cached_property
    def _columns(self) -> dict[int, Columns]:
        return {n: uniform_columns(self.problem, splits) for n, splits in self._splits.items()}

    @cached_property
    def _fastest(self) -> dict[int, Floats]:
        """Microseconds of every operator on so many devices, at its fastest."""
        return {n: np.minimum(least_work(self.problem, splits), FREE_US) for n, splits in self._splits.items()}

    @property
    def usable(self) -> bool:
        """Whether any number of devices can run such micro-batches."""
        return bool(self._splits)

    @property
    def micro_batches(self) -> int:
        return self.problem.global_batch // self.micro_batch

    @cached_property
    def least_work(self) -> Floats:
        """Device-microseconds of every operator at its most efficient."""
        return np.asarray(np.min([n * work for n, work in self._fastest.items()], axis=0))

    @cached_property
    def _work_before(self) -> Floats:
        return np.concatenate([[0.0], np.cumsum(self.least_work)])[self.cuts]

    @cached_property
    def _filled(self) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
        shape = len(self._columns), self.most_stages, len(self.cuts), self._longest
        times, chosen = np.full(shape, np.inf, np.float32), np.zeros(shape, np.int8)
        for place, (devices, columns) in enumerate(self._columns.items()):
            target = Target(self._cut_index, times[place], chosen[place])
            if self.bounding:
                self._fill_bounds(devices, target)
                continue
            for option in range(len(columns.options)):
                for starts in self._timely(devices):
                    uniform_rows(starts, columns.of_option(option), self._limits, self.buckets, option, target)
            if self.mixing and self.problem.tables.mixes and len(columns.options) > 1:
                mixed = mixed_columns(self.problem, self._splits[devices])
                self._fill_priced(mixed, len(columns.options), target)
            self._copy_repeats(devices, target)
        return times, chosen

    def _starts(self, devices: int) -> tuple[Ints, list[tuple[int, int]]]:
        """Where rows have to be computed, and (start, equal start) pairs for which they can be copied.

        Two stages that begin at the same operator of a repeated layer are alike while they stay among the repeats.
        """
        ops, copies = self.problem.ops, []
        if len(self.cuts) == ops + 1:
            until = np.concatenate([[0.0], np.cumsum(self._fastest[devices])])
            reach = np.searchsorted(until, until[:-1] + self.bound_us, side="right")
            for repeat in self.problem.tables.chain.repeats:
                inner = range(repeat.start + repeat.period, repeat.stop)
                equal = ((op, repeat.start + (op - repeat.start) % repeat.period) for op in inner)
                copies += [(op, first) for op, first in equal if reach[op] < repeat.stop]
        computed = np.setdiff1d(self.cuts[:-1], [op for op, _ in copies])
        return computed, copies

    def _timely(self, devices: int) -> Iterator[Ints]:
        """First operators in portions, for as long as there is time."""
        starts, _ = self._starts(devices)
        for at in range(0, len(starts), STARTS_AT_ONCE):
            if self.enough():
                raise OutOfTimeError
            yield starts[at : at + STARTS_AT_ONCE]

    def _copy_repeats(self, devices: int, target: Target) -> None:
        lengths = np.arange(target.times.shape[2])
        for op, first in self._starts(devices)[1]:
            inside = lengths[: self.problem.ops - op]
            for values in (target.times, target.chosen):
                values[:, op + 1 + inside, inside] = values[:, first + 1 + inside, inside]

    @property
    def bytes(self) -> int:
        """What the times take up."""
        return 5 * len(self._splits) * self.most_stages * len(self.cuts) * self._longest

    def _fill_bounds(self, devices: int, target: Target) -> None:
        splits = self._splits[devices]
        for group in [splits] if self.problem.tables.mixes else [(one,) for one in splits]:
            columns = mixed_columns(self.problem, group)
            if self.relaxed:
                self._fill_relaxed(columns, target)
            else:
                self._fill_priced(replace(columns, costs=self._free(columns.costs)), 0, target)
        self._copy_repeats(devices, target)

    def _free(self, costs: ChainCosts) -> ChainCosts:
        """What a bound counts: anything may be recomputed, and a part of a stage receives and sends nothing."""
        free = costs._replace(pinned=np.zeros_like(costs.pinned))
        if not self.parts:
            return free
        nothing = np.zeros_like(free.enters)
        return free._replace(enters=nothing, receives=nothing, sends=nothing)

    def _fill_relaxed(self, columns: Columns, target: Target) -> None:
        """Bounds of stages with one split; a variant that is faster or smaller may be any operator's."""
        free = self._free(least_of(columns.costs))
        for starts in self._timely(columns.options[0].split.devices):
            relaxed_rows(starts, free, by_price(free), self._limits, self.parts, 0, target)

    @property
    def _longest(self) -> int:
        """Most cuts inside a stage that could keep the bound."""
        fastest = np.min(list(self._fastest.values()), axis=0)
        until = np.concatenate([[0.0], np.cumsum(fastest)])[self.cuts]
        ends = np.searchsorted(until, until + self.bound_us, side="right")
        return max(1, int((ends - np.arange(len(self.cuts))).max()))

    @cached_property
    def _cut_index(self) -> NDArray[np.int64]:
        index = np.full(self.problem.ops + 1, -1)
        index[self.cuts] = np.arange(len(self.cuts))
        return index

    @property
    def _limits(self) -> StageLimits:
        return StageLimits(self.problem.mesh.memory_mb, self.bound_us, self.problem.tables.memory.per_weight)

    def _fill_priced(self, columns: Columns, option: int, target: Target) -> None:
        laters = _laters(self.most_stages)
        prices = self.prices if self.bounding else PRICES
        for starts in self._timely(columns.options[0].split.devices):
            priced_rows(starts, columns.costs, self._limits, prices, laters, self.bounding, self.parts, option, target)

    @cached_property
    def _far(self) -> tuple[Floats, Floats]:
        """What a transfer by network costs more: [devices, option, cut]; the last option is the mix of all."""
        width = max(len(columns.options) for columns in self._columns.values()) + 1
        into = np.zeros((len(self._columns), width, len(self.cuts)))
        out = np.zeros_like(into)
        if self.bounding:
            return into, out
        for place, columns in enumerate(self._columns.values()):
            known = len(columns.options)
            into[place, :known, :-1] = (columns.far.receives - columns.costs.receives)[:, self.cuts[:-1]]
            out[place, :known, 1:] = (columns.far.sends - columns.costs.sends)[:, self.cuts[1:] - 1]
            into[place, known:], out[place, known:] = into[place, :known].max(axis=0), out[place, :known].max(axis=0)
        return into, out

    def within(self, bound_us: float, mesh: Mesh) -> PipelineCuts | None:
        """The pipeline of least total time whose stages all take at most ``bound_us``."""
        if not self.usable:
            return None
        times, chosen = self._filled
        devices = np.array(list(self._columns))
        path, elapsed = cheapest_pipeline(
            times, chosen, *self._far, self._work_before, devices, mesh.devices, mesh.per_node, bound_us
        )
        if not len(path):
            return None
        stages = tuple(CutStage(int(self.cuts[a]), int(self.cuts[b]), n) for a, b, n in path.tolist())
        return PipelineCuts(self.micro_batch, stages, tuple(elapsed.tolist()))

    def best(self, enough: Callable[[], bool], mesh: Mesh | None = None) -> list[PipelineCuts]:
        """Pipelines of ever faster slowest stages by bisection, the last one near the fastest there is."""
        mesh = mesh or self.problem.mesh
        found, low = self._bisect(enough, mesh)
        if found:
            relaxed = (self.within(min(low * factor, self.bound_us), mesh) for factor in RELAXED if not enough())
            found += [pipeline for pipeline in relaxed if pipeline is not None]
        return found

    def floor_us(self, enough: Callable[[], bool]) -> float | None:
        """Of a bounding table: microseconds per iteration no pipeline of it can beat; None if time ran out.

        Above the slowest stage that could not be undercut, n - 1 times, and the least total of all stages.
        """
        try:
            found, low = self._bisect(enough, self.problem.mesh)
        except OutOfTimeError:
            return None
        if not found:
            return None if enough() else self.bound_us * self.micro_batches
        return ((self.micro_batches - 1) * low + sum(found[0].times_us)) * (1 - ROUNDING)

    def loose_floor_us(self, enough: Callable[[], bool]) -> float | None:
        """The same of a table of ``parts``: what every pipeline takes at least, wherever between the cuts it cuts."""
        try:
            times, _ = self._filled
        except OutOfTimeError:
            return None
        devices, mesh = np.array(list(self._columns)), self.problem.mesh
        total = least_total(times, devices, mesh.devices, mesh.per_node, self.bound_us)
        if total == np.inf:
            return self.bound_us * self.micro_batches
        low, high = 0.0, self.bound_us
        while high - low > LOOSE * self.bound_us and not enough():
            middle = (low + high) / 2
            if least_total(times, devices, mesh.devices, mesh.per_node, middle) == np.inf:
                low = middle
            else:
                high = middle
        return ((self.micro_batches - 1) * low + total) * (1 - ROUNDING)

    def _bisect(self, enough: Callable[[], bool], mesh: Mesh) -> tuple[list[PipelineCuts], float]:
        low, high = float(self._work_before[-1]) / mesh.devices, self.bound_us
        found: list[PipelineCuts] = []
        while high > low * (1 + TOLERANCE) and not enough():
            middle = (low * high) ** 0.5 if found else high
            pipeline = self.within(middle, mesh)
            if pipeline is None:
                if not found:
                    break
                low = middle
                continue
            found.append(pipeline)
            high = min(middle, max(pipeline.times_us))
        return found, low
