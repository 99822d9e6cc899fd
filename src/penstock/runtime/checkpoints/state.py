"""What a training run consists of, taken apart into named tensors and small values, and put together again.

One form serves both ways state travels: to newcomers over the process group, and to disk. Tensors are named after the
parameter they belong to (``model/model/layer.weight``, ``optimizer/optimizer/model.layer.weight/exp_avg``), never after
a position, so they fit any world and either strategy. Everything else (step, learning rates, schedulers) is ``extras``.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import torch
from torch import nn

from penstock.core import CodecError, InputError
from penstock.runtime.training.wrapping import Sharded, Wrapped
from penstock.runtime.value_codec import encode


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """Enough to make room for a tensor that somebody else holds. ``host``: on the CPU whatever the device is."""

    key: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    host: bool

    def to_row(self) -> tuple[str, tuple[int, ...], torch.dtype, bool]:
        """As workers tell each other."""
        return self.key, self.shape, self.dtype, self.host

    @classmethod
    def from_row(cls, row: tuple[str, tuple[int, ...], torch.dtype, bool]) -> "TensorSpec":
        key, shape, dtype, host = row
        return cls(key=key, shape=shape, dtype=dtype, host=host)

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.dtype.itemsize * self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state after ``step`` completed steps. Its tensors are the living ones: copy them before the next step.

    ``updated`` are those that nothing but an attached optimizer changes, so that there is time until it steps.
    """

    step: int
    tensors: dict[str, torch.Tensor]
    extras: dict[str, Any]
    updated: frozenset[str] = frozenset()

    def specs(self) -> list[TensorSpec]:
        return [
            TensorSpec(key=key, shape=tuple(tensor.shape), dtype=tensor.dtype, host=tensor.device.type == "cpu")
            for key, tensor in self.tensors.items()
        ]


class State(Protocol):
    """What can be taken apart into a snapshot and put together again, whatever it is made of."""

    def call_before_updates(self, hook: Callable[[], None]) -> None:
        """Have a hook called whenever an optimizer is about to change the state."""
        ...

    @property
    def sharded(self) -> object:
        """Whether every worker holds a part of its own."""
        ...

    def capture(self, step: int) -> Snapshot: ...

    def room_for(self, specs: list[TensorSpec]) -> dict[str, torch.Tensor]:
        """Tensors to receive into, of those that somebody else holds."""
        ...

    def restore(self, tensors: dict[str, torch.Tensor], extras: dict[str, Any]) -> None:
        """Take over a whole state; ``tensors`` came from :meth:`room_for` and have been filled."""
        ...


