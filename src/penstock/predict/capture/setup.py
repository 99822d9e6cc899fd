"""How a model is trained: arithmetic, layout, optimizer, recomputation. It decides the time as much as the shape."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from penstock.core import InputError, UnknownNameError
from penstock.predict.capture.optimizers import OPTIMIZERS
from penstock.predict.kernels.calls import ImageLayout

Hook = Callable[[int], Any]
"""What a script offers: ``penstock_model(batch)`` returns ``model, inputs`` or ``model, inputs, loss``."""

_PURE = {
    "fp32": torch.float32, "tf32": torch.float32, "default": torch.float32, "bf16": torch.bfloat16,
    "fp16": torch.float16,
}  # fmt: skip
_AUTOCAST = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}
PRECISIONS = (*_PURE, *_AUTOCAST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """``precision`` is one of :data:`PRECISIONS`: the dtype of everything, or autocast over fp32 (``amp-``).

    ``default`` is what PyTorch does unless it is told otherwise: fp32, but convolutions in TF32.
    """

    precision: str = "bf16"
    layout: ImageLayout = ImageLayout.CHANNELS_FIRST
    optimizer: str = "adamw"
    recompute: bool = False

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise UnknownNameError.of("precision", self.precision, PRECISIONS)
        if self.optimizer not in OPTIMIZERS:
            raise UnknownNameError.of("optimizer", self.optimizer, OPTIMIZERS)

    @property
    def dtype(self) -> torch.dtype:
        return _PURE.get(self.precision, torch.float32)

    @property
    def autocast(self) -> torch.dtype | None:
        return _AUTOCAST.get(self.precision)

    @property
    def tf32(self) -> bool:
        """Whether products of fp32 matrices may use TF32."""
        return self.precision not in ("fp32", "default")

    @property
    def tf32_convolutions(self) -> bool:
        """Whether what cuDNN computes on fp32 may: PyTorch lets it unless it is told otherwise."""
        return self.precision != "fp32"


@dataclass(frozen=True, slots=True)
class TrainingTask:
    """One training iteration: a model, its inputs, and what is minimised."""

    model: nn.Module
    inputs: tuple[Any, ...]
    named_inputs: dict[str, Any]
    loss: Callable[[Any], Tensor]

    def forward(self) -> Tensor:
        return self.loss(self.model(*self.inputs, **self.named_inputs))

    def weights(self) -> list[nn.Parameter]:
        return [weight for weight in self.model.parameters() if weight.requires_grad]


def training_task(hook: Hook, batch: int, setup: Setup, device: str) -> TrainingTask:
    """Build what the hook describes on a device, the meta device included, in the setup's dtype and layout."""
    if batch < 1:
        raise InputError(f"a batch of {batch}", "at least 1")
    with torch.device(device):
        model, inputs, loss = _parts(hook(batch))
    model = model.to(device=device, dtype=setup.dtype).train()
    inputs = _placed(inputs, device, setup.dtype)
    if setup.layout is ImageLayout.CHANNELS_LAST:
        model, inputs = _channels_last(model, inputs)
    if setup.recompute:
        recompute(model)
    positional, named = ((), inputs) if isinstance(inputs, dict) else (tuple(inputs), {})
    return TrainingTask(model, positional, named, loss)


def _parts(offered: Any) -> tuple[nn.Module, Any, Callable[[Any], Tensor]]:
    if not isinstance(offered, tuple) or len(offered) not in (2, 3) or not isinstance(offered[0], nn.Module):
        raise InputError(
            f"penstock_model returned {type(offered).__name__}", "model, inputs or model, inputs, loss",
            "inputs is a tensor, a tuple of tensors or a dict; loss turns the model's output into one number",
        )  # fmt: skip
    model, inputs, *rest = offered
    return model, (inputs,) if isinstance(inputs, Tensor) else inputs, rest[0] if rest else mean_of


def mean_of(output: Any) -> Tensor:
    """A stand-in loss: the mean of everything the model returns, or its ``loss`` where it has one."""
    found = getattr(output, "loss", None)
    if isinstance(found, Tensor):
        return found
    values = [value for value in leaves(output) if value.is_floating_point()]
    if not values:
        raise InputError(
            "a model without a floating point output", "a tensor", "Return a loss as the hook's third value"
        )
    return torch.stack([value.float().mean() for value in values]).sum()


def leaves(value: Any) -> Iterator[Tensor]:
    """The tensors in whatever a model takes or returns."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from leaves(list(value.values()))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from leaves(inner)


def _placed(values: Any, device: str, dtype: torch.dtype) -> Any:
    if isinstance(values, Tensor):
        return values.to(device, dtype) if values.is_floating_point() else values.to(device)
    if isinstance(values, dict):
        return {key: _placed(value, device, dtype) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return type(values)(_placed(value, device, dtype) for value in values)
    return values


def _channels_last(model: nn.Module, inputs: Any) -> tuple[nn.Module, Any]:
    def turn(value: Any) -> Any:
        images = isinstance(value, Tensor) and value.dim() == 4 and value.is_floating_point()
        return value.to(memory_format=torch.channels_last) if images else value

    turned = {k: turn(v) for k, v in inputs.items()} if isinstance(inputs, dict) else tuple(map(turn, inputs))
    return model.to(memory_format=torch.channels_last), turned  # type: ignore[call-overload]


def recompute(model: nn.Module) -> None:
    """Keep only the inputs of each repeated block and run it again in the backward pass."""
    lists = [
        module for module in model.modules() if isinstance(module, nn.ModuleList | nn.Sequential) and len(module) > 1
    ]
    if not lists:
        return
    longest = max(lists, key=len)
    for block in longest:
        if any(True for _ in block.parameters()):
            _checkpointed(block)


def _checkpointed(block: nn.Module) -> None:
    from torch.utils.checkpoint import checkpoint

    inner = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(inner, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)

    block.forward = forward


@contextmanager
def arithmetic(setup: Setup) -> Iterator[None]:
    """TF32 switched as the setup says, for the backward pass too; as before afterwards."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = setup.tf32, setup.tf32_convolutions
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def autocast(setup: Setup, device: str) -> AbstractContextManager[Any]:
    """PyTorch's own autocast, for the forward pass on a real device."""
    return torch.autocast(device, dtype=setup.autocast) if setup.autocast else nullcontext()


def total_bytes(tensors: Sequence[Tensor]) -> int:
    """Sparse ones are as large as what they keep."""
    dense = [tensor._values() if tensor.layout is torch.sparse_coo else tensor for tensor in tensors]
    return sum(tensor.numel() * tensor.itemsize for tensor in dense)
