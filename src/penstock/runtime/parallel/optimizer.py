"""The optimizer of a planned model; under ZeRO stage 1 each process keeps the state of a share of the weights only."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor

from penstock.runtime.parallel.planned import PlannedModel

MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


class PlannedOptimizer:
    """Steps every weight once, whoever keeps its state."""

    def __init__(self, model: PlannedModel, make: MakeOptimizer) -> None:
        self._model = model
        self._group = model.layout.weight_group
        shares = dist.get_world_size(self._group) if model.layout.plan.zero == 1 else 1
        self._owners = _dealt(model.parameters(), shares)
        me = dist.get_rank(self._group) if shares > 1 else 0
        mine = [p for p, owner in zip(model.parameters(), self._owners, strict=True) if owner == me]
        self._inner = make(mine) if mine else None
        self._is_sharded = shares > 1
        self.before_step: Callable[[], None] = lambda: None
        """Called when weights are about to change."""

    def step(self) -> None:
        self.before_step()
        if self._inner is not None:
            self._inner.step()
        if self._is_sharded:
            self._share_updates()
        self.zero_grad()

    def state_of(self, parameter: nn.Parameter) -> dict[str, Any] | None:
        """The optimizer's state of a weight, where this process keeps it."""
        return None if self._inner is None else self._inner.state.get(parameter)

    def restore(self, parameter: nn.Parameter, state: dict[str, Any]) -> None:
        """Take over saved state of a weight; nothing to do for weights whose state others keep."""
        if self._inner is not None and self.keeps(parameter):
            self._inner.state[parameter] = state

    def keeps(self, parameter: nn.Parameter) -> bool:
        """Whether the state of a weight is this process's to keep."""
        return self._inner is not None and any(
            parameter is mine for group in self._inner.param_groups for mine in group["params"]
        )

    def options(self) -> list[dict[str, Any]]:
        """Learning rates and the like, by group of weights."""
        groups = self._inner.param_groups if self._inner is not None else []
        return [{key: value for key, value in group.items() if key != "params"} for group in groups]

    def zero_grad(self) -> None:
        for parameter in self._model.parameters():
            parameter.grad = None

    def _share_updates(self) -> None:
        for parameter, owner in zip(self._model.parameters(), self._owners, strict=True):
            held = parameter.data
            local = held.to_local() if isinstance(held, DTensor) else held
            dist.broadcast(local, group=self._group, group_src=owner)


def _dealt(parameters: list[nn.Parameter], shares: int) -> list[int]:
    """An owner for each parameter, the largest first to whoever has least, so that all keep about as much."""
    held, owners = [0] * shares, [0] * len(parameters)
    for index in sorted(range(len(parameters)), key=lambda i: -parameters[i].numel()):
        owners[index] = held.index(min(held))
        held[owners[index]] += parameters[index].numel()
    return owners
