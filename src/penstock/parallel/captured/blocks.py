"""One training iteration of any PyTorch model, told apart by the blocks it is made of.

The model runs once on the meta device while every operation is noted with the block it belongs to. In the backward pass
autograd works through its nodes in exactly the opposite order of their creation, so the first node of a block says when
the block's gradients begin. What crosses from one block to a later one, skip connections included, is read off the
edges of autograd's graph: that is what a pipeline would have to send.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from penstock.core import InputError
from penstock.predict import (
    Hook,
    KernelCall,
    Recorder,
    Setup,
    TrainingPhase,
    TrainingTask,
    autocast,
    explained,
    followable_task,
    following,
    is_free,
)

_CONTAINERS = (nn.Sequential, nn.ModuleList)


@dataclass(slots=True)
class CapturedBlock:
    """A block and what runs until the next one begins; bytes are those of the captured batch.

    ``kept``: what the forward pass leaves for the backward pass. ``sent``: every tensor made here or before that a
    later segment reads. ``transient``: the most the backward pass holds for a moment.
    """

    name: str
    calls: Counter[tuple[KernelCall, TrainingPhase]] = field(default_factory=Counter)
    issued: Counter[TrainingPhase] = field(default_factory=Counter)
    weights: dict[int, int] = field(default_factory=dict)
    """Elements of every parameter that is read here, by the parameter's identity."""
    kept: float = 0.0
    sent: float = 0.0
    transient: float = 0.0

    @property
    def parameters(self) -> int:
        return sum(self.weights.values())

    @property
    def flops(self) -> float:
        return sum(call.flops * count for (call, _), count in self.calls.items())

    @property
    def signature(self) -> tuple[object, ...]:
        """Equal for blocks that cost the same."""
        return frozenset(self.calls.items()), frozenset(self.issued.items()), self.parameters, self.kept, self.sent


def follow(hook: Hook, batch: int, setup: Setup, device: str = "cuda") -> list[CapturedBlock]:
    """The segments of the model the hook offers, in the order they run; ``device`` as for capture."""
    with explained():
        work = followable_task(hook, batch, setup)
        recorder = _Recorder(device, work.model, tf32=setup.tf32 and device == "cuda")
        with following(recorder, setup):
            return _followed(work, recorder, setup)


