"""The extended cost model: synchronisation, schedules, sharding, sequences, and what it says of measured runs."""

import math
from dataclasses import replace

import pytest

from penstock.core import ParallelPlan, PipelineSchedule, PlanError
from penstock.network import Fabric, Group, Link
from penstock.parallel import Planner, Prediction, family_named, mesh_named
from penstock.parallel.full_cost import StageTimes, in_flight, iteration_s, overlapped
from penstock.parallel.operator_costs import (
    DeviceModel,
    SequenceSplit,
    attention_comm_s,
    best_split,
    splits_of,
)
from penstock.parallel.planning.uniform_plans import Degrees, Recompute, plan_of
from penstock.predict.hardware import Precision

SCHEDULE = PipelineSchedule
BATCH = 64


def planner(model: str = "gpt-1.3b", cluster: str = "2x8xA100-80GB", seq: int | None = None) -> Planner:
    return Planner(family=family_named(model, seq), mesh=mesh_named(cluster), batch=BATCH)


def uniform(
    made: Planner, *, pp: int = 1, tp: int = 1, context: int = 1, micro_batch: int = 1, zero: int = 0,
    recompute: Recompute = Recompute.NONE, sequence_parallel: bool = False,
) -> ParallelPlan:  # fmt: skip
    dp = made.mesh.devices // (pp * tp * context)
    plan = plan_of(
        Degrees(pp, tp, dp, context, micro_batch), made.tables(False, 1).chain, made.family, BATCH, zero=zero,
        recompute=recompute, sequence_parallel=sequence_parallel,
    )  # fmt: skip
    assert plan is not None
    return plan


def predicted(made: Planner, **degrees: object) -> Prediction:
    return made.predict(uniform(made, **degrees))  # type: ignore[arg-type]


class TestPipelines:
    EQUAL = [StageTimes(1.0, 2.0, 1.0)] * 4

    def test_one_forward_one_backward_fills_and_drains_once(self) -> None:
        assert iteration_s(self.EQUAL, 8, SCHEDULE.ONE_F_ONE_B) == (8 + 3) * 3.0

    def test_interleaving_divides_the_bubble(self) -> None:
        assert iteration_s(self.EQUAL, 8, SCHEDULE.INTERLEAVED, chunks=3) == pytest.approx(8 * 3.0 + 3 * 3.0 / 3)

    def test_zero_bubble_leaves_a_third(self) -> None:
        assert iteration_s(self.EQUAL, 8, SCHEDULE.ZERO_BUBBLE) == pytest.approx(8 * 3.0 + 3 * 1.0)

    def test_the_slowest_stage_dictates(self) -> None:
        stages = [StageTimes(1.0, 2.0, 1.0), StageTimes(2.0, 4.0, 2.0)]
        assert iteration_s(stages, 10, SCHEDULE.ONE_F_ONE_B) == 10 * 6.0 + 3.0

    def test_activations_in_flight(self) -> None:
        assert [in_flight(s, 4, 16, SCHEDULE.ONE_F_ONE_B) for s in range(4)] == [4, 3, 2, 1]
        assert in_flight(0, 4, 2, SCHEDULE.ONE_F_ONE_B) == 2
        assert in_flight(0, 4, 16, SCHEDULE.GPIPE) == 16
        assert in_flight(0, 4, 16, SCHEDULE.INTERLEAVED, chunks=3) == 5


class TestCollectives:
    NETWORK = Fabric(
        inside=Link(name="inside", start_s=0.0, hop_s=0.0, bandwidth=100e9),
        between=Link(name="between", start_s=0.0, hop_s=0.0, bandwidth=50e9),
    )

    def test_rings_move_twice_the_data_but_one_part(self) -> None:
        assert self.NETWORK.all_reduce_s(1e9, Group(4)) == pytest.approx(2 * 3 / 4 * 1e9 / 100e9)
        assert self.NETWORK.half_s(1e9, Group(4)) == pytest.approx(3 / 4 * 1e9 / 100e9)

    def test_groups_share_the_network_of_their_node(self) -> None:
        alone = self.NETWORK.all_reduce_s(1e9, Group(1, 4, sharing=1))
        assert self.NETWORK.all_reduce_s(1e9, Group(1, 4, sharing=8)) == pytest.approx(8 * alone)

    def test_one_device_needs_nobody(self) -> None:
        assert self.NETWORK.all_reduce_s(1e9, Group(1)) == self.NETWORK.all_to_all_s(1e9, Group(1)) == 0.0


def test_overlap_hides_communication_at_a_price() -> None:
    assert overlapped(1.0, 0.0, 1.3) == 1.0
    assert overlapped(1.0, 4.0, 1.3) == pytest.approx(0.3)
    assert overlapped(4.0, 1.0, 1.3) == pytest.approx(3.3)


