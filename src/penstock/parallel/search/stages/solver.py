"""The last word on single stages: split, variant and recomputation of every operator, near exactly."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from penstock.core import ParallelStage
from penstock.parallel.operators import Floats
from penstock.parallel.search.cuts import CutStage
from penstock.parallel.search.problem import Problem, Split
from penstock.parallel.search.stages.arrays import StageLimits
from penstock.parallel.search.stages.columns import Columns, mixed_columns, uniform_columns, variants_of
from penstock.parallel.search.stages.mixed import bucket_row

SEGMENT_STARTS, SEGMENT_OPS = 30, 24
"""Where recomputed segments are sampled for their sizes, and how long they may be."""


@dataclass(frozen=True, slots=True)
class StagePosition:
    """Where a stage sits in its pipeline."""

    micro_batch: int
    devices: int
    later: int
    """Stages behind it."""
    far_in: bool
    far_out: bool


@dataclass(frozen=True)
class StageSolver:
    """Solves stages of one problem; columns and answers are kept.

    ``mixing``: whether operators of a stage may be split differently, which takes longer.
    ``buckets``: how finely memory is told apart; the error is at most a bucket per operator, and never on the side of
    a stage that does not fit. ``allowances``: how many sizes of the largest recomputed segment are tried.
    """

    problem: Problem
    mixing: bool = True
    buckets: int = 512
    allowances: int = 8
    _columns: dict[tuple[int, int], tuple[Columns, ...]] = field(default_factory=dict, repr=False)
    _solved: dict[tuple[int, int, StagePosition], tuple[float, ParallelStage] | None] = field(
        default_factory=dict, repr=False
    )

    def columns(self, micro_batch: int, devices: int) -> tuple[Columns, ...]:
        """Options that may be mixed: all splits together where resharding is priced, else each by itself."""
        key = micro_batch, devices
        if key not in self._columns:
            splits = self.problem.splits(micro_batch, devices)
            mixes = self.mixing and self.problem.tables.mixes
            groups: Sequence[Sequence[Split]] = [splits] if mixes else [[one] for one in splits]
            columns = mixed_columns if mixes else uniform_columns
            self._columns[key] = tuple(columns(self.problem, group) for group in groups if group)
        return self._columns[key]

    def row(self, position: StagePosition, start: int, shortest: int, stop: int, bound_us: float) -> Floats:
        """Least times of the stages from ``start`` to every operator before ``stop``; infinite where none fits.

        Only stages of ``shortest`` operators and more are of interest.
        """
        best = np.full(stop - start, np.inf)
        for columns in self.columns(position.micro_batch, position.devices):
            for allowance in _allowances(columns, start, stop, self.allowances):
                if allowance and self._needs_none(columns, position, start, stop):
                    break
                fastest = np.full(stop - start, np.inf)
                reach = shortest, stop
                self._run(columns, position, start, reach, (bound_us, allowance), fastest, _nowhere(), _no_way())
                best = np.minimum(best, fastest)
        return best

    def solve(self, position: StagePosition, cut: CutStage) -> tuple[float, ParallelStage] | None:
        """Time and content of the fastest stage over these operators; None if nothing fits."""
        key = cut.start, cut.stop, position
        if key not in self._solved:
            answers = [
                self._walk(columns, position, cut, allowance)
                for columns in self.columns(position.micro_batch, position.devices)
                for allowance in _allowances(columns, cut.start, cut.stop, self.allowances)
            ]
            self._solved[key] = min(
                (answer for answer in answers if answer), key=lambda answer: answer[0], default=None
            )
        return self._solved[key]

    def _needs_none(self, columns: Columns, position: StagePosition, start: int, stop: int) -> bool:
        """Whether a stage with a single option fits without recomputing anything."""
        if len(columns.options) > 1:
            return False
        ops = slice(start, stop)
        costs = columns.of_option(0)
        weights = costs.weight[ops].sum()
        reserved = costs.fwd_reserved[ops].max() + costs.bwd_reserved[ops].max()
        kept = costs.enters[start] + costs.activation[ops].sum()
        memory = self.problem.tables.memory.per_weight * weights + (position.later + 1) * kept + max(reserved, weights)
        return bool(memory <= self.problem.mesh.memory_mb)

    def _walk(
        self, columns: Columns, position: StagePosition, cut: CutStage, allowance: float
    ) -> tuple[float, ParallelStage] | None:
        if allowance and self._needs_none(columns, position, cut.start, cut.stop):
            return None
        ops = cut.stop - cut.start
        fastest, ends = np.full(ops, np.inf), np.full(ops, -1)
        back = np.zeros((ops, 2 * len(columns.options), self.buckets), np.int32)
        self._run(columns, position, cut.start, (ops, cut.stop), (np.inf, allowance), fastest, ends, back)
        if not np.isfinite(fastest[-1]):
            return None
        states = np.zeros(ops, np.int64)
        state, slot = divmod(int(ends[-1]), self.buckets)
        for op in range(ops - 1, -1, -1):
            states[op] = state
            state, slot = divmod(int(back[op, state, slot]), self.buckets)
        return float(fastest[-1]), self._stage(columns, position.devices, cut, states)

    def _stage(self, columns: Columns, devices: int, cut: CutStage, states: NDArray[np.int64]) -> ParallelStage:
        options = [columns.options[state // 2] for state in states]
        variants = [option.variant for option in options]
        if variants[0] < 0:
            variants = variants_of(self.problem, options[0].split)[cut.start : cut.stop].tolist()
        return ParallelStage(
            devices=devices, tp=tuple(option.split.tp for option in options),
            dp=tuple(option.split.dp for option in options), variant=tuple(variants),
            recompute=tuple(bool(state % 2) for state in states),
        )  # fmt: skip

    def _run(
        self, columns: Columns, position: StagePosition, start: int, reach: tuple[int, int],
        bounds: tuple[float, float], fastest: Floats, ends: NDArray[np.int64], back: NDArray[np.int32],
    ) -> None:  # fmt: skip
        bound_us, allowance = bounds
        costs = columns.costs._replace(
            receives=(columns.far if position.far_in else columns.costs).receives,
            sends=(columns.far if position.far_out else columns.costs).sends,
        )
        limits = StageLimits(self.problem.mesh.memory_mb, bound_us, self.problem.tables.memory.per_weight)
        bucket_row(start, *reach, costs, limits, position.later, allowance, self.buckets, fastest, ends, back)


def _allowances(columns: Columns, start: int, stop: int, count: int) -> list[float]:
    """No recomputed segment, and some sizes that one can have, evenly among all that occur."""
    sizes = {0.0}
    for activation in columns.costs.activation[:, start:stop]:
        for first in range(min(len(activation), SEGMENT_STARTS)):
            closes = columns.costs.closes[start + first : start + first + SEGMENT_OPS]
            ends = int(closes.argmax()) + 1 if closes.any() else SEGMENT_OPS
            sizes.update(np.cumsum(activation[first : first + ends]).round(1).tolist())
    ordered = sorted(sizes)
    picked = np.unique(np.linspace(0, len(ordered) - 1, count).round().astype(int))
    return [ordered[index] for index in picked]


def _nowhere() -> NDArray[np.int64]:
    return np.empty(0, np.int64)


def _no_way() -> NDArray[np.int32]:
    return np.empty((0, 0, 0), np.int32)


def stage_positions(problem: Problem, micro_batch: int, devices: Sequence[int]) -> list[StagePosition]:
    """The stage_positions of a pipeline whose stages have so many devices each."""
    found, offset = [], 0
    for number, count in enumerate(devices):
        end = offset + count
        found.append(
            StagePosition(
                micro_batch, count, len(devices) - 1 - number, problem.mesh.enters_by_network(offset),
                problem.mesh.leaves_by_network(end),
            )
        )  # fmt: skip
        offset = end
    return found
