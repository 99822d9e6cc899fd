"""This process's part of a planned model, and a training step of it."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from penstock.core import (
    ParallelPlan,
    PipelineSchedule,
    PlanError,
    evenly_split,
    first_operator,
    gpt_layers,
    why_not_executable,
)
from penstock.runtime.parallel.chunk import ModelChunk, must_divide, split_tensors
from penstock.runtime.parallel.gpt import Context, GPTShape, operators
from penstock.runtime.parallel.pipelines import PipelineRunner, pipeline_for
from penstock.runtime.parallel.process_layout import CONTEXT, REPLICAS, ProcessLayout

_SHARDED = 2
"""From this ZeRO stage on, FSDP2 holds the weights and reduces their gradients."""


@dataclass(slots=True)
class PlannedModel:
    """What one process holds of a planned model."""

    shape: GPTShape
    layout: ProcessLayout
    chunks: list[ModelChunk]
    pipeline: PipelineRunner

    def parameters(self) -> list[nn.Parameter]:
        return [parameter for chunk in self.chunks for parameter in chunk.parameters()]

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Every parameter this process has a part of, by a name that is the same under every plan."""
        for chunk in self.chunks:
            yield from chunk.named_by_position()

    def step(self, tokens: Tensor, targets: Tensor) -> Tensor | None:
        """Gradients of the mean loss of a global batch (samples x sequence), the same on every process.

        Returns the loss on the processes of the last stage, ``None`` on the others.
        """
        loss = self.pipeline.run(self._share(tokens), self._share(targets))
        if self.layout.plan.zero < _SHARDED:
            self._average_gradients()
        if loss is not None:
            dist.all_reduce(loss, group=self.layout.weight_group)
            loss /= dist.get_world_size(self.layout.weight_group)
        return loss

    def _share(self, batch: Tensor) -> list[Tensor]:
        """This process's samples and part of the sequence, per micro-batch."""
        plan, place = self.layout.plan, self.layout.place
        mine = self.layout.samples(place.stage, place.replica)
        places = self.layout.positions(batch.shape[1])
        parts = torch.split(batch.to(self.layout.device), plan.micro_batch)
        return [part[mine.start : mine.stop][:, places] for part in parts]

    def _average_gradients(self) -> None:
        others = dist.get_world_size(self.layout.weight_group)
        for parameter in self.parameters():
            local = local_gradient(parameter)
            if local is not None and others > 1:
                dist.all_reduce(local, group=self.layout.weight_group)
                local /= others


def build(plan: ParallelPlan, shape: GPTShape, *, seed: int = 0, device: torch.device | None = None) -> PlannedModel:
    """This process's part of the planned GPT, with weights drawn from ``seed``; every process of the group calls it."""
    if reason := why_not_executable(plan):
        raise PlanError(f"this plan cannot be run: {reason}", "a plan that is not export only", "Export it")
    if gpt_layers(plan.ops) != shape.layers:
        raise PlanError(f"a plan for {gpt_layers(plan.ops)} layers and a model of {shape.layers}", "the same number")
    must_divide(plan, shape)
    layout = ProcessLayout(plan, device or torch.device("cpu"))
    chunks = _chunks(layout, shape, seed)
    return PlannedModel(shape, layout, chunks, pipeline_for(layout, chunks, mean_loss, evenly_split(plan)))


def local_gradient(parameter: nn.Parameter) -> Tensor | None:
    """The gradient of the slice of a parameter this process holds, placed as the parameter is."""
    grad = parameter.grad
    if isinstance(grad, DTensor) and isinstance(parameter.data, DTensor):
        if grad.placements != parameter.data.placements:
            grad = parameter.grad = grad.redistribute(placements=parameter.data.placements)
        return grad.to_local()
    return grad


def _chunks(layout: ProcessLayout, shape: GPTShape, seed: int) -> list[ModelChunk]:
    context = Context(layout.positions(shape.sequence), layout.context_group)
    ranges = _ranges(layout.plan, layout.place.stage)
    return [_chunk(layout, shape, context, first, last, seed) for first, last in ranges]


def _chunk(layout: ProcessLayout, shape: GPTShape, context: Context, first: int, last: int, seed: int) -> ModelChunk:
    plan = layout.plan
    flags = [flag for stage in plan.stages for flag in stage.recompute]
    chunk = ModelChunk(operators(shape, context, first, last, seed), tuple(flags[first:last]), first, shape)
    chunk.to(layout.device)
    split_tensors(chunk, layout.tp_mesh, plan.sequence_parallel)
    if plan.zero >= _SHARDED:
        weights = layout.mesh[REPLICAS, CONTEXT]._flatten() if plan.context > 1 else layout.mesh[REPLICAS]
        for operator in chunk.operators:
            if any(True for _ in operator.parameters()):
                fully_shard(operator, mesh=weights, reshard_after_forward=plan.zero > _SHARDED)
        fully_shard(chunk, mesh=weights, reshard_after_forward=plan.zero > _SHARDED)
    return chunk


def _ranges(plan: ParallelPlan, stage: int) -> list[tuple[int, int]]:
    """The operators one stage holds; interleaved, several evenly spaced runs of whole layers."""
    if plan.schedule is not PipelineSchedule.INTERLEAVED or plan.interleave == 1:
        return [(plan.cuts[stage], plan.cuts[stage + 1])]
    pieces = len(plan.stages) * plan.interleave
    layers = gpt_layers(plan.ops)
    borders = [0, *(first_operator(layers * piece // pieces) for piece in range(1, pieces)), plan.ops]
    return [(borders[piece], borders[piece + 1]) for piece in range(stage, pieces, len(plan.stages))]


def mean_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy per token."""
    return nn.functional.cross_entropy(logits.flatten(0, -2).float(), targets.flatten())
