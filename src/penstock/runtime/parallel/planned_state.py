"""The state of a planned model as checkpoints know it: every tensor by a name that is the same under every plan.

A run that gets more or fewer devices goes on under another plan: other stages, other splits, other owners of optimizer
state. So a checkpoint says which box of which whole tensor each process wrote, and reading takes what the new plan
needs here. The names are those of the undivided model (:func:`~penstock.runtime.parallel.chunk.undivided`): what a plan
has saved, :mod:`penstock.elastic` goes on from with one worker, with DDP or with FSDP2, and the other way round.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from penstock.runtime.checkpoints.state import Snapshot, TensorSpec, mismatch
from penstock.runtime.parallel.optimizer import PlannedOptimizer
from penstock.runtime.parallel.planned import PlannedModel

_NAME = "operators"
"""What the undivided model calls its chain."""


class PlannedState:
    """What one process holds of a planned model and its optimizer, taken apart and put together again."""

    def __init__(self, model: PlannedModel, optimizer: PlannedOptimizer) -> None:
        self._model = model
        self._optimizer = optimizer

    @property
    def sharded(self) -> bool:
        """Every process writes its own part, whatever it is."""
        return True

    def call_before_updates(self, hook: Callable[[], None]) -> None:
        self._optimizer.before_step = hook

    def capture(self, step: int) -> Snapshot:
        tensors: dict[str, Tensor] = {}
        for name, parameter in self._parameters().items():
            tensors[f"model/model/{name}"] = parameter.detach()
            for what, value in (self._optimizer.state_of(parameter) or {}).items():
                if isinstance(value, Tensor):
                    tensors[f"optimizer/optimizer/model.{name}/{what}"] = value
        groups = {"optimizer": self._optimizer.options()}
        extras: dict[str, Any] = {"values": {}, "groups": groups, "parts": {}}
        return Snapshot(step=step, tensors=tensors, extras=extras, updated=frozenset(tensors))

    def room_for(self, specs: list[TensorSpec]) -> dict[str, Tensor]:
        """Tensors to receive into: of all that was saved, what this process has a part of."""
        parameters, room = self._parameters(), {}
        for spec in specs:
            kind, _, rest = spec.key.split("/", 2)
            name, what = (rest, "") if kind == "model" else rest.removeprefix("model.").rsplit("/", 1)
            parameter = parameters.get(name)
            if parameter is not None and (not what or self._optimizer.keeps(parameter)):
                room[spec.key] = _room(spec, parameter, is_weight=not what)
        missing = [name for name in parameters if f"model/model/{name}" not in room]
        if missing:
            raise mismatch(f"model/model/{missing[0]}", "the state that was saved has no such tensor")
        return room

    def restore(self, tensors: dict[str, Tensor], extras: dict[str, Any]) -> None:  # noqa: ARG002 (rates are the flags')
        """Take over optimizer state; weights were received in place."""
        for name, parameter in self._parameters().items():
            prefix = f"optimizer/optimizer/model.{name}/"
            state = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
            if state:
                self._optimizer.restore(parameter, state)

    def _parameters(self) -> dict[str, nn.Parameter]:
        return {f"{_NAME}.{name}": parameter for name, parameter in self._model.named_parameters()}


def _room(spec: TensorSpec, parameter: nn.Parameter, *, is_weight: bool) -> Tensor:
    fits = tuple(parameter.shape) == spec.shape
    if is_weight:
        if not fits or parameter.dtype != spec.dtype:
            raise mismatch(spec.key, f"the state that was saved has shape {list(spec.shape)} and type {spec.dtype}")
        return parameter.detach()
    if fits:
        return torch.zeros_like(parameter, dtype=spec.dtype, requires_grad=False)
    return torch.zeros(spec.shape, dtype=spec.dtype, device="cpu" if spec.host else parameter.device)
