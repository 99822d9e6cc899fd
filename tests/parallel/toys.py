"""Small made-up models whose best plan can be found by trying everything."""

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np

from penstock.core import ParallelPlan, ParallelStage
from penstock.parallel.operators import (
    Collective,
    CostTables,
    MemoryRule,
    OpChain,
    OpKind,
    TensorLayout,
    TransferSpeeds,
)
from penstock.parallel.search.problem import Problem

LINKS = TransferSpeeds(intra_gbps=(10.0,) * 11, inter_gbps=(2.0,) * 11)


def toy_tables(seed: int, ops: int, *, mixes: bool = True) -> CostTables:
    """``ops`` different operators with random costs; twice the devices take a little more than half the time."""
    rng = np.random.default_rng(seed)
    sizes, degrees = (1, 2), (1, 2)
    kinds = [OpKind(name=f"op{number}", starts_layer=number % 3 == 0, pinned=number == 0) for number in range(ops)]
    shape = (ops, len(sizes), len(degrees), 1)
    batch = np.array(sizes, float)[None, :, None, None]
    degree = np.array(degrees, float)[None, None, :, None]

    def sized(low: float, high: float, by_degree: float, by_batch: float = 1.0) -> np.ndarray:
        base = rng.uniform(low, high, (ops, 1, 1, 1))
        return np.broadcast_to(base * batch**by_batch / degree**by_degree, shape).copy()

    layouts = tuple((TensorLayout(dp_axis=0),) for _ in range(ops))
    return CostTables(
        chain=OpChain(model="toy", kinds=tuple(kinds), ops=np.arange(ops)),
        micro_batches=sizes, tp_degrees=degrees,
        fwd_us=sized(500, 2000, 0.8, 0.9), bwd_us=sized(1000, 4000, 0.8, 0.9),
        input_mb=sized(5, 20, 0), output_mb=sized(5, 20, 0), weight_mb=sized(20, 60, 1, 0),
        activation_mb=sized(50, 200, 0.7), fwd_reserved_mb=sized(0, 20, 0), bwd_reserved_mb=sized(0, 40, 0),
        activation_scale=np.ones(ops), layout_in=layouts, layout_out=layouts, links=LINKS,
        memory=MemoryRule(),
        collectives_ms={(Collective.ALL_GATHER, 2): {size: 0.05 * size for size in range(60)}}, mixes=mixes,
    )  # fmt: skip


def every_plan(problem: Problem) -> Iterator[ParallelPlan]:
    """All plans of a tiny problem: cuts, devices, micro-batches, splits and recomputation of each operator."""
    ops, total = problem.ops, problem.mesh.devices
    for micro_batch in problem.micro_batches:
        for count in range(1, total + 1):
            for cuts in combinations(range(1, ops), count - 1):
                for devices in product(problem.stage_devices, repeat=count):
                    if sum(devices) == total:
                        yield from _filled(problem, micro_batch, (0, *cuts, ops), devices)


def _filled(
    problem: Problem, micro_batch: int, ends: tuple[int, ...], devices: tuple[int, ...]
) -> Iterator[ParallelPlan]:
    choices = []
    for start, stop, count in zip(ends, ends[1:], devices, strict=False):
        splits = problem.splits(micro_batch, count)
        mixes = (
            list(product(splits, repeat=stop - start))
            if problem.tables.mixes
            else [(s,) * (stop - start) for s in splits]
        )
        choices.append(
            [
                ParallelStage(
                    devices=count, tp=tuple(split.tp for split in mix), dp=tuple(split.dp for split in mix),
                    recompute=flags, variant=(0,) * (stop - start),
                )
                for mix in mixes
                for flags in product((False, True), repeat=stop - start)
                if not any(flag and problem.tables.chain.pinned[start + op] for op, flag in enumerate(flags))
            ]
        )  # fmt: skip
    for stages in product(*choices):
        yield ParallelPlan(
            model="toy", global_batch=problem.global_batch, micro_batch=micro_batch, stages=tuple(stages)
        )
