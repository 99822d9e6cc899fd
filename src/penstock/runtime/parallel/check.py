"""Does a planned model compute what the undivided one computes?

``python -m penstock.runtime.parallel.check PLAN.json …`` starts one CPU process per planned device, runs one training
step of a toy GPT under each plan, and compares the loss and every gradient with those of the undivided model in one
process. One line of JSON per plan; exit code 1 if a plan deviates.
"""

import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

from penstock.core import InputError, ParallelPlan, gpt_layers, why_not_executable
from penstock.runtime.parallel.chunk import ModelChunk, undivided
from penstock.runtime.parallel.gpt import GPTShape
from penstock.runtime.parallel.planned import PlannedModel, build, mean_loss

TOLERANCE = 1e-4
_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class CheckResult:
    """How far a planned step is from the undivided one, relative to its largest gradient."""

    plan: str
    devices: int
    loss: float
    loss_error: float
    gradient_error: float
    problem: str = ""

    @property
    def equal(self) -> bool:
        return not self.problem and max(self.loss_error, self.gradient_error) < TOLERANCE


def toy_shape(plan: ParallelPlan) -> GPTShape:
    """A GPT with the planned number of layers, small in every other way, that the plan can divide."""
    widest = max(stage.tp[0] for stage in plan.stages)
    return GPTShape(
        layers=gpt_layers(plan.ops), hidden=8 * max(4, widest), heads=max(4, widest), vocabulary=16 * widest,
        sequence=2 * plan.context * max(4, widest),
    )  # fmt: skip


def check(plan: ParallelPlan, shape: GPTShape | None = None) -> CheckResult:
    """Run one step of the plan in processes of its own; call it where no process group exists."""
    shape = shape or toy_shape(plan)
    name = _label(plan)
    with tempfile.TemporaryDirectory() as folder:
        fork = multiprocessing.get_context("fork")
        workers = [fork.Process(target=_work, args=(plan, shape, rank, folder)) for rank in range(plan.devices)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(_PATIENCE_S)
        stuck = [rank for rank, worker in enumerate(workers) if worker.exitcode is None]
        for rank in stuck:
            workers[rank].kill()
            workers[rank].join()
        return _verdict(name, plan, Path(folder), stuck)


def reference(shape: GPTShape, tokens: Tensor, targets: Tensor, seed: int = 0) -> tuple[float, ModelChunk]:
    """Loss and gradients of the undivided model."""
    whole = undivided(shape, seed=seed)
    loss = mean_loss(whole(tokens), targets)
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.item(), whole


def batch_for(plan: ParallelPlan, shape: GPTShape) -> tuple[Tensor, Tensor]:
    """The same random samples in every process."""
    generator = torch.Generator().manual_seed(1234)
    drawn = torch.randint(0, shape.vocabulary, (plan.global_batch, shape.sequence + 1), generator=generator)
    return drawn[:, :-1].contiguous(), drawn[:, 1:].contiguous()


def _work(plan: ParallelPlan, shape: GPTShape, rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=plan.devices)
        found = _compared(plan, shape)
    except Exception as error:
        found = {"problem": f"{type(error).__name__}: {error}"}
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    os._exit(0)


def _compared(plan: ParallelPlan, shape: GPTShape) -> dict[str, float | str]:
    tokens, targets = batch_for(plan, shape)
    model = build(plan, shape)
    loss = model.step(tokens, targets)
    expected, whole = reference(shape, tokens, targets)
    worst = _gradient_error(model, whole)
    dist.barrier()
    return {
        "loss": expected,
        "loss_error": 0.0 if loss is None else abs(loss.item() - expected) / abs(expected),
        "gradient_error": worst,
    }


def _gradient_error(model: PlannedModel, whole: ModelChunk) -> float:
    scale = max(p.grad.abs().max().item() for p in whole.parameters() if p.grad is not None)
    worst = 0.0
    for chunk in model.chunks:
        for offset, operator in enumerate(chunk.operators):
            right = dict(whole.operators[chunk.first + offset].named_parameters())
            for name, parameter in operator.named_parameters():
                grad = parameter.grad
                if grad is None or right[name].grad is None:
                    return float("inf")
                full = grad.full_tensor() if isinstance(grad, DTensor) else grad
                worst = max(worst, (full - right[name].grad).abs().max().item() / scale)  # type: ignore[operator]
    return worst


def _verdict(name: str, plan: ParallelPlan, folder: Path, stuck: Iterable[int]) -> CheckResult:
    told = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    problems = [found["problem"] for found in told if "problem" in found]
    if not problems and len(told) < plan.devices:
        problems = [f"processes {sorted(stuck)} did not finish within {_PATIENCE_S:.0f} s"]
    if problems:
        return CheckResult(name, plan.devices, 0.0, float("inf"), float("inf"), problems[0])
    return CheckResult(
        name, plan.devices, told[0]["loss"], max(found["loss_error"] for found in told),
        max(found["gradient_error"] for found in told),
    )  # fmt: skip


def _label(plan: ParallelPlan) -> str:
    stages = " | ".join(f"tp{stage.tp[0]} dp{stage.dp[0]}" for stage in plan.stages)
    extras = (
        plan.schedule.value,
        f"{plan.interleave} chunks" if plan.interleave > 1 else "",
        f"zero {plan.zero}" if plan.zero else "",
        f"context {plan.context}" if plan.context > 1 else "",
        "sequence parallel" if plan.sequence_parallel else "",
    )
    return f"{stages} ({', '.join(filter(None, extras))})"


def main(files: list[str]) -> int:
    try:
        plans = [_read(file) for file in files]
    except InputError as problem:
        print(problem, file=sys.stderr)
        return 2
    verdicts = [check(plan) for plan in plans]
    for verdict in verdicts:
        print(json.dumps({**asdict(verdict), "equal": verdict.equal}), flush=True)
    return 0 if all(verdict.equal for verdict in verdicts) else 1


def _read(file: str) -> ParallelPlan:
    """A plan, alone or inside what ``penstock plan --json`` prints, that can be run here."""
    try:
        value = json.loads(Path(file).read_text())
        plan = ParallelPlan.from_mapping(value.get("plan", value))
    except (OSError, ValueError, AttributeError) as problem:
        raise InputError(f"no plan in {file}: {problem}", "what `penstock plan --json` prints") from problem
    reason = why_not_executable(plan)
    if reason:
        raise InputError(f"{file} cannot be run here: {reason}", "a plan that is not export only")
    return plan


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
