"""Plans in the words of trainers: read back with their own rules, refused where they cannot be said."""

import json
from dataclasses import replace

import pytest

from penstock.core import ParallelPlan, ParallelStage, PipelineSchedule, PlanError, UnknownNameError
from penstock.parallel import Candidate, Planner, family_named, mesh_named
from penstock.parallel.exports import deepspeed, megatron, torchtitan
from penstock.parallel.exports.common import Exported
from penstock.parallel.planning.uniform_plans import Degrees, Recompute, plan_of
from tests.parallel.trainers.written import with_layers

BATCH = 64
LAYOUT = "Ettttttt|ttttttttt|ttttttttt|tttttttL"
"""Without signs that a shell would read: the file is passed on by ``$(cat …)``."""


def made(model: str = "gpt-6.7b", cluster: str = "4x8xA100-80GB") -> Planner:
    return Planner(family=family_named(model), mesh=mesh_named(cluster), batch=BATCH)


def uniform(planner: Planner, *, pp: int = 4, tp: int = 2, context: int = 1, micro_batch: int = 1,
            zero: int = 0, recompute: Recompute = Recompute.NONE) -> ParallelPlan:  # fmt: skip
    degrees = Degrees(pp, tp, planner.mesh.devices // (pp * tp * context), context, micro_batch)
    plan = plan_of(
        degrees, planner.family.chain(), planner.family, BATCH, recompute=recompute, zero=zero, sequence_parallel=True
    )
    assert plan is not None
    return plan


def candidate(planner: Planner, plan: ParallelPlan) -> Candidate:
    return Candidate(origin="uniform", plan=plan, prediction=planner.predict(plan))


def unequal(planner: Planner, layers: tuple[int, ...], shift: int = 0) -> ParallelPlan:
    return with_layers(uniform(planner, pp=len(layers)), planner.family, layers, shift)


class TestMegatron:
    def arguments(self, written: Exported) -> dict[str, str]:
        words = [line.split() for line in written.text.splitlines()]
        return {line[0]: line[1] if len(line) > 1 else "" for line in words}

    def test_degrees_batches_and_shape(self) -> None:
        planner = made()
        given = self.arguments(
            megatron(candidate(planner, uniform(planner, micro_batch=2, zero=1)), planner.family, planner.mesh)
        )
        assert given["--tensor-model-parallel-size"] == "2"
        assert given["--pipeline-model-parallel-size"] == "4"
        assert (given["--micro-batch-size"], given["--global-batch-size"]) == ("2", "64")
        assert (given["--num-layers"], given["--hidden-size"]) == ("32", "4096")
        assert "--sequence-parallel" in given
        assert "--use-distributed-optimizer" in given
        assert "--pipeline-model-parallel-layout" not in given

    def test_launch_line_starts_every_device(self) -> None:
        planner = made()
        written = megatron(candidate(planner, uniform(planner)), planner.family, planner.mesh)
        assert "--nnodes 4 --nproc-per-node 8" in written.launch

    def test_unequal_stages_become_a_layout(self) -> None:
        planner = made()
        written = megatron(candidate(planner, unequal(planner, (7, 9, 9, 7))), planner.family, planner.mesh)
        assert self.arguments(written)["--pipeline-model-parallel-layout"] == LAYOUT
        assert written.notes == ()

    def test_cuts_inside_layers_are_rounded_and_said(self) -> None:
        planner = made()
        written = megatron(candidate(planner, unequal(planner, (7, 9, 9, 7), shift=2)), planner.family, planner.mesh)
        assert self.arguments(written)["--pipeline-model-parallel-layout"] == LAYOUT
        assert any("nearest whole layers" in note for note in written.notes)
        assert any("an iteration takes" in note for note in written.notes)

    @pytest.mark.parametrize(
        ("recompute", "expected"),
        [(Recompute.NONE, None), (Recompute.SELECTIVE, "selective"), (Recompute.FULL, "full")],
    )
    def test_recomputation(self, recompute: Recompute, expected: str | None) -> None:
        planner = made()
        plan = uniform(planner, recompute=recompute)
        given = self.arguments(megatron(candidate(planner, plan), planner.family, planner.mesh))
        assert given.get("--recompute-granularity") == expected

    def test_single_recomputed_operators_become_the_nearest(self) -> None:
        planner = made()
        plan = uniform(planner)
        flags = tuple(op % 13 == 11 and op > 60 for op in range(plan.stages[0].ops))
        plan = replace(plan, stages=(replace(plan.stages[0], recompute=flags), *plan.stages[1:]))
        written = megatron(candidate(planner, plan), planner.family, planner.mesh)
        given = self.arguments(written)
        assert (given["--recompute-method"], given["--recompute-granularity"]) == ("block", "full")
        assert any("nearest" in note for note in written.notes)

    def test_interleaving(self) -> None:
        planner = made()
        plan = replace(uniform(planner), schedule=PipelineSchedule.INTERLEAVED, interleave=2)
        given = self.arguments(megatron(candidate(planner, plan), planner.family, planner.mesh))
        assert given["--num-layers-per-virtual-pipeline-stage"] == "4"

    def test_interleaved_unequal_stages_are_laid_out_chunk_by_chunk(self) -> None:
        planner = made()
        plan = replace(unequal(planner, (7, 9, 9, 7)), schedule=PipelineSchedule.INTERLEAVED, interleave=2)
        given = self.arguments(megatron(candidate(planner, plan), planner.family, planner.mesh))
        assert given["--pipeline-model-parallel-layout"] == "Ettt|ttttt|ttttt|tttt|tttt|tttt|tttt|tttL"

    def test_a_schedule_it_has_not_is_said_with_its_cost(self) -> None:
        planner = made()
        plan = replace(uniform(planner), schedule=PipelineSchedule.ZERO_BUBBLE)
        written = megatron(candidate(planner, plan), planner.family, planner.mesh)
        assert any("no zero-bubble schedule" in note for note in written.notes)
        assert any("% longer" in note for note in written.notes)

    def test_fully_sharded_plans_use_its_own_sharding(self) -> None:
        planner = made()
        plan = uniform(planner, pp=1, tp=1, zero=3)
        written = megatron(candidate(planner, plan), planner.family, planner.mesh)
        given = self.arguments(written)
        assert given["--data-parallel-sharding-strategy"] == "optim_grads_params"
        assert {"--use-megatron-fsdp", "--overlap-param-gather", "--overlap-grad-reduce"} <= set(given)
        assert "CUDA_DEVICE_MAX_CONNECTIONS=1" not in written.launch

    def test_a_plan_that_fits_only_in_our_words_is_refused(self) -> None:
        """Sharded gradients beside a pipeline fit; the optimizer state alone, which it can shard, does not."""
        planner = made("gpt-13b", "8x8xA100-40GB")
        plan = replace(uniform(planner, pp=2, tp=2, zero=1, recompute=Recompute.FULL), zero=3)
        tight = planner.mesh.limited(1.02 * planner.predict(plan).memory_bytes)
        with pytest.raises(PlanError, match=r"as Megatron-LM can say it.*--uniform"):
            megatron(candidate(planner, plan), planner.family, tight)

    def test_half_precision_is_what_the_device_has(self) -> None:
        for cluster, flag in (("4x8xV100-32GB", "--fp16"), ("4x8xA100-40GB", "--bf16")):
            planner = made("gpt-1.3b", cluster)
            given = self.arguments(megatron(candidate(planner, uniform(planner)), planner.family, planner.mesh))
            assert flag in given

    def test_t5_has_two_lengths_and_no_pipeline(self) -> None:
        planner = made("t5-3b", "8xA100-80GB")
        plan = uniform(planner, pp=1, tp=2)
        given = self.arguments(megatron(candidate(planner, plan), planner.family, planner.mesh))
        assert (given["--encoder-seq-length"], given["--decoder-seq-length"]) == ("2048", "512")
        assert (given["--max-position-embeddings"], given["--kv-channels"]) == ("2048", "128")
        with pytest.raises(PlanError, match="without pipeline stages"):
            megatron(candidate(planner, uniform(planner, pp=2, tp=2)), planner.family, planner.mesh)

    def test_interleaving_wants_whole_rounds_of_micro_batches(self) -> None:
        planner = made()
        plan = replace(uniform(planner), schedule=PipelineSchedule.INTERLEAVED, interleave=2)
        odd = replace(plan, global_batch=plan.micro_batch * 6)
        with pytest.raises(PlanError, match="6 micro-batches"):
            megatron(candidate(planner, odd), planner.family, planner.mesh)

    def test_llama_has_its_own_words(self) -> None:
        planner = made("llama-70b")
        given = self.arguments(megatron(candidate(planner, uniform(planner, tp=8)), planner.family, planner.mesh))
        assert given["--num-query-groups"] == "8"
        assert "--swiglu" in given
        assert "--untie-embeddings-and-output-weights" in given
        assert (given["--rotary-base"], given["--attention-dropout"]) == ("10000", "0.0")

    def test_mixed_degrees_are_refused_with_the_way_out(self) -> None:
        planner = made()
        plan = uniform(planner)
        other = ParallelStage.uniform(plan.stages[0].ops, tp=4, dp=2)
        mixed = replace(plan, stages=(other, *plan.stages[1:]))
        with pytest.raises(PlanError, match="--uniform"):
            megatron(candidate(planner, mixed), planner.family, planner.mesh)

    def test_other_models_are_refused(self) -> None:
        planner = made("wide-resnet-2b", "8xA100")
        plan = uniform(planner, pp=1, tp=1, micro_batch=8)
        with pytest.raises(PlanError, match="no training script for resnet"):
            megatron(candidate(planner, plan), planner.family, planner.mesh)


class TestTorchtitan:
    def written(self, plan: ParallelPlan, planner: Planner) -> Exported:
        return torchtitan(candidate(planner, plan), planner.family, planner.mesh)

    def test_degrees(self) -> None:
        planner = made("llama-8b")
        text = self.written(uniform(planner, pp=2, tp=4, zero=1), planner).text
        for field in ("tensor_parallel_degree=4", "pipeline_parallel_degree=2", "data_parallel_shard_degree=4",
                      "data_parallel_replicate_degree=1", "pipeline_parallel_schedule='1F1B'",
                      "num_pp_microbatches=16"):  # fmt: skip
            assert f"    {field},\n" in text

    def test_without_sharding_replicas_are_replicas(self) -> None:
        planner = made("llama-8b")
        text = self.written(uniform(planner, pp=1, tp=4, micro_batch=2), planner).text
        assert "data_parallel_shard_degree=1," in text
        assert "data_parallel_replicate_degree=8," in text
        assert "num_tokens_per_microbatch_per_dp_rank=8192," in text
        assert f"num_tokens_per_train_step={BATCH * 4096}," in text
        assert "pipeline_parallel_schedule" not in text

    def test_stages_name_their_modules_and_keep_the_ends_as_planned(self) -> None:
        """Left alone, torchtitan gives the first and the last stage fewer layers."""
        planner = made("llama-8b")
        for layers in ((7, 9, 9, 7), (8, 8, 8, 8)):
            text = self.written(unequal(planner, layers), planner).text
            parts = [line for line in text.splitlines() if "'layers." in line]
            assert [line.count("'layers.") for line in parts] == list(layers)
            assert "'tok_embeddings', 'layers.0'" in parts[0]
            assert "'norm', 'lm_head'" in parts[-1]

    def test_selective_recomputation_is_another_one_and_said(self) -> None:
        planner = made("llama-8b")
        written = self.written(uniform(planner, recompute=Recompute.SELECTIVE), planner)
        assert "activation_checkpoint=SelectiveAC.Config()," in written.text
        assert any("keeps attention" in note for note in written.notes)
        assert any("an iteration takes" in note for note in written.notes)

    def test_accumulated_gradients_are_priced(self) -> None:
        planner = made("llama-8b")
        written = self.written(uniform(planner, pp=1, tp=4, zero=1), planner)
        assert any("after each of 8 micro-batches" in note for note in written.notes)


class TestDeepspeed:
    def test_batches_multiply_up(self) -> None:
        planner = made()
        plan = uniform(planner, pp=1, tp=2, micro_batch=2, zero=3)
        config = json.loads(deepspeed(candidate(planner, plan), planner.family, planner.mesh).text)
        replicas = plan.stages[0].dp[0]
        steps = config["gradient_accumulation_steps"]
        assert config["train_micro_batch_size_per_gpu"] * steps * replicas == config["train_batch_size"] == BATCH
        assert config["zero_optimization"]["stage"] == 3

    def test_pipelines_shard_optimizer_state_at_most(self) -> None:
        planner = made()
        plan = replace(uniform(planner, zero=1), zero=2)
        written = deepspeed(candidate(planner, plan), planner.family, planner.mesh)
        assert json.loads(written.text)["zero_optimization"]["stage"] == 1
        assert any("ZeRO 2" in note for note in written.notes)
        assert "--pipeline-model-parallel-size 4" in written.launch

    def test_layers_are_dealt_evenly_and_the_cost_is_said(self) -> None:
        planner = made()
        written = deepspeed(candidate(planner, unequal(planner, (4, 10, 10, 8))), planner.family, planner.mesh)
        assert any("type:transformer" in note for note in written.notes)
        assert any("% less than the plan" in note for note in written.notes)

    def test_several_nodes_need_a_host_file(self) -> None:
        planner = made()
        assert "--hostfile" in deepspeed(candidate(planner, uniform(planner)), planner.family, planner.mesh).launch


def test_unknown_trainer() -> None:
    from penstock.parallel import plan_for
    from penstock.parallel.exports import export

    planned = plan_for("gpt-350m", "2xA100", batch=8, seconds=1)
    with pytest.raises(UnknownNameError, match="Did you mean 'megatron'"):
        export(planned, "megatorn")
    assert export(planned, "deepspeed", uniform=True).trainer == "deepspeed"
