"""A model whose engine changes with the world while the object the script holds stays the same.

``ddp`` keeps the parameters in place and rebuilds only the reducer. ``fsdp2`` shards parameters over the world, so a
new world needs new parameters: they are made from an unsharded copy kept in host memory, the optimizers are pointed to
them, and their values come from the checkpoint that is written at the border (an on-disk reshard).
"""

import copy
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel

from penstock.core import InputError, UnknownNameError
from penstock.runtime.watch.shard_waits import ShardWaits

STRATEGIES = ("ddp", "fsdp2")
WORD_SIZE = 6
"""Numbers in a worker's word; see :mod:`penstock.runtime.training.step`."""


class Carrier(nn.Module):
    """The module as DDP sees it, with one more parameter whose gradient is the worker's word.

    The word travels with the other gradients, so that agreement needs no exchange of its own. The parameter belongs to
    the engine alone: no optimizer and no checkpoint sees it.
    """

    def __init__(self, module: nn.Module, device: torch.device) -> None:
        super().__init__()
        self.module = module
        self.word = nn.Parameter(torch.zeros(WORD_SIZE, dtype=torch.float32, device=device))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)


class Wrapped(nn.Module):
    """The model as the loop sees it; ``module`` is the one that was given (with fsdp2: its sharded double)."""

    module: nn.Module
    _engine: Any  # kept past nn.Module's registration: it holds the same parameters under other names
    _carrier: Carrier | None
    _expects_backward: bool

    def __init__(self, module: nn.Module, device: torch.device, options: dict[str, Any]) -> None:
        super().__init__()
        self.module = module.to(device)
        self._device = device
        self._options = options
        self._set_engine(self.module)

    @property
    def word(self) -> nn.Parameter | None:
        """The parameter whose gradient carries the word, if the coming backward pass exchanges gradients."""
        return self._carrier.word if self._carrier is not None and self._expects_backward else None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self._carrier is not None and torch.is_grad_enabled() and self._engine.require_backward_grad_sync:
            self.__dict__["_expects_backward"] = True
        return self._engine(*args, **kwargs)

    def begin_step(self) -> None:
        """Nothing has gone forward yet."""
        self.__dict__["_expects_backward"] = False

    def open(self, size: int, *, carries: bool = False) -> None:
        """Make the engine for a world of this size; the process group exists. ``carries``: it takes the word along."""
        if size == 1:
            return
        devices = [self._device.index] if self._device.type == "cuda" else None
        carrier = Carrier(self.module, self._device) if carries and not self._looks_ahead() else None
        # Our own transfer has made the states equal, so DDP need not compare or broadcast anything.
        engine = DistributedDataParallel(
            carrier or self.module, device_ids=devices, init_sync=False, **self._options
        )  # fmt: skip
        self._set_engine(engine, carrier)

    def close(self) -> None:
        """Give the engine up while its process group may already be broken."""
        if self._engine is not self.module:
            engine = self._engine
            self._set_engine(self.module)
            engine._remove_autograd_hooks()
            # DDP refers to itself; without this its buckets would live until the next garbage collection.
            engine.__dict__.clear()

    def sync_gradients(self, wanted: bool) -> None:
        """Whether the coming forward and backward pass exchange gradients or only add them up."""
        if self._engine is not self.module:
            self._engine.require_backward_grad_sync = wanted

    def _looks_ahead(self) -> bool:
        """Whether DDP decides from what the forward pass returned which gradients will come: the word's would not."""
        return bool(self._options.get("find_unused_parameters") or self._options.get("static_graph"))

    def _set_engine(self, engine: nn.Module, carrier: Carrier | None = None) -> None:
        self.__dict__.update(_engine=engine, _carrier=carrier, _expects_backward=False)


class Sharded(Wrapped):
    """A model whose parameters are spread over the world with FSDP2."""

    template: nn.Module  # unsharded, in host memory, and no submodule

    def __init__(self, module: nn.Module, device: torch.device, options: dict[str, Any]) -> None:
        super().__init__(module, device, {key: value for key, value in options.items() if key != "blocks"})
        self._blocks: tuple[type[nn.Module], ...] = tuple(options.get("blocks", ()))
        self._waits: ShardWaits | None = None
        self.__dict__["template"] = copy.deepcopy(self.module).cpu()

    def time_collectives(self, waits: ShardWaits) -> None:
        """Have the collectives of this world and of those to come timed."""
        self._waits = waits
        waits.watch(self.module)

    def open(self, size: int, *, carries: bool = False) -> None:
        """Shard the template anew; shards exchange gradients in their own way and carry nothing."""
        del carries
        mesh = init_device_mesh(self._device.type, (size,))
        self.module = copy.deepcopy(self.template).to(self._device)
        for block in self._blocks_of(self.module):
            fully_shard(block, mesh=mesh, **self._options)
        fully_shard(self.module, mesh=mesh, **self._options)
        if self._waits is not None:
            self._waits.watch(self.module)
        self._set_engine(self.module)

    def close(self) -> None:
        """Nothing holds the group but parameters that the next world replaces."""

    def sync_gradients(self, wanted: bool) -> None:
        if isinstance(self.module, FSDPModule):
            self.module.set_requires_gradient_sync(wanted)

    def _blocks_of(self, module: nn.Module) -> Iterable[nn.Module]:
        """What is gathered and freed as a unit: the given classes, else the members of every module list."""
        if self._blocks:
            return [part for part in module.modules() if isinstance(part, self._blocks)]
        return [part for held in module.modules() if isinstance(held, nn.ModuleList) for part in held]


def wrap(module: nn.Module, strategy: str, device: torch.device, options: dict[str, Any]) -> Wrapped:
    """The elastic form of a model under a strategy."""
    if strategy not in STRATEGIES:
        raise UnknownNameError.of("strategy", strategy, STRATEGIES)
    if isinstance(module, Wrapped):
        raise InputError("the model is wrapped already", "a plain torch.nn.Module", "Call run.wrap once per model")
    return (Sharded if strategy == "fsdp2" else Wrapped)(module, device, options)
