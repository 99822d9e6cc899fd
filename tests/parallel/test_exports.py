"""Plans in the words of trainers: read back with their own rules, refused where they cannot be said."""

import json
import shlex
import tomllib
from dataclasses import replace
from itertools import pairwise

import pytest

from penstock.core import ParallelPlan, ParallelStage, PipelineSchedule, PlanError, UnknownNameError
from penstock.parallel import Candidate, Planner, family_named, mesh_named
from penstock.parallel.exports import deepspeed, megatron, torchtitan
from penstock.parallel.exports.common import Exported
from penstock.parallel.planning.uniform_plans import Degrees, Recompute, plan_of

BATCH = 64


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
    """A plan whose stages hold these layers, all but the first border moved ``shift`` operators into a layer."""
    plan = uniform(planner, pp=len(layers))
    chain, cuts, done = planner.family.chain(), [0], 0
    starts = [i for i, flag in enumerate(chain.starts_layer.tolist()) if flag]
    for count in layers[:-1]:
        done += count
        cuts.append(starts[done] + shift)
    cuts.append(chain.size)
    stage = plan.stages[0]
    stages = tuple(ParallelStage.uniform(b - a, tp=stage.tp[0], dp=stage.dp[0]) for a, b in pairwise(cuts))
    return replace(plan, stages=stages)


class TestMegatron:
    def arguments(self, written: Exported) -> dict[str, str]:
        words = [shlex.split(line) for line in written.text.splitlines()]
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
        assert self.arguments(written)["--pipeline-model-parallel-layout"] == "Et*7|t*9|t*9|t*7L"
        assert written.notes == ()

    def test_cuts_inside_layers_are_rounded_and_said(self) -> None:
        planner = made()
        written = megatron(candidate(planner, unequal(planner, (7, 9, 9, 7), shift=2)), planner.family, planner.mesh)
        assert self.arguments(written)["--pipeline-model-parallel-layout"] == "Et*7|t*9|t*9|t*7L"
        assert any("nearest whole layers" in note for note in written.notes)

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

    def test_llama_has_its_own_words(self) -> None:
        planner = made("llama-70b")
        given = self.arguments(megatron(candidate(planner, uniform(planner, tp=8)), planner.family, planner.mesh))
        assert given["--num-query-groups"] == "8"
        assert "--swiglu" in given
        assert "--untie-embeddings-and-output-weights" in given

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
    def read(self, plan: ParallelPlan, planner: Planner) -> dict[str, dict[str, object]]:
        return tomllib.loads(torchtitan(candidate(planner, plan), planner.family, planner.mesh).text)

    def test_degrees(self) -> None:
        planner = made("llama-8b")
        given = self.read(uniform(planner, pp=2, tp=4, zero=1), planner)["parallelism"]
        assert given["tensor_parallel_degree"] == 4
        assert given["pipeline_parallel_degree"] == 2
        assert (given["data_parallel_shard_degree"], given["data_parallel_replicate_degree"]) == (4, 1)
        assert given["pipeline_parallel_schedule"] == "1F1B"

    def test_without_sharding_replicas_are_replicas(self) -> None:
        planner = made("llama-8b")
        given = self.read(uniform(planner, pp=1, tp=4), planner)["parallelism"]
        assert (given["data_parallel_shard_degree"], given["data_parallel_replicate_degree"]) == (1, 8)
        training = self.read(uniform(planner, pp=1, tp=4, micro_batch=2), planner)["training"]
        assert (training["local_batch_size"], training["global_batch_size"]) == (2, BATCH)
        assert "pipeline_parallel_schedule" not in given

    def test_unequal_stages_name_their_modules(self) -> None:
        planner = made("llama-8b")
        parts = self.read(unequal(planner, (7, 9, 9, 7)), planner)["parallelism"]["module_fqns_per_model_part"]
        assert isinstance(parts, list)
        assert [len(part) for part in parts] == [8, 9, 9, 9]
        assert (parts[0][0], parts[-1][-1]) == ("tok_embeddings", "output")

    def test_recomputation_mode(self) -> None:
        planner = made("llama-8b")
        given = self.read(uniform(planner, recompute=Recompute.FULL), planner)
        assert given["activation_checkpoint"]["mode"] == "full"

    def test_only_llama(self) -> None:
        planner = made()
        with pytest.raises(PlanError, match="Llama-style"):
            torchtitan(candidate(planner, uniform(planner)), planner.family, planner.mesh)


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


def test_unknown_trainer() -> None:
    from penstock.parallel import plan_for
    from penstock.parallel.exports import export

    planned = plan_for("gpt-350m", "2xA100", batch=8, seconds=1)
    with pytest.raises(UnknownNameError, match="Did you mean 'megatron'"):
        export(planned, "megatorn")
    assert export(planned, "deepspeed", uniform=True).trainer == "deepspeed"
