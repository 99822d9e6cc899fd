"""A model to the list of kernels one of its training iterations runs, and to the memory it needs."""

import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.utils.checkpoint import CheckpointError

from penstock.core import InputError
from penstock.predict.capture.composites import FusedOperations
from penstock.predict.capture.optimizers import OPTIMIZERS
from penstock.predict.capture.recorder import Recorder, TrainingPhase
from penstock.predict.capture.setup import Hook, Setup, TrainingTask, arithmetic, total_bytes, training_task
from penstock.predict.kernels.calls import KernelCall, Precision

_STATES = {"sgd": 1, "adamw": 2, "adamw-foreach": 2}
"""Tensors as large as the weights that each optimizer keeps."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """One training iteration of a model: what it asks of a device."""

    calls: tuple[CountedCall, ...]
    dispatches: dict[TrainingPhase, int]
    """Operations the host issues, views included."""
    memory: MemoryUse
    parameters: int
    tensors: int
    gradient_bytes: int

    @property
    def issued(self) -> dict[str, int]:
        """What the host has to do: operations by phase, and convolutions, whose kernels are looked up each time."""
        looked_up = sum(each.count for each in self.calls if each.call.family.startswith("conv"))
        return {**{str(phase): self.dispatches.get(phase, 0) for phase in TrainingPhase}, "convolution": looked_up}

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
        work = training_task(hook, batch, setup, "meta")
        recorder = Recorder(device, tf32=setup.tf32 and device == "cuda")
        with arithmetic(setup), FusedOperations(device, setup.autocast, recorder.rms_norm), recorder:
            return _follow(work, recorder, setup)


def _follow(work: TrainingTask, recorder: Recorder, setup: Setup) -> Capture:
    weights = work.weights()
    for tensor in [*work.model.parameters(), *work.model.buffers(), *work.inputs, *work.named_inputs.values()]:
        if isinstance(tensor, torch.Tensor):
            recorder.live.see(tensor)
    resident = recorder.live.now
    loss = work.forward()
    activations = recorder.live.now - resident
    recorder.phase = TrainingPhase.BACKWARD
    loss.backward()  # type: ignore[no-untyped-call]
    recorder.phase = TrainingPhase.OPTIMIZER
    peak = recorder.live.peak
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    _optimize(weights, recorder, setup)
    states = _STATES[setup.optimizer] * total_bytes(weights)
    return Capture(
        calls=tuple(CountedCall(call=call, phase=phase, count=n) for (call, phase), n in recorder.calls.items()),
        dispatches=dict(recorder.dispatches),
        memory=MemoryUse(
            weights=total_bytes(list(work.model.parameters())), gradients=total_bytes(gradients), optimizer=states,
            activations=activations, peak=peak + states,
        ),
        parameters=sum(weight.numel() for weight in weights), tensors=len(weights),
        gradient_bytes=total_bytes(gradients),
    )  # fmt: skip


def _optimize(weights: list[torch.nn.Parameter], recorder: Recorder, setup: Setup) -> None:
    """The second step of the optimizer, when its state is there."""
    if setup.optimizer == "adamw":
        _fused_adamw(weights, recorder)
        return
    optimizer = OPTIMIZERS[setup.optimizer](weights)
    before = Counter(recorder.calls), Counter(recorder.dispatches)
    optimizer.step()
    recorder.calls, recorder.dispatches = before
    optimizer.step()


def _fused_adamw(weights: list[torch.nn.Parameter], recorder: Recorder) -> None:
    """One kernel over all weights of a dtype; the meta device has none, so it is written down instead of run."""
    for dtype in {weight.dtype for weight in weights}:
        same = [weight for weight in weights if weight.dtype == dtype]
        elements, size = sum(weight.numel() for weight in same), float(total_bytes(same))
        low = {torch.bfloat16: Precision.BF16, torch.float16: Precision.FP16}.get(dtype, Precision.FP32)
        steps = 4.0 * len(same)
        recorder.note(_adamw(elements, len(same), low, size, steps))
        recorder.dispatches[TrainingPhase.OPTIMIZER] += 2
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


_DATA_DEPENDENT = ("meta tensors", "Cannot copy out of meta tensor", "data-dependent", "_local_scalar_dense")


@contextmanager
def explained() -> Iterator[None]:
    """A model whose path depends on values cannot be followed: say where it looks at one."""
    try:
        yield
    except CheckpointError as problem:
        raise InputError(
            "the model recomputes parts of itself with torch.utils.checkpoint, which cannot be followed",
            "a model without checkpointing",
            "Leave it out of penstock_model and give --recompute",
        ) from problem
    except (RuntimeError, NotImplementedError) as problem:
        if not any(words in str(problem) for words in _DATA_DEPENDENT):
            raise
        raise InputError(
            f"the model reads the value of a tensor at {_culprit(problem)}",
            "models whose operations do not depend on the data",
            "Leave .item(), .tolist() and `if tensor:` out of the path that is predicted, or profile the job instead",
        ) from problem


def _culprit(problem: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if not _is_ours(frame.filename)]
    frame = frames[-1] if frames else traceback.extract_tb(problem.__traceback__)[-1]
    return f"{frame.filename}:{frame.lineno}: {frame.line or frame.name}"


def _is_ours(filename: str) -> bool:
    return "/torch/" in filename or "/penstock/predict/capture/" in filename