@dataclass(slots=True)
class Parts:
    """The named things that make up the state of a run."""

    device: torch.device
    models: dict[str, nn.Module] = field(default_factory=dict)
    optimizers: dict[str, torch.optim.Optimizer] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)
    own: dict[str, Any] = field(default_factory=dict)
    """What the loop itself keeps in the state; states that earlier versions saved do not have it."""
    applied: set[str] = field(default_factory=set)
    """Optimizers that have stepped since this was last cleared."""
    buffers: list[torch.Tensor] = field(default_factory=list)
    """Buffers that a forward pass may change and that belong to the state, such as running means."""
    before_update: Callable[[], None] = lambda: None
    """Called when an optimizer is about to change the state."""

    @property
    def wrapped(self) -> list[Wrapped]:
        return [model for model in self.models.values() if isinstance(model, Wrapped)]

    @property
    def sharded(self) -> list[Sharded]:
        return [model for model in self.models.values() if isinstance(model, Sharded)]

    def add(self, name: str, part: Any) -> None:
        """Take a part in; the same object may be given again under the name it has."""
        known = self.models | self.optimizers | self.others
        if name in known and known[name] is not part:
            raise InputError(f"two parts are called {name!r}", "one name per part", "Choose another keyword")
        if isinstance(part, nn.Module):
            self.models = {key: model for key, model in self.models.items() if model is not part} | {name: part}
        elif isinstance(part, torch.optim.Optimizer):
            self.optimizers[name] = part
            part.register_step_pre_hook(lambda *_: self.before_update())
            part.register_step_post_hook(lambda *_: self.applied.add(name))
        elif hasattr(part, "state_dict") and hasattr(part, "load_state_dict"):
            self.others[name] = part
        else:
            raise InputError(
                f"{name}={type(part).__name__} has no state", "objects with state_dict and load_state_dict",
                "Leave it out, or give it these two methods",
            )  # fmt: skip

    def call_before_updates(self, hook: Callable[[], None]) -> None:
        self.before_update = hook

    def check(self) -> None:
        """Reject what a resize or a checkpoint would lose: parameters of unknown models, states with other objects."""
        known = set(self._names())
        for name, optimizer in self.optimizers.items():
            if any(parameter not in known for group in optimizer.param_groups for parameter in group["params"]):
                raise InputError(
                    f"{name!r} changes parameters of a model that is not in the run", "parameters of wrapped models",
                    "Pass the model through run.wrap before making the optimizer, or add it with run.attach",
                )  # fmt: skip
        for name, part in self.others.items():
            try:
                encode(part.state_dict())
            except CodecError as error:
                raise InputError(
                    f"the state of {name!r} cannot be saved: {error}", hint="Give it a state_dict of such values"
                ) from None

    def capture(self, step: int) -> Snapshot:
        tensors: dict[str, torch.Tensor] = {}
        values: dict[str, Any] = {}
        for key, value in self._entries():
            (tensors if isinstance(value, torch.Tensor) else values)[key] = value
        groups = {name: [_options(group) for group in o.param_groups] for name, o in self.optimizers.items()}
        parts = {name: part.state_dict() for name, part in (self.others | self.own).items()}
        extras = {"values": values, "groups": groups, "parts": parts}
        return Snapshot(step=step, tensors=tensors, extras=copy.deepcopy(extras), updated=self._updated(tensors))

    def room_for(self, specs: list[TensorSpec]) -> dict[str, torch.Tensor]:
        """Tensors to receive into: the living ones where they exist, new ones for optimizer state not yet there."""
        living = {key: value for key, value in self._entries() if isinstance(value, torch.Tensor)}
        parameters = {name: parameter for parameter, name in self._names().items()}
        room = {spec.key: self._room(spec, living.get(spec.key), parameters) for spec in specs}
        missing = [key for key in living if key.startswith("model/") and key not in room]
        if missing:
            raise mismatch(missing[0], "the state that was saved has no such tensor")
        return room

    @torch.no_grad()
    def restore(self, tensors: dict[str, torch.Tensor], extras: dict[str, Any]) -> None:
        """Take over a whole state; ``tensors`` came from :meth:`room_for` and have been filled."""
        everything = tensors | extras["values"]
        for name, model in self.models.items():
            _plain(model).load_state_dict(_below(everything, f"model/{name}/"))
        for name, optimizer in self.optimizers.items():
            self._restore_optimizer(optimizer, _below(everything, f"optimizer/{name}/"), extras["groups"][name])
        for name, part in self.others.items():
            part.load_state_dict(extras["parts"][name])
        for name in self.own.keys() & extras["parts"].keys():
            self.own[name].load_state_dict(extras["parts"][name])

    def drop_gradients(self) -> None:
        for optimizer in self.optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        for model in self.models.values():
            model.zero_grad(set_to_none=True)

    def watch(self) -> None:
        """Look up the buffers of the models as they are now."""
        self.buffers = [
            buffer
            for model in self.models.values()
            for module in _plain(model).modules()
            for name, buffer in module._buffers.items()
            if buffer is not None and name not in module._non_persistent_buffers_set
        ]

    def follow(self, before: dict[str, nn.Parameter]) -> None:
        """Point the optimizers from parameters by their old objects to the ones that now have the same names."""
        after = {name: parameter for parameter, name in self._names().items()}
        moved = {old: after[name] for name, old in before.items()}
        for optimizer in self.optimizers.values():
            for group in optimizer.param_groups:
                group["params"] = [moved.get(parameter, parameter) for parameter in group["params"]]
            optimizer.state.clear()

    def parameters(self) -> dict[str, nn.Parameter]:
        return {name: parameter for parameter, name in self._names().items()}

    def _updated(self, tensors: dict[str, torch.Tensor]) -> frozenset[str]:
        groups = [group for optimizer in self.optimizers.values() for group in optimizer.param_groups]
        trained = {parameter for group in groups for parameter in group["params"]}
        of_models = {
            f"model/{name}/{path}"
            for name, model in self.models.items()
            for path, parameter in _plain(model).named_parameters()
            if parameter in trained
        }
        return frozenset(key for key in tensors if key in of_models or key.startswith("optimizer/"))

    def _names(self) -> dict[nn.Parameter, str]:
        return {
            parameter: f"{name}.{path}"
            for name, model in self.models.items()
            for path, parameter in _plain(model).named_parameters()
        }

    def _entries(self) -> list[tuple[str, Any]]:
        names = self._names()
        entries = [
            (f"model/{name}/{path}", value)
            for name, model in self.models.items()
            for path, value in _plain(model).state_dict().items()
        ]
        for name, optimizer in self.optimizers.items():
            for parameter, state in cast("dict[nn.Parameter, dict[str, Any]]", optimizer.state).items():
                entries += [(f"optimizer/{name}/{names[parameter]}/{key}", value) for key, value in state.items()]
        return entries

    def _room(self, spec: TensorSpec, living: torch.Tensor | None, parameters: dict[str, nn.Parameter]) -> torch.Tensor:
        if living is not None and tuple(living.shape) == spec.shape and living.dtype == spec.dtype:
            return living
        if spec.key.startswith("model/"):
            raise mismatch(spec.key, f"the state that was saved has shape {list(spec.shape)} and type {spec.dtype}")
        parameter = parameters.get(spec.key.split("/", 2)[2].rsplit("/", 1)[0])
        if parameter is not None and tuple(parameter.shape) == spec.shape:
            return torch.zeros_like(parameter, dtype=spec.dtype, requires_grad=False)
        return torch.zeros(spec.shape, dtype=spec.dtype, device="cpu" if spec.host else self.device)

    def _restore_optimizer(
        self, optimizer: torch.optim.Optimizer, entries: dict[str, Any], groups: list[dict[str, Any]]
    ) -> None:
        names = self._names()
        state: dict[str, dict[str, Any]] = {}
        for key, value in entries.items():
            parameter, what = key.rsplit("/", 1)
            state.setdefault(parameter, {})[what] = value
        optimizer.state.clear()
        for group, options in zip(optimizer.param_groups, groups, strict=True):
            group.update(options)
            for parameter in group["params"]:
                if names[parameter] in state:
                    optimizer.state[parameter] = state[names[parameter]]


def _plain(model: nn.Module) -> nn.Module:
    return model.module if isinstance(model, Wrapped) else model


def _options(group: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in group.items() if key != "params"}


def _below(entries: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {key.removeprefix(prefix): value for key, value in entries.items() if key.startswith(prefix)}


def mismatch(key: str, found: str) -> InputError:
    return InputError(
        f"the model does not fit the state at {key!r}: {found}", "the model the state was made with",
        "Undo the change to the model, or start with an empty checkpoint directory",
    )  # fmt: skip
