"""The cost model on stages small enough to add up by hand."""

from dataclasses import replace

import numpy as np
import pytest

from penstock.core import ParallelPlan, ParallelStage, PlanError
from penstock.parallel.cost_model import evaluate, stage_cost
from penstock.parallel.devices import MB, Mesh
from penstock.parallel.operators import (
    FORBIDDEN_MS,
    Collective,
    CostTables,
    MemoryRule,
    OpChain,
    OpKind,
    Reshard,
    TensorLayout,
    TransferSpeeds,
    reshard,
)

FWD, BWD = [100.0, 200.0, 400.0], [300.0, 500.0, 700.0]
ACTIVATION, WEIGHT = [10.0, 20.0, 40.0], [1.0, 2.0, 4.0]
SAMPLES, COLUMNS = TensorLayout(dp_axis=0), TensorLayout(dp_axis=0, tp_axis=1)


def _table(values: list[float], halved: bool = True) -> np.ndarray:
    """[3 kinds, micro-batches 1 and 2, tp 1 and 2, 1 variant]: proportional to samples, halved by tp."""
    base = np.array(values)[:, None, None, None]
    return (
        base * np.array([1.0, 2.0])[None, :, None, None] * np.array([1.0, 0.5 if halved else 1.0])[None, None, :, None]
    )


@pytest.fixture
def tables() -> CostTables:
    kinds = (OpKind(name="a", starts_layer=True), OpKind(name="b"), OpKind(name="c"))
    layouts = tuple((SAMPLES,) for _ in kinds)
    return CostTables(
        chain=OpChain.of("hand", kinds, [[0, 1, 2]], [2]),
        micro_batches=(1, 2), tp_degrees=(1, 2),
        fwd_us=_table(FWD), bwd_us=_table(BWD), input_mb=_table([4.0, 4.0, 4.0], False),
        output_mb=_table([4.0, 4.0, 8.0], False), weight_mb=_table(WEIGHT)[:, [0, 0]],
        activation_mb=_table(ACTIVATION), fwd_reserved_mb=_table([3.0, 1.0, 50.0], False),
        bwd_reserved_mb=_table([2.0, 5.0, 50.0], False), activation_scale=np.ones(3),
        layout_in=layouts, layout_out=layouts,
        links=TransferSpeeds(intra_gbps=(1.0, 2.0, 4.0), inter_gbps=(0.5, 1.0, 2.0)),
        memory=MemoryRule(main=2.0, optimizer=4.0),
        collectives_ms={(Collective.ALL_GATHER, 2): {4: 1.5, 8: 2.5}},
    )  # fmt: skip


def test_times_add_up(tables: CostTables) -> None:
    cost = stage_cost(tables, 0, ParallelStage.uniform(3), 1, later=0, entering=True)
    assert (cost.forward_us, cost.backward_us, cost.recompute_us) == (700.0, 1500.0, 0.0)
    assert cost.input_us == pytest.approx(4.0 / 0.001)  # 4 MB: entry 2 - 1 of the network's table, 1 GB/s
    assert cost.output_us == pytest.approx(8.0 / 0.004)  # 8 MB: entry 3 - 1 inside a node, 4 GB/s
    assert cost.time_us == 700.0 + 1500.0 + 4000.0 + 2000.0


def test_memory_adds_up(tables: CostTables) -> None:
    cost = stage_cost(tables, 0, ParallelStage.uniform(3), 1, later=2)
    assert (cost.weights_mb, cost.gradients_mb, cost.optimizer_mb) == (21.0, 7.0, 28.0)
    assert cost.activations_mb == 2 * (4 + 70)
    assert cost.peak_mb == 4 + 70
    assert cost.reserved_mb == 3 + 5, "the last operator does not count"


def test_recomputed_pairs_save_all_but_their_last_and_have_a_peak(tables: CostTables) -> None:
    stage = replace(ParallelStage.uniform(3), recompute=(True, True, False))
    cost = stage_cost(tables, 0, stage, 1, later=1)
    assert cost.recompute_us == 300.0
    assert cost.activations_mb == 4 + 70 - 10
    assert cost.peak_mb == 4 + 70 - 10 + 10


def test_the_input_of_a_layer_is_kept(tables: CostTables) -> None:
    stage = replace(ParallelStage.uniform(6), recompute=(False, False, True, True, True, False))
    cost = stage_cost(tables, 0, stage, 1, later=1)
    assert cost.activations_mb == 4 + 140 - 10, "what the last operator of the first layer made is the next one's input"
    assert cost.peak_mb == 4 + 140 - 10 + 40, "segments end where a layer starts"


def test_a_shared_buffer_counts_by_its_scale(tables: CostTables) -> None:
    shared = replace(tables, activation_scale=np.array([1.0, 0.0, 1.5]))
    assert stage_cost(shared, 0, ParallelStage.uniform(3), 1, later=0).peak_mb == 4 + 10 + 0 + 60


