"""A model to the list of kernels one of its training iterations runs, and to the memory it needs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from penstock.predict.capture.allocator import CachingAllocator, Event
from penstock.predict.capture.composites import FusedOperations, imagined_gpu, looked_into
from penstock.predict.capture.explaining import explained, refuse_compiled
from penstock.predict.capture.optimizers import OPTIMIZERS
from penstock.predict.capture.recomputing import recomputed_alike
from penstock.predict.capture.recorder import Recorder, TrainingPhase
from penstock.predict.capture.recurrent import launches
from penstock.predict.capture.setup import (
    Hook,
    Setup,
    TrainingTask,
    arithmetic,
    autocast,
    leaves,
    total_bytes,
    training_task,
)
from penstock.predict.kernels.calls import ImageLayout, KernelCall, Precision


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedCall:
    """A kernel call, where it runs, and how often in one iteration."""

    call: KernelCall
    phase: TrainingPhase
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """Bytes of one training iteration, before what libraries and the allocator add."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    """What the forward pass leaves for the backward pass."""
    peak: int
    """The most that lives at once, everything included."""
    reserved: int = 0
    """What PyTorch's allocator holds for that after a few iterations; 0 where it was not followed."""
    turned: int = 0
    """Operands of the largest convolution that a library turns round first, because their channels do not come last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """One training iteration of a model: what it asks of a device."""

    calls: tuple[CountedCall, ...]
    dispatches: dict[TrainingPhase, int]
    """Operations the host issues, views included."""
    views: dict[TrainingPhase, int] = field(default_factory=dict)
    """Those among them that only look at memory otherwise."""
    operations: dict[str, int] = field(default_factory=dict)
    """All of them by name."""
    modules: int = 0
    """Modules that are called in a forward pass."""
    lists: int = 0
    """Operations of an optimizer on lists of tensors."""
    listed: int = 0
    """Tensors in the lists that optimizers go over, once for every operation on a list."""
    waits: int = 0
    """How often the host has to see a value before it can go on."""
    assumed: tuple[str, ...] = ()
    """What had to be assumed about values that nobody has computed."""
    memory: MemoryUse
    parameters: int
    tensors: int
    gradient_bytes: int

    @property
    def issued(self) -> dict[str, int]:
        """What the host has to do, see :data:`~penstock.predict.iteration.ISSUED_KINDS`.

        Operations of an optimizer on single tensors are issued like those of a forward pass.
        """
        looked_up = sum(each.count for each in self.calls if each.call.family.startswith("conv"))
        launched = sum(each.count * launches(each.call) for each in self.calls if each.call.family == "recurrent")
        made = {phase: self.dispatches.get(phase, 0) - self.views.get(phase, 0) for phase in TrainingPhase}
        return {
            "forward": made[TrainingPhase.FORWARD] + made[TrainingPhase.OPTIMIZER] - self.lists,
            "backward": made[TrainingPhase.BACKWARD], "optimizer": self.lists, "convolution": looked_up,
            "view": sum(self.views.values()), "listed": self.listed, "launched": launched, "module": self.modules,
            "iteration": 1,
        }  # fmt: skip

    @property
    def flops(self) -> float:
        return sum(counted.call.flops * counted.count for counted in self.calls)


def capture(hook: Hook, batch: int, setup: Setup | None = None, *, device: str = "cuda") -> Capture:
    """Follow one training iteration on the meta device; ``device`` says whose kernels it would run ("cuda" or "cpu").

    >>> from penstock.predict.zoo import network_named
    >>> seen = capture(network_named("resnet18").hook, batch=32, setup=Setup(optimizer="sgd"))
    >>> seen.parameters, round(seen.flops / 32 / 1e9, 1)
    (11689512, 10.8)
    """
    setup = setup or Setup()
    with explained():
        work = followable_task(hook, batch, setup)
        on_gpu = device == "cuda"
        recorder = Recorder(device, tf32=setup.tf32 and on_gpu, tf32_convolutions=setup.tf32_convolutions and on_gpu)
        with following(recorder, setup):
            return _follow(work, recorder, setup)


def followable_task(hook: Hook, batch: int, setup: Setup) -> TrainingTask:
    """What the hook describes, on the meta device; a compiled model is refused."""
    with imagined_gpu():
        work = training_task(hook, batch, setup, "meta")
    refuse_compiled(work.model)
    return work


@contextmanager
def following(recorder: Recorder, setup: Setup) -> Iterator[None]:
    """Everything that runs inside is written down by the recorder, as the setup would run it on its device."""
    fused = FusedOperations(recorder.device, recorder.rms_norm, recorder.note)
    with imagined_gpu(), looked_into(), arithmetic(setup), fused, recomputed_alike(), recorder:
        yield


def _follow(work: TrainingTask, recorder: Recorder, setup: Setup) -> Capture:
    weights = work.weights()
    for tensor in [*work.model.parameters(), *work.model.buffers(), *leaves([work.inputs, work.named_inputs])]:
        recorder.live.see(tensor)
    resident, began = recorder.live.now, len(recorder.live.events)
    with autocast(setup, "cuda"), called_modules() as modules:
        loss = work.forward()
    activations = recorder.live.now - resident
    recorder.phase = TrainingPhase.BACKWARD
    torch.autograd.backward(loss)
    del loss
    recorder.phase, ended = TrainingPhase.OPTIMIZER, len(recorder.live.events)
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    states, peak = _optimize(weights, recorder, setup)
    return Capture(
        calls=tuple(CountedCall(call=call, phase=phase, count=n) for (call, phase), n in recorder.calls.items()),
        dispatches=dict(recorder.dispatches), views=dict(recorder.views), operations=dict(recorder.names),
        modules=len(modules), lists=recorder.lists, listed=recorder.listed,
        waits=recorder.values.waits, assumed=tuple(recorder.values.assumed),
        memory=MemoryUse(
            weights=total_bytes(list(work.model.parameters())), gradients=total_bytes(gradients), optimizer=states,
            activations=activations, peak=peak, reserved=reserved_bytes(recorder.live.events, began, ended, states),
            turned=max((turned_bytes(call) for call, _ in recorder.calls), default=0),
        ),
        parameters=sum(weight.numel() for weight in weights), tensors=len(weights),
        gradient_bytes=total_bytes(gradients),
    )  # fmt: skip


@contextmanager
def called_modules() -> Iterator[list[torch.nn.Module]]:
    """Every module that is called meanwhile, in order: each call costs the host some Python."""
    called: list[torch.nn.Module] = []
    hook = torch.nn.modules.module.register_module_forward_pre_hook(lambda module, _: called.append(module))
    try:
        yield called
    finally:
        hook.remove()


def _optimize(weights: list[torch.nn.Parameter], recorder: Recorder, setup: Setup) -> tuple[int, int]:
    """The second step of the optimizer, when its state is there; bytes of that state, and the peak of an iteration.

    The state is there in the forward and backward pass too, from the second iteration on.
    """
    before, training = recorder.counted(), recorder.live.peak
    if setup.optimizer == "adamw":
        _fused_adamw(weights, recorder)
        states = 2 * total_bytes(weights)
        return states, training + states
    optimizer, resident = OPTIMIZERS[setup.optimizer](weights), recorder.live.now
    optimizer.step()
    recorder.return_to(before)
    added = recorder.live.now - resident
    recorder.live.peak = recorder.live.now
    optimizer.step()
    states = total_bytes([each for each in leaves(list(optimizer.state.values())) if each.device.type == "meta"])
    return states, max(training + added, recorder.live.peak)


def turned_bytes(call: KernelCall) -> int:
    if not call.family.startswith("conv") or call.layout is ImageLayout.CHANNELS_LAST:
        return 0
    return int(call.read_bytes + call.written_bytes)


def reserved_bytes(events: Sequence[Event], began: int, ended: int, states: int) -> int:
    """What the allocator holds after the second iteration: the optimizer's state came after the first one's end.

    ``events[began:ended]`` are those of forward and backward; gradients are let go before the next iteration.
    """
    allocator = CachingAllocator()
    allocator.follow(events[:ended])
    pass_through = events[began:ended]
    after = events[ended:] or [(-1, states)]
    allocator.follow(after)
    gone = {number for number, size in events if not size}
    born = {number for number, size in pass_through if size}
    allocator.follow((number, 0) for number in born - gone)
    allocator.follow((_AGAIN + number, size) for number, size in pass_through)
    return allocator.reserved


_AGAIN = 1 << 40


def _fused_adamw(weights: list[torch.nn.Parameter], recorder: Recorder) -> None:
    """One kernel over all weights of a dtype; the meta device has none, so it is written down instead of run."""
    for dtype in {weight.dtype for weight in weights}:
        same = [weight for weight in weights if weight.dtype == dtype]
        elements, size = sum(weight.numel() for weight in same), float(total_bytes(same))
        low = {torch.bfloat16: Precision.BF16, torch.float16: Precision.FP16}.get(dtype, Precision.FP32)
        steps = 4.0 * len(same)
        recorder.note(_adamw(elements, len(same), low, size, steps))
        recorder.dispatches[TrainingPhase.OPTIMIZER] += 2
        recorder.names.update(["_fused_adamw_", "_foreach_add_"])
        recorder.lists += 2
        recorder.listed += 6 * len(same)
        if recorder.device == "cpu":
            continue
        recorder.note(
            KernelCall(
                family="optimizer", dims=(len(same), len(same)), precision=Precision.FP32, flops=float(len(same)),
                read_bytes=steps, written_bytes=steps, variant="foreach_add",
            )
        )  # fmt: skip


def _adamw(elements: int, tensors: int, low: Precision, size: float, steps: float) -> KernelCall:
    return KernelCall(
        family="optimizer", dims=(elements, tensors), precision=low, flops=12.0 * elements,
        read_bytes=4 * size + steps, written_bytes=4 * size + steps, variant="fused_adamw",
    )  # fmt: skip
