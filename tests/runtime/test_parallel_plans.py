"""Plans of every kind compute what the undivided model computes: real processes, every gradient compared."""

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional

from penstock.core import ParallelPlan, ParallelStage, PipelineSchedule, PlanError, why_not_executable
from penstock.runtime.parallel import GPTShape
from penstock.runtime.parallel.check import reference, toy_shape
from penstock.runtime.parallel.chunk import must_divide

OPS = 3 + 13 * 2
MORE_OPS = 3 + 13 * 4
uniform = ParallelStage.uniform


def _plan(*stages: ParallelStage, micro_batch: int = 4, global_batch: int = 8, **more: Any) -> ParallelPlan:
    return ParallelPlan(model="gpt-toy", global_batch=global_batch, micro_batch=micro_batch, stages=stages, **more)


PLANS = {
    "one device": _plan(uniform(OPS)),
    "replicas": _plan(uniform(OPS, dp=2)),
    "tensor and replicas": _plan(uniform(OPS, tp=2, dp=2)),
    "sequence parallel, recomputed": _plan(uniform(OPS, tp=2, recompute=True), sequence_parallel=True),
    "two stages, cut inside attention": _plan(uniform(4), uniform(OPS - 4)),
    "two stages of four, cut inside the MLP": _plan(uniform(11, tp=2, dp=2), uniform(OPS - 11, tp=2, dp=2)),
    "gpipe": _plan(uniform(7), uniform(OPS - 7), micro_batch=2, schedule=PipelineSchedule.GPIPE),
    "four stages, more micro-batches than stages": _plan(*(uniform(7),) * 3, uniform(OPS - 21), micro_batch=1),
    "some operators recomputed": _plan(
        ParallelStage(
            devices=1, tp=(1,) * 14, dp=(1,) * 14, variant=(0,) * 14,
            recompute=tuple(3 <= op < 7 for op in range(14)),
        ),
        uniform(OPS - 14),
    ),
    "interleaved": _plan(
        uniform(28, dp=2), uniform(MORE_OPS - 28, dp=2), micro_batch=2, schedule=PipelineSchedule.INTERLEAVED,
        interleave=2, zero=3,
    ),
    "zero bubble": _plan(
        uniform(14, tp=2), uniform(OPS - 14, tp=2), micro_batch=2, schedule=PipelineSchedule.ZERO_BUBBLE
    ),
    "context": _plan(uniform(OPS, tp=2, context=2), context=2, sequence_parallel=True),
    "context in a pipeline": _plan(uniform(7, context=2), uniform(OPS - 7, context=2), context=2),
    "zero 1": _plan(uniform(OPS, dp=2), zero=1),
    "zero 2": _plan(uniform(OPS, dp=2), zero=2),
    "zero 3 with tensor split": _plan(uniform(OPS, tp=2, dp=2), zero=3),
    "zero 3 with context": _plan(uniform(OPS, dp=2, context=2), zero=3, context=2),
    "other tensor split, cut inside attention": _plan(uniform(4, tp=2), uniform(OPS - 4, tp=1)),
    "other number of replicas": _plan(uniform(6, dp=4), uniform(OPS - 6, dp=2)),
    "tensor to replicas and back": _plan(
        uniform(4, tp=2), uniform(9, dp=2), uniform(OPS - 13, tp=2, dp=2), micro_batch=2
    ),
    "sequence parallel to replicas": _plan(uniform(4, tp=2), uniform(OPS - 4, dp=2), sequence_parallel=True),
    "context, other split": _plan(uniform(7, tp=2, context=2), uniform(OPS - 7, dp=2, context=2), context=2),
    "zero 3, other split": _plan(uniform(14, dp=2), uniform(OPS - 14, tp=2), zero=3),
}  # fmt: skip


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """All plans in one command: importing PyTorch once is most of its time."""
    folder = tmp_path_factory.mktemp("plans")
    files = []
    for number, plan in enumerate(PLANS.values()):
        files.append(folder / f"{number}.json")
        files[-1].write_text(json.dumps(plan.to_mapping()))
    done = subprocess.run(
        [sys.executable, "-m", "penstock.runtime.parallel.check", *map(str, files)],
        check=False, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == len(PLANS), done.stderr[-2000:]
    return dict(zip(PLANS, lines, strict=True))


@pytest.mark.parametrize("name", PLANS)
def test_loss_and_gradients_equal_the_undivided_model(name: str, verdicts: dict[str, dict[str, Any]]) -> None:
    assert why_not_executable(PLANS[name]) is None
    assert verdicts[name]["equal"], verdicts[name]


def test_the_chain_is_a_gpt() -> None:
    """The undivided chain against the same weights in the usual way of writing a transformer."""
    shape = GPTShape(layers=2, hidden=32, heads=4, vocabulary=48, sequence=16)
    tokens = torch.randint(0, 48, (3, 16), generator=torch.Generator().manual_seed(0))
    loss, chain = reference(shape, tokens, tokens)
    weights = [dict(op.named_parameters()) for op in chain.operators]
    x = functional.embedding(tokens, weights[0]["tokens.weight"]) + weights[0]["places.weight"]
    for layer in range(2):
        ops = weights[1 + 13 * layer :]
        h = functional.layer_norm(x, (32,), ops[0]["norm.weight"], ops[0]["norm.bias"])
        qkv = functional.linear(h, ops[1]["linear.weight"], ops[1]["linear.bias"]).view(3, 16, 4, 3, 8)
        q, k, v = (qkv[:, :, :, part].transpose(1, 2) for part in range(3))
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(3, 16, 32)
        x = x + functional.linear(attended, ops[6]["linear.weight"], ops[6]["linear.bias"])
        h = functional.layer_norm(x, (32,), ops[8]["norm.weight"], ops[8]["norm.bias"])
        h = functional.gelu(functional.linear(h, ops[9]["linear.weight"], ops[9]["linear.bias"]))
        x = x + functional.linear(h, ops[11]["linear.weight"], ops[11]["linear.bias"])
    x = functional.layer_norm(x, (32,), weights[-2]["norm.weight"], weights[-2]["norm.bias"])
    logits = functional.linear(x, weights[-1]["linear.weight"])
    assert functional.cross_entropy(logits.flatten(0, 1), tokens.flatten()).item() == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (_plan(uniform(OPS + 1)), "only the GPT family"),
        (replace(_plan(uniform(OPS)), model="t5-3b"), "only the GPT family"),
        (_plan(ParallelStage(devices=2, tp=(1, *(2,) * (OPS - 1)), dp=(2, *(1,) * (OPS - 1)),
                             recompute=(False,) * OPS, variant=(0,) * OPS)), "split in different ways"),
        (_plan(ParallelStage(devices=1, tp=(1,) * OPS, dp=(1,) * OPS, recompute=(False,) * OPS,
                             variant=(1, *(0,) * (OPS - 1)))), "column and row"),
        (_plan(uniform(7, tp=2), uniform(OPS - 7, dp=2), schedule=PipelineSchedule.ZERO_BUBBLE), "same tp and dp"),
        (_plan(uniform(7), uniform(OPS - 7), interleave=2), "interleaved schedule"),
        (_plan(uniform(7), uniform(OPS - 7), schedule=PipelineSchedule.INTERLEAVED, interleave=2), "2 layers"),
        (_plan(uniform(7, dp=2), uniform(OPS - 7, dp=2), schedule=PipelineSchedule.ZERO_BUBBLE, zero=3), "ZeRO"),
    ],
)  # fmt: skip
def test_what_cannot_run_says_why(plan: ParallelPlan, reason: str) -> None:
    assert reason in (why_not_executable(plan) or "")


def test_sizes_that_cannot_be_divided_are_refused() -> None:
    plan = _plan(uniform(OPS, tp=4))
    must_divide(plan, toy_shape(plan))
    with pytest.raises(PlanError, match=r"splits tensors 4 ways.*heads"):
        must_divide(plan, GPTShape(layers=2, hidden=36, heads=6, vocabulary=64, sequence=16))
