"""Functions that a device runs as one kernel although the meta device takes them apart, and PyTorch's own autocast.

While this mode is on, attention, norms, dropout and recurrent layers reach the recorder as the fused operations a GPU
would run. Whether autocast is on is read from PyTorch itself, so that ``torch.autocast`` inside a model counts as it
does on a device; the meta device has no autocast of its own, so the arguments are cast here. Functions that PyTorch
writes in Python are looked into: what counts is the operations inside them.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor
from torch.overrides import TorchFunctionMode

from penstock.predict.capture.recurrent import RECURRENT, lstm_cell, recurrent
from penstock.predict.capture.replacing import replaced

_aten = torch.ops.aten
_SDPA = functional.scaled_dot_product_attention

_LOW = frozenset([
    "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution",
    "conv_tbc", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "mv", "addmm", "addmv", "addr", "baddbmm",
    "addbmm", "einsum", "bilinear", "chain_matmul", "multi_dot", "prelu", "scaled_dot_product_attention", "lstm",
    "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell",
])  # fmt: skip
_HIGH = frozenset([
    "__pow__", "__rdiv__", "__rpow__", "__rtruediv__", "acos", "asin", "binary_cross_entropy_with_logits", "cdist",
    "cosh", "cosine_embedding_loss", "cosine_similarity", "cumprod", "cumsum", "dist", "erfinv", "exp", "expm1",
    "group_norm", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "layer_norm", "log", "log10", "log1p",
    "log2", "log_softmax", "logsumexp", "margin_ranking_loss", "mse_loss", "multi_margin_loss",
    "multilabel_margin_loss", "nll_loss", "nll_loss_nd", "nll_loss2d", "norm", "nuclear_norm", "pdist",
    "poisson_nll_loss", "pow", "prod", "reciprocal", "renorm", "rms_norm", "rsqrt", "sinh", "smooth_l1_loss",
    "soft_margin_loss", "softmax", "softmin", "softplus", "sum", "tan", "triplet_margin_loss", "ctc_loss",
    "vector_norm", "upsample_bilinear2d", "upsample_nearest2d",
])  # fmt: skip
"""What torch.autocast documents for CUDA; whatever is in neither runs in the widest dtype of its arguments."""
_WIDEST = frozenset(["addcdiv", "addcmul", "atan2", "cross", "dot", "grid_sampler", "index_put", "scatter_add"])
_ASKED = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


class FusedOperations(TorchFunctionMode):
    """Redirects what the meta device would decompose; ``device`` is whose kernels are meant ("cuda" or "cpu")."""

    def __init__(self, device: str, norm: Callable[..., Tensor], note: Callable[..., None]) -> None:
        super().__init__()
        self._device, self._norm, self._note = device, norm, note
        self._cast_once: dict[int, tuple[Tensor, Tensor]] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        args, kwargs = here(func, args, kwargs)
        if torch.is_autocast_enabled("cuda"):
            args, kwargs = self._cast(name, args, kwargs)
        if name == "ctc_loss":
            args = (
                *args[:2],
                *(each.to("meta") if isinstance(each, Tensor) else each for each in args[2:4]),
                *args[4:],
            )
        if func is _SDPA:
            return attention(self._device, *args, **kwargs)
        if name == "one_hot" and len(args) > 1 and args[1] > 0:
            return _one_hot(args[0], args[1])
        if self._device != "cuda":
            return func(*args, **kwargs)
        if name == "cross_entropy_loss" and torch.is_autocast_enabled("cuda"):
            return _cross_entropy(func, args, kwargs)
        if name in ("dropout", "dropout_"):
            return _dropout(*args, **kwargs)
        if name == "rms_norm":
            return self._norm(*args, **kwargs)
        if name in RECURRENT:
            return recurrent(name, self._note, *args, **kwargs)
        if name == "lstm_cell":
            return lstm_cell(self._note, *args, **kwargs)
        return func(*args, **kwargs)

    def _cast(self, name: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
        if name in _LOW:
            low = torch.get_autocast_dtype("cuda")
            return self._converted(args, low), self._converted(kwargs, low)
        if name in _HIGH and not kwargs.get("dtype"):
            return self._converted(args, torch.float32), self._converted(kwargs, torch.float32)
        if name in _WIDEST:
            return self._converted(args, torch.float32), kwargs
        return args, kwargs

    def _converted(self, values: Any, dtype: torch.dtype) -> Any:
        if isinstance(values, Tensor):
            casts = values.is_floating_point() and values.dtype not in (torch.float64, dtype)
            return self._cast_tensor(values, dtype) if casts else values
        if isinstance(values, tuple | list):
            return type(values)(self._converted(value, dtype) for value in values)
        if isinstance(values, dict):
            return {key: self._converted(value, dtype) for key, value in values.items()}
        return values

    def _cast_tensor(self, value: Tensor, dtype: torch.dtype) -> Tensor:
        """Weights are cast once in an iteration, as autocast remembers them."""
        recomputed = torch._C._current_graph_task_id() != -1
        if recomputed or not (value.is_leaf and value.requires_grad and value.dtype is torch.float32):
            return value.to(dtype)
        found = self._cast_once.get(id(value))
        if found is None or found[1].dtype != dtype:
            self._cast_once[id(value)] = found = value, value.to(dtype)
        return found[1]


def _no(*_: Any) -> bool:
    return False


def _yes(*_: Any) -> bool:
    return True


def here(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Tensors that a model puts on a GPU stay where they are followed."""
    name = getattr(func, "__name__", "")
    if name in ("to", "cuda", "cpu", "pin_memory"):
        return tuple(_moved(arg) for arg in args), {key: _moved(value) for key, value in kwargs.items()}
    if "device" in kwargs:
        return args, kwargs | {"device": _moved(kwargs["device"])}
    return args, kwargs


