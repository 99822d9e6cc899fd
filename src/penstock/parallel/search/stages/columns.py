"""The tables laid out along the chain: one row per option (split and variant), one entry per operator."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from penstock.parallel.operators import CostTables, Floats, OpState
from penstock.parallel.search.problem import Problem, Split
from penstock.parallel.search.stages.arrays import ChainCosts, Flags


@dataclass(frozen=True, slots=True)
class Option:
    """A split together with a partition variant."""

    split: Split
    variant: int
    """The fastest of every operator where this is negative."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The options of a number of devices and their costs, [option, operator]; ``far``: with transfers by network."""

    options: tuple[Option, ...]
    costs: ChainCosts
    far: ChainCosts

    def of_option(self, option: int) -> ChainCosts:
        """One option's costs."""
        shared = {"closes", "pinned", "move"}
        rows = {name: value if name in shared else value[option] for name, value in self.costs._asdict().items()}
        return ChainCosts(**rows)


def uniform_columns(problem: Problem, splits: Sequence[Split]) -> Columns:
    """One option per split: the fastest variant where variants lie alike on the devices, else the first."""
    tables = problem.tables
    rows = [_variant_columns(tables, split) for split in splits]
    best = [_fastest(tables, row) for row in rows]
    picked = [{name: np.take_along_axis(row[name], best[k][None], 0)[0] for name in row} for k, row in enumerate(rows)]
    options = tuple(Option(split, -1) for split in splits)
    return _columns(tables, options, picked, np.zeros((tables.chain.size, len(options), len(options))))


def least_work(problem: Problem, splits: Sequence[Split]) -> Floats:
    """Microseconds of forward and backward of every operator at its fastest of all splits and variants."""
    tables = problem.tables
    each = []
    for split in splits:
        work = _variant_columns(tables, split)["work"]
        each.append(np.where(_alike(tables) | (split.tp > 1), work.min(axis=0), work[0]))
    return np.asarray(np.min(each, axis=0))


def variants_of(problem: Problem, split: Split) -> NDArray[np.int64]:
    """The variant :func:`uniform_columns` takes for every operator."""
    return _fastest(problem.tables, _variant_columns(problem.tables, split))


def mixed_columns(problem: Problem, splits: Sequence[Split]) -> Columns:
    """One option per split and variant, with the price of changing from one to another between operators.

    Where variants lie alike on the devices, one that is slower and saves no memory is left out; a single device has
    nothing to vary.
    """
    tables = problem.tables
    options, picked = [], []
    for split in splits:
        rows = _variant_columns(tables, split)
        fastest = _fastest(tables, rows)
        for variant in range(tables.variants):
            useless = (_alike(tables) & _no_smaller(rows, variant, fastest)) | (split.tp == 1)
            useless &= fastest != variant
            if not useless.all():
                options.append(Option(split, variant))
                picked.append({name: rows[name][variant] for name in rows})
                picked[-1]["work"] = np.where(useless, np.inf, rows["work"][variant])
    return _columns(tables, tuple(options), picked, _moves(tables, options))


def least_of(costs: ChainCosts) -> ChainCosts:
    """For bounds: of every operator the least of each cost and the most it can save, whichever option has it."""
    shared = {"closes", "pinned", "move"}
    least = {name: value if name in shared else value.min(axis=0) for name, value in costs._asdict().items()}
    return ChainCosts(**{**least, "saved": costs.saved.max(axis=0)})


def _variant_columns(tables: CostTables, split: Split) -> dict[str, Floats]:
    """Every table at one split, as [variant, operator]."""
    batch, degree = tables.micro_batch_index(split.micro_batch), tables.tp_index(split.tp)
    ops = tables.chain.ops

    def along(table: Floats) -> Floats:
        column: Floats = table[:, batch, degree, :][ops].T
        return column

    work = along(tables.fwd_us) + along(tables.bwd_us)
    return {
        "forward": along(tables.fwd_us), "work": np.where(np.isnan(work), np.inf, work),
        "activation": along(tables.activation_mb) * tables.activation_scale[ops],
        "weight": along(tables.weight_mb), "enters": along(tables.input_mb), "leaves": along(tables.output_mb),
        "fwd_reserved": along(tables.fwd_reserved_mb), "bwd_reserved": along(tables.bwd_reserved_mb),
    }  # fmt: skip