def test_changing_the_split_inside_a_stage_is_paid_for(tables: CostTables) -> None:
    stage = ParallelStage(devices=2, tp=(1, 2, 2), dp=(2, 1, 1), recompute=(False,) * 3, variant=(0,) * 3)
    cost = stage_cost(tables, 0, stage, 2, later=0)
    assert cost.reshard_us == 2500.0, "8 MB gathered forward, cut locally backward"
    assert stage_cost(replace(tables, mixes=False), 0, stage, 2, later=0).reshard_us == 0.0


def test_a_collective_nobody_measured_is_forbidden(tables: CostTables) -> None:
    stage = ParallelStage(devices=2, tp=(1, 2, 2), dp=(2, 1, 1), recompute=(False,) * 3, variant=(0,) * 3)
    unmeasured = replace(tables, collectives_ms={})
    assert stage_cost(unmeasured, 0, stage, 2, later=0).reshard_us == 1000 * FORBIDDEN_MS


@pytest.mark.parametrize(
    ("given", "at", "wanted", "to", "move"),
    [
        (SAMPLES, (2, 1), SAMPLES, (2, 1), None),
        (None, (2, 1), SAMPLES, (1, 2), None),
        (COLUMNS, (1, 2), SAMPLES, (1, 2), None),
        (SAMPLES, (4, 1), SAMPLES, (2, 2), Reshard(Collective.SPLIT, Collective.ALL_GATHER, 2)),
        (SAMPLES, (1, 4), SAMPLES, (4, 1), Reshard(Collective.ALL_GATHER, Collective.SPLIT, 4)),
        (COLUMNS, (4, 1), COLUMNS, (1, 4), Reshard(Collective.ALL_TO_ALL, Collective.ALL_TO_ALL, 4)),
        (SAMPLES, (2, 1), COLUMNS, (2, 1), Reshard(Collective.SPLIT, Collective.ALL_GATHER, 2)),
    ],
)
def test_layouts_turn_into_each_other(
    given: TensorLayout | None, at: tuple[int, int], wanted: TensorLayout, to: tuple[int, int], move: Reshard | None
) -> None:
    assert reshard(given, at, wanted, to) == move


def _plan(*stages: ParallelStage, micro_batch: int = 2) -> ParallelPlan:
    return ParallelPlan(model="hand", global_batch=8, micro_batch=micro_batch, stages=stages)


def test_the_slowest_stage_sets_the_pace(tables: CostTables) -> None:
    plan = _plan(ParallelStage.uniform(2), ParallelStage.uniform(4))
    result = evaluate(plan, tables, Mesh(per_node=2, memory_bytes=1000.0 * MB))
    times = [stage.time_us for stage in result.stages]
    assert result.bottleneck == 1
    assert result.iteration_s == pytest.approx((3 * times[1] + sum(times)) / 1e6)
    assert result.memory_mb == max(stage.memory_mb for stage in result.stages)


@pytest.mark.parametrize(
    ("plan", "mesh", "message"),
    [
        (_plan(ParallelStage.uniform(5)), Mesh(per_node=1, memory_bytes=1.0 * MB), "5 operators"),
        (_plan(ParallelStage.uniform(6)), Mesh(per_node=2, memory_bytes=1.0 * MB), "1 devices"),
        (
            _plan(ParallelStage.uniform(2), ParallelStage.uniform(2, tp=2), ParallelStage.uniform(2)),
            Mesh(nodes=2, per_node=2, memory_bytes=1.0 * MB),
            "stage 1 on devices 1..2",
        ),
        (_plan(ParallelStage.uniform(6, tp=4)), Mesh(per_node=4, memory_bytes=1.0 * MB), "tensor-parallel degree of 4"),
        (
            _plan(ParallelStage.uniform(6), micro_batch=8),
            Mesh(per_node=1, memory_bytes=1.0 * MB),
            "micro-batch per device of 8",
        ),
    ],
)
def test_plans_that_cannot_be_carried_out(tables: CostTables, plan: ParallelPlan, mesh: Mesh, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        evaluate(plan, tables, mesh)


def test_a_combination_without_a_cost_is_named(tables: CostTables) -> None:
    holes = replace(tables, fwd_us=tables.fwd_us.copy())
    holes.fwd_us[1, 1, 0, 0] = np.nan
    with pytest.raises(PlanError, match="operator b with tp 1 and micro-batch 2 per device"):
        evaluate(_plan(ParallelStage.uniform(6)), holes, Mesh(per_node=1, memory_bytes=1.0 * MB))


def test_tables_of_the_wrong_shape_are_refused(tables: CostTables) -> None:
    with pytest.raises(PlanError, match="table bwd_us of shape"):
        replace(tables, bwd_us=tables.bwd_us[:, :1])