def _moved(value: Any) -> Any:
    on_gpu = isinstance(value, torch.device) and value.type == "cuda"
    return torch.device("meta") if on_gpu or (isinstance(value, str) and value.startswith("cuda")) else value


class Placement(TorchFunctionMode):
    """``.cuda()``, ``.to("cuda")`` and ``device="cuda"`` as if they had been left out; a machine without a GPU has
    nothing behind them."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        args, kwargs = here(func, args, kwargs or {})
        name = getattr(func, "__name__", "")
        if name == "cuda":
            return args[0].to("meta")
        if name in ("cpu", "pin_memory") and args[0].device.type == "meta":
            return args[0]
        return func(*args, **kwargs)


@contextmanager
def looked_into() -> Iterator[None]:
    """Functions that PyTorch writes in Python run as they are written, instead of being handed to a mode as one."""
    with ExitStack() as stack:
        for name in _ASKED:
            stack.enter_context(replaced(functional, name, _no))
        yield


@contextmanager
def imagined_gpu() -> Iterator[None]:
    """PyTorch's autocast for a GPU that is not there: it may be switched on, here and inside of models."""
    with (
        Placement(),
        replaced(torch.cuda.amp.common, "amp_definitely_not_available", _no),
        replaced(torch.cuda, "is_bf16_supported", _yes),
    ):
        yield


def _dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:  # noqa: ARG001
    return torch.native_dropout(input, p, training)[0] if training and p else input


def _one_hot(places: Tensor, classes: int) -> Tensor:
    """Without the look at the values that only hosts take."""
    empty = torch.zeros(*places.shape, classes, dtype=torch.int64, device=places.device)
    return empty.scatter_(-1, places.unsqueeze(-1), 1)


def attention(
    device: str, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """Attention by the kernel PyTorch 2.11 chooses on a data-centre GPU.

    cuDNN's for half precision without a mask and heads of up to 128, flash for larger heads, else the efficient one;
    none of them takes heads or masks whose elements lie apart, for which it computes products and a softmax.
    """
    if enable_gqa:
        times = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
    if query.dim() != 4:
        return _folded(device, query, key, value, attn_mask, dropout_p, is_causal, scale)
    if device == "cpu":
        return _attention_on_cpu(query, key, value, attn_mask, dropout_p, is_causal, scale)
    if any(part is not None and part.stride(-1) != 1 for part in (query, key, value, attn_mask)):
        return _aten._scaled_dot_product_attention_math(  # type: ignore[no-any-return]
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale
        )[0]
    half = attn_mask is None and query.dtype in (torch.bfloat16, torch.float16) and query.shape[-1] % 8 == 0
    keep = query.requires_grad
    if half and query.shape[-1] <= 128:
        results = _aten._scaled_dot_product_cudnn_attention(
            query, key, value, None, keep, dropout_p, is_causal, scale=scale
        )
    elif half and query.shape[-1] <= 256:
        results = _aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, scale=scale)
    else:
        results = _aten._scaled_dot_product_efficient_attention(
            query, key, value, _bias(query, key, attn_mask), keep, dropout_p, is_causal, scale=scale
        )
    return results[0]  # type: ignore[no-any-return]


def _bias(query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor | None:
    """A mask as what is added to the scores: booleans become numbers first."""
    if mask is None:
        return None
    if mask.dtype is torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(mask.logical_not(), float("-inf"))
    return mask.expand(*query.shape[:3], key.shape[2])


def _folded(
    device: str, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *rest: Any
) -> Tensor:  # fmt: skip
    """Inputs with other than four dimensions: everything before the last two is a batch of heads."""
    shape = query.shape
    heads = [part.reshape(-1, 1, *part.shape[-2:]) for part in (query, key, value)]
    wide = (
        mask.expand(*shape[:-1], key.shape[-2]).reshape(-1, 1, shape[-2], key.shape[-2]) if mask is not None else None
    )
    out = attention(device, heads[0], heads[1], heads[2], wide, rest[0], rest[1], scale=rest[2])
    return out.reshape(*shape[:-1], value.shape[-1])


def _attention_on_cpu(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, causal: bool, scale: float | None
) -> Tensor:
    """The flash kernel, which knows neither dropout nor a learned mask; else products and a softmax."""
    if dropout or (mask is not None and mask.requires_grad):
        return _aten._scaled_dot_product_attention_math(  # type: ignore[no-any-return]
            query, key, value, mask, dropout, causal, scale=scale
        )[0]
    return _aten._scaled_dot_product_flash_attention_for_cpu(  # type: ignore[no-any-return]
        query, key, value, dropout, causal, attn_mask=mask, scale=scale
    )[0]


def _cross_entropy(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Under autocast: log-probabilities in the dtype of the scores, their loss in single precision.

    The arguments are those of ``torch._C._nn.cross_entropy_loss``: input, target, weight, reduction, ignored class,
    smoothing.
    """
    source, target, weight, reduction, ignored, smoothing = (*args, *[None, 1, -100, 0.0][len(args) - 2 :])[:6]
    if target.is_floating_point() or smoothing or kwargs:
        return func(*args, **kwargs)  # type: ignore[no-any-return]
    scores = torch.log_softmax(source, 1 if source.dim() > 1 else 0, dtype=source.dtype).float()
    return torch._C._nn.nll_loss_nd(scores, target, weight, reduction, ignored)
