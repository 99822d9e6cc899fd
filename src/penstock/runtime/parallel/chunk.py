"""The operators of one stage on one process: tensor-parallel, recomputed where the plan says so."""

from collections.abc import Iterator
from itertools import groupby
from typing import cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.utils.checkpoint import checkpoint

from penstock.core import ParallelPlan, PlanError, starts_gpt_layer
from penstock.runtime.parallel.gpt import (
    FEATURES,
    SEQUENCE,
    Context,
    Embedding,
    FinalNorm,
    GPTShape,
    Head,
    Norm,
    Operator,
    Project,
    QueryKeyValue,
    operators,
)


class ModelChunk(nn.Module):
    """A run of the chain as one module."""

    def __init__(self, operators: list[Operator], recompute: tuple[bool, ...], first: int, shape: GPTShape) -> None:
        super().__init__()
        self.operators = nn.ModuleList(operators)
        self.first = first
        self._runs = _runs(recompute, first, shape)

    def forward(self, *state: Tensor) -> Tensor | tuple[Tensor, ...]:
        for again, start, stop in self._runs:
            state = checkpoint(self._through, start, stop, *state, use_reentrant=False) if again else (
                self._through(start, stop, *state))  # fmt: skip
        return state if len(state) > 1 else state[0]

    def _through(self, start: int, stop: int, *state: Tensor) -> tuple[Tensor, ...]:
        for operator in self.operators[start:stop]:
            state = operator(*state)
        return state

    def named_by_position(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Parameters with the position of their operator in the whole chain as part of their name."""
        for offset, operator in enumerate(self.operators):
            for name, parameter in operator.named_parameters():
                yield f"{self.first + offset}.{name}", parameter

    def handed_on(self, sequence_parallel: bool) -> tuple[int | None, ...]:
        """Along which dimension tensor parallelism divides each tensor that leaves the chunk."""
        sequence = 1 if sequence_parallel else None
        splits = cast("Operator", self.operators[-1]).splits
        return tuple(sequence if split == SEQUENCE else split for split in splits)


def undivided(shape: GPTShape, *, seed: int = 0) -> ModelChunk:
    """The whole model in one process, with the weights that every plan draws from the same seed."""
    chain = operators(shape, Context(torch.arange(shape.sequence)), seed=seed)
    return ModelChunk(chain, (False,) * len(chain), 0, shape)


def split_tensors(chunk: ModelChunk, mesh: DeviceMesh, sequence_parallel: bool) -> None:
    """Apply tensor parallelism, with PyTorch's own styles; the operators go on seeing plain local tensors."""
    if mesh.size() == 1:
        return
    for operator in chunk.operators:
        for name, style in _styles(cast("Operator", operator), sequence_parallel).items():
            parallelize_module(operator, mesh, {name: style})


def must_divide(plan: ParallelPlan, shape: GPTShape) -> None:
    """Refuse a model whose sizes cannot be divided as the plan wants."""
    for number, stage in enumerate(plan.stages):
        tp = stage.tp[0]
        odd = {name: size for name, size in (("heads", shape.heads), ("vocabulary", shape.vocabulary)) if size % tp}
        if plan.sequence_parallel and (shape.sequence // plan.context) % tp:
            odd["sequence"] = shape.sequence
        if odd:
            raise PlanError(f"stage {number} splits tensors {tp} ways, but {odd}", f"sizes divisible by {tp}")


def _runs(recompute: tuple[bool, ...], first: int, shape: GPTShape) -> list[tuple[bool, int, int]]:
    """(recompute, start, stop) of runs alike; a recomputed run ends where a layer starts, whose input is kept."""
    layer, keys = 0, []
    for offset, again in enumerate(recompute):
        layer += starts_gpt_layer(first + offset, shape.layers)
        keys.append((again, layer if again else None))
    runs, start = [], 0
    for (again, _), members in groupby(keys):
        stop = start + sum(1 for _ in members)
        runs.append((again, start, stop))
        start = stop
    return runs


def _styles(operator: Operator, sequence_parallel: bool) -> dict[str, ParallelStyle]:
    outside = Shard(1) if sequence_parallel else Replicate()
    match operator:
        case Embedding():
            style = RowwiseParallel(input_layouts=Replicate(), output_layouts=outside)
            return {"tokens": style, "places": style}
        case Norm() | FinalNorm():
            return {"norm": SequenceParallel(use_local_output=True)} if sequence_parallel else {}
        case QueryKeyValue():
            return {"linear": ColwiseParallel(input_layouts=outside)}
        case Project() if operator.splits[0] == FEATURES:
            return {"linear": ColwiseParallel(input_layouts=outside)}
        case Project():
            return {"linear": RowwiseParallel(output_layouts=outside)}
        case Head():
            return {"linear": ColwiseParallel(input_layouts=outside, output_layouts=Replicate())}
        case _:
            return {}