def blocks_of(module: nn.Module, name: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The members of sequences and lists of modules, from the outside in, but not what is inside of a member."""
    for child_name, child in module.named_children():
        path = f"{name}.{child_name}" if name else child_name
        if isinstance(module, _CONTAINERS) and not isinstance(child, _CONTAINERS):
            yield path, child
        else:
            yield from blocks_of(child, path)


class _Recorder(Recorder):  # type: ignore[no-untyped-call]
    """Notes where every call happens, which parameters it reads, and what is alive at the borders."""

    def __init__(self, device: str, model: nn.Module, *, tf32: bool) -> None:
        super().__init__(device, tf32=tf32)
        self.segments = [CapturedBlock("input")]
        self.here = self.segments[0]
        self.starts = [_next_node()]
        self._parameters = {id(parameter) for parameter in model.parameters()}
        self._alive = 0
        self._between = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.here.issued[self.phase] += not is_free(func)
        for value in args:
            if isinstance(value, Tensor) and id(value) in self._parameters:
                self.here.weights[id(value)] = value.numel()
        return super().__torch_dispatch__(func, types, args, kwargs)

    def settle_in(self, work: TrainingTask) -> None:
        """What is there before the first operation does not count."""
        for tensor in (*work.model.parameters(), *work.model.buffers(), *work.inputs, *work.named_inputs.values()):
            if isinstance(tensor, Tensor):
                self.live.see(tensor)
        self._alive = self.live.now

    def note(self, call: KernelCall | None) -> None:
        super().note(call)
        if call is not None:
            self.here.calls[call, self.phase] += 1

    def begin(self, name: str) -> None:
        """The forward pass enters a block; what ran since the last one belongs to the last one."""
        if self._between:
            self._join()
        self._open(name)

    def leave(self) -> None:
        """The forward pass leaves a block: what follows is the model's output, unless another block does."""
        self._open("output")
        self._between = True

    def _open(self, name: str) -> None:
        self._close()
        self.here, self._between = CapturedBlock(name), False
        self.segments.append(self.here)
        self.starts.append(_next_node())

    def _join(self) -> None:
        self._close()
        rest = self.segments.pop()
        self.starts.pop()
        self.here = self.segments[-1]
        self.here.calls += rest.calls
        self.here.issued += rest.issued
        self.here.weights |= rest.weights
        self._alive -= int(rest.kept + self.here.kept)

    def end_forward(self) -> None:
        self._close()
        self.starts.append(_next_node())

    def turn_to(self, segment: CapturedBlock) -> None:
        """The backward pass enters a block from behind."""
        self._settle()
        self.here, self._alive, self.live.peak = segment, self.live.now, self.live.now

    def end_backward(self) -> None:
        self._settle()

    def _close(self) -> None:
        self.here.kept = float(max(0, self.live.now - self._alive))
        self._alive = self.live.now

    def _settle(self) -> None:
        """Gradients of weights stay; only the rest of what came on top was for a moment."""
        stays = 2 * self.here.parameters
        self.here.transient = max(self.here.transient, float(self.live.peak - self._alive - stays))


def _followed(work: TrainingTask, recorder: _Recorder, setup: Setup) -> list[CapturedBlock]:
    blocks = list(blocks_of(work.model))
    handles = [block.register_forward_pre_hook(lambda *_, path=path: recorder.begin(path)) for path, block in blocks]
    handles += [block.register_forward_hook(lambda *_: recorder.leave()) for _, block in blocks]
    recorder.settle_in(work)
    with autocast(setup, "cuda"):
        loss = work.forward()
    recorder.end_forward()
    for handle in handles:
        handle.remove()
    if loss.grad_fn is None:
        raise InputError("a model whose loss depends on no parameter", "at least one parameter that is trained")
    nodes = _nodes(loss)
    _add_crossings(nodes, recorder)
    _announce(nodes, recorder)
    recorder.phase = TrainingPhase.BACKWARD
    recorder.turn_to(recorder.segments[-1])
    loss.backward()  # type: ignore[no-untyped-call]
    recorder.end_backward()
    return recorder.segments


def _next_node() -> int:
    return int(torch._C._autograd._get_sequence_nr())


def _nodes(loss: Tensor) -> list[Any]:
    """Every node that computes something, not those that only collect a parameter's gradient."""
    seen: set[Any] = set()
    waiting: list[Any] = [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen and not node.name().endswith("AccumulateGrad"):
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    return list(seen)


def _place(node: Any, starts: list[int]) -> int:
    """The segment whose range of sequence numbers the node lies in."""
    number = node._sequence_nr()
    return next(place for place, (low, high) in enumerate(pairwise(starts)) if number < high or high == starts[-1])


def _add_crossings(nodes: list[Any], recorder: _Recorder) -> None:
    """Bytes over every border between segments: each tensor once, up to the last segment that reads it."""
    places = {node: _place(node, recorder.starts) for node in nodes}
    reaches: dict[tuple[Any, int], int] = {}
    for node, place in places.items():
        for maker, output in node.next_functions:
            if maker in places and places[maker] < place:
                reaches[maker, output] = max(place, reaches.get((maker, output), 0))
    for (maker, output), last in reaches.items():
        made = maker._input_metadata[output]
        size = float(prod(made.shape) * made.dtype.itemsize)
        for segment in recorder.segments[places[maker] : last]:
            segment.sent += size


def _announce(nodes: list[Any], recorder: _Recorder) -> None:
    """Have the last node of every segment say when the backward pass gets there."""
    last: dict[int, Any] = {}
    for node in nodes:
        place = _place(node, recorder.starts)
        if place not in last or node._sequence_nr() > last[place]._sequence_nr():
            last[place] = node
    for place, node in last.items():
        node.register_prehook(lambda *_, segment=recorder.segments[place]: recorder.turn_to(segment))