class TestGradients:
    def test_replicas_pay_and_more_network_helps(self) -> None:
        made = planner()
        alone = Planner(family=made.family, mesh=mesh_named("1xA100"), batch=BATCH)
        assert predicted(alone).exposed_sync_s == 0.0
        slow = replace(made.mesh, fabric=made.mesh.fabric.with_rates("a slow network", between=1e9))
        slower = Planner(family=made.family, mesh=slow, batch=BATCH)
        assert predicted(slower).stages[0].sync.gradients_s > 10 * predicted(made).stages[0].sync.gradients_s

    def test_sharding_trades_memory_for_communication(self) -> None:
        made = planner()
        by_zero = [predicted(made, zero=zero) for zero in (0, 1, 2, 3)]
        memory = [one.memory_bytes for one in by_zero]
        assert memory == sorted(memory, reverse=True)
        assert memory[0] > 1.5 * memory[3]
        assert by_zero[1].optimizer_s == pytest.approx(by_zero[0].optimizer_s / 16)
        assert by_zero[3].stages[0].sync.per_micro_batch_s > 0

    def test_shared_embeddings_cost_only_across_stages(self) -> None:
        made = planner()
        assert predicted(made).tied_s == 0.0
        assert predicted(made, pp=2).tied_s > 0.0


class TestRecomputationAndSequences:
    def test_recomputing_costs_a_third_of_the_passes_and_saves_memory(self) -> None:
        made = planner()
        none, selective, full = (
            predicted(made, pp=4, tp=2, recompute=how) for how in (Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL)
        )
        assert none.memory_bytes > selective.memory_bytes > full.memory_bytes
        assert none.iteration_s < selective.iteration_s < full.iteration_s
        assert 1.2 < full.pipeline_s / none.pipeline_s < 1.4

    def test_sequence_parallelism_divides_what_was_replicated(self) -> None:
        made = planner()
        plain = predicted(made, tp=8)
        split = predicted(made, tp=8, sequence_parallel=True)
        assert split.memory_bytes < plain.memory_bytes
        assert split.iteration_s < plain.iteration_s

    def test_context_parallelism_divides_activations_but_not_weights(self) -> None:
        made = planner("llama-7b", "2x8xH200", seq=65536)
        one, four = (predicted(made, tp=2, context=n, recompute=Recompute.FULL).stages[0].memory for n in (1, 4))
        assert four.weights == one.weights
        reserved = one.weights
        assert (four.working - reserved) < 0.3 * (one.working - reserved)

    def test_context_ranks_share_sharded_state(self) -> None:
        made = planner("llama-7b", "2x8xH200", seq=65536)
        one, four = (predicted(made, tp=2, context=n, zero=1).stages[0].memory for n in (1, 4))
        assert four.optimizer == pytest.approx(one.optimizer)

    def test_splits_respect_heads(self) -> None:
        family = family_named("llama-70b", 65536)
        found = splits_of(32, family, 8)
        assert {split.degree for split in found} == {32}
        assert {split.heads for split in found} == {1, 2, 4, 8, 16, 32}
        assert all(split.ring % split.window == 0 for split in found)

    def test_rings_hide_behind_long_sequences_only(self) -> None:
        network = mesh_named("4x8xA100").fabric
        ring = SequenceSplit(heads=1, ring=16, window=1, per_node=8)
        exposed = []
        for tokens in (4096, 1_048_576):
            family = family_named("llama-7b", tokens)
            compute = 4 * tokens**2 * family.hidden / 16 / 200e12 / 2
            exposed.append(attention_comm_s(ring, family, network, 1, 1, compute, 2.5 * compute)[0] / compute)
        assert exposed[1] < exposed[0]
        assert exposed[1] == pytest.approx(0.0, abs=1e-3)

    def test_best_split_is_the_least_of_all(self) -> None:
        family, network = family_named("llama-8b", 131_072), mesh_named("4x8xA100").fabric
        best = best_split(32, family, network, 8, 200e12)
        core = sum(work.flops for work in family.works if work.attends) / 32 / 200e12
        costs = [sum(attention_comm_s(s, family, network, 1, 1, core, 2.5 * core)) for s in splits_of(32, family, 8)]
        assert sum(attention_comm_s(best, family, network, 1, 1, core, 2.5 * core)) == min(costs)

    def test_a_sequence_must_be_divisible(self) -> None:
        made = planner("llama-7b", "2x8xH200", seq=30_001)
        with pytest.raises(PlanError, match="30001 tokens in 4 parts"):
            made.tables(False, 4)


def test_waiting_for_the_slowest_grows_slowly_with_devices() -> None:
    site = mesh_named("64x8xA100").priced(Precision.FP16)
    assert site.straggling(8) == 1.0
    assert site.straggling(64) == pytest.approx(1.018, abs=0.002)
    assert site.straggling(512) == pytest.approx(1.032, abs=0.002)


def test_utilisation_and_parts_add_up() -> None:
    made = planner()
    prediction = predicted(made, pp=2, tp=2)
    assert 0.1 < prediction.utilisation < 0.9
    total = prediction.pipeline_s + prediction.exposed_sync_s + prediction.tied_s + prediction.optimizer_s
    assert prediction.iteration_s == pytest.approx(total)
    assert prediction.samples_per_s == pytest.approx(BATCH / prediction.iteration_s)


def test_kernels_are_bound_by_arithmetic_or_by_memory() -> None:
    device = DeviceModel(name="x", peak=100e12, bandwidth=1e12, compute_share=1.0, memory_share=1.0)
    work = family_named("gpt-1.3b").parts[1][0]
    qkv = next(one for one in work if one.name == "attention-qkv")
    arithmetic = qkv.products[0].flops / 100e12
    seconds = device.product_s(qkv.products[0], 1, 1, 2)
    assert arithmetic < seconds < 1.5 * arithmetic
    assert device.stretch(1e-3, 0) == 1.0
    assert device.stretch(1e-6, 100) > 100
    assert math.isclose(device.stretch(1.0, 1), 1.0, rel_tol=1e-6)
