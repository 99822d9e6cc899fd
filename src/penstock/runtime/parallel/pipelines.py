"""Running the micro-batches through the stages.

Plans whose stages are all split alike use PyTorch's own schedules; others cross between differently split stages
(:mod:`~penstock.runtime.parallel.crossing`) in the same 1F1B or GPipe order.
"""

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
)

from penstock.core import ParallelPlan, PipelineSchedule
from penstock.runtime.parallel.chunk import ModelChunk
from penstock.runtime.parallel.crossing import Crossing, Splits
from penstock.runtime.parallel.process_layout import ProcessLayout
from penstock.runtime.value_messages import gather_values

Loss = Callable[[Tensor, Tensor], Tensor]


class PipelineRunner(Protocol):
    """One training step's forward and backward passes."""

    def run(self, tokens: list[Tensor], targets: list[Tensor]) -> Tensor | None:
        """Gradients of the mean loss over the micro-batches; the loss itself on the last stage."""
        ...


class AlikePipeline:
    """Every stage is split the same way: PyTorch's schedules as they are."""

    def __init__(self, layout: ProcessLayout, chunks: list[ModelChunk], loss: Loss) -> None:
        plan, stages = layout.plan, len(layout.plan.stages)
        group = layout.pipeline_group()
        parts = [
            PipelineStage(chunk, layout.place.stage + stages * turn, stages * len(chunks), layout.device, group=group)
            for turn, chunk in enumerate(chunks)
        ]
        self._schedule = _schedule(plan, parts, loss)
        self._first = layout.place.stage == 0
        self._last = layout.place.stage == stages - 1

    def run(self, tokens: list[Tensor], targets: list[Tensor]) -> Tensor | None:
        losses: list[Tensor] = []
        inputs = (torch.cat(tokens),) if self._first else ()
        target = torch.cat(targets) if self._last else None
        self._schedule.step(*inputs, target=target, losses=losses if self._last else None, return_outputs=False)
        return torch.stack(losses).mean().detach() if self._last else None


class SinglePipeline:
    """One stage: micro-batches one after the other, gradients added up."""

    def __init__(self, chunk: ModelChunk, loss: Loss) -> None:
        self._chunk, self._loss = chunk, loss

    def run(self, tokens: list[Tensor], targets: list[Tensor]) -> Tensor | None:
        total = torch.zeros((), device=tokens[0].device)
        for number, (inputs, target) in enumerate(zip(tokens, targets, strict=True)):
            _syncs(self._chunk, number == len(tokens) - 1)
            loss = self._loss(self._chunk(inputs), target) / len(tokens)
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        return total


class BridgedPipeline:
    """Stages split in different ways, with a crossing between each pair."""

    def __init__(self, layout: ProcessLayout, chunk: ModelChunk, loss: Loss) -> None:
        self._layout, self._chunk, self._loss = layout, chunk, loss
        stage, last = layout.place.stage, len(layout.plan.stages) - 1
        forward, backward = dist.new_group(), dist.new_group()
        before, after = stage - 1, stage + 1
        self._taken = Crossing(layout, before, forward, outgoing=False) if stage > 0 else None
        self._given = Crossing(layout, after, forward, outgoing=True) if stage < last else None
        self._grads_out = Crossing(layout, before, backward, outgoing=True) if stage > 0 else None
        self._grads_in = Crossing(layout, after, backward, outgoing=False) if stage < last else None
        self._leaving = chunk.handed_on(layout.plan.sequence_parallel)
        self._coming = _told_by_neighbours(layout, self._leaving)
        self._rescale = layout.replicas(before) / layout.replicas(stage) if stage > 0 else 1.0
        """Each stage averages over its own replicas; gradients carry the difference across the border."""

    def run(self, tokens: list[Tensor], targets: list[Tensor]) -> Tensor | None:
        count = self._layout.plan.micro_batches
        total = torch.zeros((), device=self._layout.device)
        pending: deque[tuple[list[Tensor], tuple[Tensor, ...]]] = deque()
        done = 0
        for forward in _order(self._layout.plan, self._layout.place.stage):
            if forward:
                pending.append(self._forward(tokens, targets, count, done + len(pending), total))
            else:
                done += 1
                self._backward(*pending.popleft(), is_last=done == count)
        for crossing in (self._given, self._grads_out):
            if crossing is not None:
                crossing.settle()
        return total if self._given is None else None

    def _forward(
        self, tokens: list[Tensor], targets: list[Tensor], count: int, number: int, total: Tensor
    ) -> tuple[list[Tensor], tuple[Tensor, ...]]:
        if self._taken is None:
            inputs = [tokens[number]]
        else:
            inputs = [tensor.requires_grad_() for tensor in self._taken.receive(self._coming)]
        made = self._chunk(*inputs)
        outputs = made if isinstance(made, tuple) else (made,)
        if self._given is not None:
            self._given.send([tensor.detach() for tensor in outputs], self._leaving)
            return inputs, outputs
        loss = self._loss(outputs[0], targets[number]) / count
        total += loss.detach()
        return inputs, (loss,)

    def _backward(self, inputs: list[Tensor], outputs: tuple[Tensor, ...], *, is_last: bool) -> None:
        grads = None if self._grads_in is None else self._grads_in.receive(self._leaving)
        _syncs(self._chunk, is_last)
        torch.autograd.backward(outputs, grads)
        if self._grads_out is not None:
            self._grads_out.send([_gradient(tensor) * self._rescale for tensor in inputs], self._coming)


def pipeline_for(layout: ProcessLayout, chunks: list[ModelChunk], loss: Loss, alike: bool) -> PipelineRunner:
    """The runner a plan needs."""
    if len(layout.plan.stages) == 1 and len(chunks) == 1:
        return SinglePipeline(chunks[0], loss)
    return AlikePipeline(layout, chunks, loss) if alike else BridgedPipeline(layout, chunks[0], loss)


def _schedule(plan: ParallelPlan, parts: list[Any], loss: Loss) -> Any:
    match plan.schedule:
        case PipelineSchedule.GPIPE:
            return ScheduleGPipe(parts[0], plan.micro_batches, loss)
        case PipelineSchedule.ONE_F_ONE_B:
            return Schedule1F1B(parts[0], plan.micro_batches, loss)
        case PipelineSchedule.INTERLEAVED:
            return ScheduleInterleaved1F1B(parts, plan.micro_batches, loss)
        case PipelineSchedule.ZERO_BUBBLE:
            return ScheduleInterleavedZeroBubble(parts, plan.micro_batches, loss)


def _order(plan: ParallelPlan, stage: int) -> list[bool]:
    """Forward (true) and backward passes of one stage, each taking the micro-batches in order."""
    count = plan.micro_batches
    ahead = count if plan.schedule is PipelineSchedule.GPIPE else min(count, len(plan.stages) - stage)
    steady = [step for _ in range(count - ahead) for step in (False, True)]
    return [True] * ahead + steady + [False] * ahead


def _told_by_neighbours(layout: ProcessLayout, leaving: Splits) -> Splits:
    """How the tensors that arrive here are divided: the previous stage knows."""
    told: list[Splits] = gather_values(leaving, dist.group.WORLD)
    borders = {later: told[first] for first, later in pairwise(layout.first_ranks)}
    return borders.get(layout.first_ranks[layout.place.stage], ())


def _syncs(chunk: nn.Module, wanted: bool) -> None:
    """Sharded weights reduce their gradients once, with the last micro-batch."""
    if isinstance(chunk, FSDPModule):
        chunk.set_requires_gradient_sync(wanted)


def _gradient(tensor: Tensor) -> Tensor:
    return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