def _fastest(tables: CostTables, rows: dict[str, Floats]) -> NDArray[np.int64]:
    fastest: NDArray[np.int64] = np.where(_alike(tables), rows["work"].argmin(axis=0), 0)
    return fastest


def _no_smaller(rows: dict[str, Floats], variant: int, than: NDArray[np.int64]) -> Flags:
    """Operators whose ``variant`` needs no less memory in any way than variant ``than`` of theirs."""
    sizes = [rows[name] for name in ("activation", "weight", "fwd_reserved", "bwd_reserved")]
    flags: Flags = np.all([size[variant] >= np.take_along_axis(size, than[None], 0)[0] for size in sizes], axis=0)
    return flags


def _alike(tables: CostTables) -> Flags:
    """Operators whose variants take and give the same layouts."""
    kinds = np.array([
        len(set(before)) == len(set(after)) == 1
        for before, after in zip(tables.layout_in, tables.layout_out, strict=True)
    ])  # fmt: skip
    alike: Flags = kinds[tables.chain.ops]
    return alike


def _columns(tables: CostTables, options: tuple[Option, ...], rows: list[dict[str, Floats]], move: Floats) -> Columns:
    stacked = {name: np.nan_to_num(np.stack([row[name] for row in rows]), nan=0.0, posinf=np.inf) for name in rows[0]}
    own_buffer = tables.activation_scale[tables.chain.ops] == 1.0
    closes = np.append(tables.chain.starts_layer[1:], False) & own_buffer
    enters, leaves = stacked["enters"], stacked["leaves"]
    links = tables.links
    near = ChainCosts(
        forward=stacked["forward"], work=stacked["work"], activation=stacked["activation"],
        saved=np.where(closes, 0.0, stacked["activation"]), weight=stacked["weight"], enters=enters,
        fwd_reserved=stacked["fwd_reserved"], bwd_reserved=stacked["bwd_reserved"],
        receives=_transfers(enters, links.intra_gbps), sends=_transfers(leaves, links.intra_gbps),
        closes=closes, pinned=tables.chain.pinned, move=move,
    )  # fmt: skip
    far = near._replace(
        receives=_transfers(enters, links.inter_gbps), sends=_transfers(leaves, links.inter_gbps)
    )  # fmt: skip
    return Columns(options, near, far)


def _transfers(sizes: Floats, speeds: tuple[float, ...]) -> Floats:
    """Microseconds of point-to-point messages, as :meth:`TransferSpeeds.transfer_us` has it."""
    positive = np.maximum(sizes, 1e-9)
    entry = np.trunc(np.log2(positive)).astype(np.int64)
    entry = np.clip(np.where(entry >= 1, entry - 1, entry), 0, len(speeds) - 1)
    times: Floats = np.where(sizes > 0, sizes / (np.array(speeds)[entry] * 0.001), 0.0)
    return times


def _moves(tables: CostTables, options: Sequence[Option]) -> Floats:
    ops = tables.chain.ops.tolist()

    @cache
    def between(before: int, after: int) -> Floats:
        return np.array([
            [sum(tables.reshard_us(_state(before, one), _state(after, other))) for other in options] for one in options
        ])  # fmt: skip

    first = np.zeros((1, len(options), len(options)))
    return np.concatenate([first, *(between(a, b)[None] for a, b in itertools.pairwise(ops))])


def _state(kind: int, option: Option) -> OpState:
    split = option.split
    return OpState(kind, split.tp, split.dp, option.variant, split.micro_batch)
