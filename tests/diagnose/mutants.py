"""Forty operators with one mistake each, as people have made them: in forward, backward and update.

Each is a whole implementation, in NumPy: it depends on no other operator of the library that it breaks.
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from penstock.diagnose.operators.reference import attention, losses, norms, pointwise, products, updates
from penstock.diagnose.operators.reference.attention import AttentionShape
from penstock.diagnose.operators.reference.norms import RunningStatistics
from penstock.diagnose.operators.reference.products import ConvolutionShape
from tests.diagnose.broken_library import broken_kernel, broken_update


@dataclass(frozen=True)
class Mutant:
    """``operator`` is where the mistake is, as a report must name it."""

    name: str
    operator: str
    phase: str
    kind: str
    broken: Callable[[], AbstractContextManager[None]]


MUTANTS: list[Mutant] = []


def _kernel(kind: str, phase: str = "forward", *, operator: str | None = None) -> Callable[[Callable[..., Any]], None]:
    """Register a function, named like the kernel that it replaces and what is wrong with it: ``mm__wrong_axis``."""

    def register(function: Callable[..., Any]) -> None:
        kernel, _, mistake = function.__name__.partition("__")
        named = operator or kernel.strip("0")
        MUTANTS.append(Mutant(f"{kernel}: {mistake.replace('_', ' ')}", named, phase, kind,
                              lambda: broken_kernel(kernel, function)))  # fmt: skip

    return register


def _a(tensor: Tensor | None) -> Any:
    return None if tensor is None else tensor.detach().double().numpy()


def _t(array: Any, like: Tensor) -> Tensor:
    return torch.from_numpy(np.array(array)).to(like.dtype)


# --- products --------------------------------------------------------------------------------------------------------


@_kernel("wrong axis")
def addmm__bias_added_to_rows(bias: Tensor, x: Tensor, w: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    out = _a(x) @ _a(w)
    return _t(out + np.resize(_a(bias), (len(out), 1)), x)


@_kernel("dtype down-cast")
def addmm__products_in_half_precision(
    bias: Tensor, x: Tensor, w: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    return _t(_a(bias) + x.detach().numpy().astype(np.float16).astype(np.float64) @ _a(w), x)


@_kernel("missing transpose", "backward")
def mm__square_matrices_not_transposed(x: Tensor, w: Tensor) -> Tensor:
    left, right = _a(x), _a(w)
    return _t(left @ (right.T if right.shape[0] == right.shape[1] else right), x)


@_kernel("uninitialised tail", "backward")
def mm__last_row_left_as_it_was(x: Tensor, w: Tensor) -> Tensor:
    out = _a(x) @ _a(w)
    if len(out) % 4:
        out[-1] = 1e-3
    return _t(out, x)


@_kernel("race in reduction", "backward")
def mm__a_lost_update_now_and_then(x: Tensor, w: Tensor) -> Tensor:
    lost = np.random.default_rng().uniform(0.5, 1.0)
    return _t(_a(x)[:, :-1] @ _a(w)[:-1] + lost * np.outer(_a(x)[:, -1], _a(w)[-1]), x)


def _convolution_shape(stride: Any, padding: Any, dilation: Any, groups: int) -> ConvolutionShape:
    return ConvolutionShape(stride=tuple(stride), padding=tuple(padding), dilation=tuple(dilation), groups=groups)


@_kernel("off-by-one padding")
def convolution__image_moved_by_one(x, w, b, stride, padding, dilation, transposed, extra, groups):
    shape = _convolution_shape(stride, padding, dilation, groups)
    moved = np.roll(_a(x), 1, axis=-1)
    moved[..., 0] = 0
    return _t(products.convolution(moved, _a(w), _a(b), shape), x)


@_kernel("missing transpose")
def convolution__kernel_flipped(x, w, b, stride, padding, dilation, transposed, extra, groups):
    shape = _convolution_shape(stride, padding, dilation, groups)
    return _t(products.convolution(_a(x), np.swapaxes(_a(w), -1, -2), _a(b), shape), x)


@_kernel("wrong reduction")
def convolution__last_channel_left_out(x, w, b, stride, padding, dilation, transposed, extra, groups):
    shape = _convolution_shape(stride, padding, dilation, groups)
    weight = _a(w).copy()
    weight[:, -1] = 0
    return _t(products.convolution(_a(x), weight, _a(b), shape), x)


def _convolution_grads(g, x, w, stride, padding, dilation, groups):
    return products.convolution_backward(_a(g), _a(x), _a(w), _convolution_shape(stride, padding, dilation, groups))


@_kernel("wrong reduction", "backward")
def convolution_backward__bias_averaged(g, x, w, sizes, stride, padding, dilation, transposed, extra, groups, mask):
    dx, dw, db = _convolution_grads(g, x, w, stride, padding, dilation, groups)
    return tuple(_t(each, x) for each in (dx, dw, db / len(g)))


@_kernel("sign", "backward")
def convolution_backward__weight_negated(g, x, w, sizes, stride, padding, dilation, transposed, extra, groups, mask):
    dx, dw, db = _convolution_grads(g, x, w, stride, padding, dilation, groups)
    return tuple(_t(each, x) for each in (dx, -dw, db))


@_kernel("off-by-one padding", "backward")
def convolution_backward__image_moved_by_one(
    g, x, w, sizes, stride, padding, dilation, transposed, extra, groups, mask
):
    dx, dw, db = _convolution_grads(g, x, w, stride, padding, dilation, groups)
    return tuple(_t(each, x) for each in (np.roll(dx, 1, axis=-2), dw, db))


# --- norms -----------------------------------------------------------------------------------------------------------


def _normed(x, mean, variance, w, b, eps):
    rstd = 1 / np.sqrt(variance + eps)
    return _t((_a(x) - mean) * rstd * _a(w) + _a(b), x), _t(mean, x), _t(rstd, x)


@_kernel("biased/unbiased variance")
def native_layer_norm__unbiased_variance(x, over, w, b, eps):
    array = _a(x)
    return _normed(x, array.mean(-1, keepdims=True), array.var(-1, keepdims=True, ddof=1), w, b, eps)


@_kernel("eps placement")
def native_layer_norm__eps_outside_of_the_root(x, over, w, b, eps):
    array = _a(x)
    mean, rstd = array.mean(-1, keepdims=True), 1 / (array.std(-1, keepdims=True) + eps)
    return _t((array - mean) * rstd * _a(w) + _a(b), x), _t(mean, x), _t(rstd, x)


@_kernel("wrong axis")
def native_layer_norm__over_the_axis_before(x, over, w, b, eps):
    array = _a(x)
    seen = norms.layer_norm(array, 1, None, None, eps)
    mean, rstd = array.mean(-2, keepdims=True), 1 / np.sqrt(array.var(-2, keepdims=True) + eps)
    return _t((array - mean) * rstd * _a(w) + _a(b), x), _t(seen.mean, x), _t(seen.rstd, x)


@_kernel("wrong reduction", "backward")
def native_layer_norm_backward__term_of_the_mean_forgotten(g, x, over, mean, rstd, w, b, mask):
    dx, dw, db = norms.layer_norm_backward(_a(g), _a(x), 1, _a(mean), _a(rstd), _a(w))
    inner = _a(g) * _a(w)
    return _t(dx + _a(rstd) * inner.mean(-1, keepdims=True), x), _t(dw, x), _t(db, x)


@_kernel("wrong axis", "backward")
def native_layer_norm_backward__weight_and_bias_swapped(g, x, over, mean, rstd, w, b, mask):
    dx, dw, db = norms.layer_norm_backward(_a(g), _a(x), 1, _a(mean), _a(rstd), _a(w))
    return _t(dx, x), _t(db, x), _t(dw, x)


def _batch_norm(x, w, b, mean, variance, momentum, eps, after):
    seen = norms.batch_norm(_a(x), _a(w), _a(b), None, eps)
    mean.copy_(torch.from_numpy(after.mean))
    variance.copy_(torch.from_numpy(after.variance))
    return _t(seen.out, x), _t(seen.mean, x), _t(seen.rstd, x)


def _before(mean, variance):
    return RunningStatistics(mean=_a(mean).copy(), variance=_a(variance).copy())


@_kernel("stale running mean")
def native_batch_norm__running_mean_stays(x, w, b, mean, variance, training, momentum, eps):
    after = _before(mean, variance).updated(_a(x), momentum)
    return _batch_norm(x, w, b, mean, variance, momentum, eps,
                       RunningStatistics(mean=_a(mean).copy(), variance=after.variance))  # fmt: skip


@_kernel("biased/unbiased variance")
def native_batch_norm__running_variance_biased(x, w, b, mean, variance, training, momentum, eps):
    after = _before(mean, variance).updated(_a(x), momentum)
    biased = (1 - momentum) * _a(variance) + momentum * _a(x).var(axis=(0, 2, 3))
    return _batch_norm(x, w, b, mean, variance, momentum, eps, RunningStatistics(mean=after.mean, variance=biased))


@_kernel("stale running mean")
def native_batch_norm__momentum_the_other_way_round(x, w, b, mean, variance, training, momentum, eps):
    return _batch_norm(x, w, b, mean, variance, momentum, eps, _before(mean, variance).updated(_a(x), 1 - momentum))


@_kernel("wrong reduction", "backward")
def native_batch_norm_backward__statistics_taken_for_constants(g, x, w, mean, var, saved, rstd, training, eps, mask):
    grads = norms.batch_norm_backward(_a(g), _a(x), _a(w), _a(saved), _a(rstd), training=False)
    return tuple(_t(each, x) for each in grads)


@_kernel("wrong axis")
def native_group_norm__channels_dealt_out_to_groups(x, w, b, n, c, area, groups, eps):
    array = _a(x)
    dealt = array.reshape(n, c // groups, groups, -1).swapaxes(1, 2).reshape(array.shape)
    seen = norms.group_norm(dealt, groups, None, None, eps)
    back = seen.out.reshape(n, groups, c // groups, -1).swapaxes(1, 2).reshape(array.shape)
    shape = (1, c, *(1 for _ in array.shape[2:]))
    return _t(back * _a(w).reshape(shape) + _a(b).reshape(shape), x), _t(seen.mean, x), _t(seen.rstd, x)


# --- softmax, losses, lookups ----------------------------------------------------------------------------------------


@_kernel("wrong axis")
def _softmax__over_the_axis_before(x, axis, to_float):
    return _t(losses.softmax(_a(x), axis - 1), x)


@_kernel("wrong reduction", "backward")
def _softmax_backward_data__sum_of_gradients_not_weighted(g, out, axis, dtype):
    return _t(_a(out) * (_a(g) - _a(g).mean(axis, keepdims=True)), g)


@_kernel("uninitialised tail")
def _log_softmax__last_class_not_in_the_sum(x, axis, to_float):
    array = _a(x)
    head = np.take(array, range(array.shape[axis] - 1), axis)
    return _t(array - np.log(np.exp(head).sum(axis, keepdims=True)), x)


@_kernel("sign", "backward")
def _log_softmax_backward_data__wrong_sign(g, out, axis, dtype):
    return _t(_a(g) + np.exp(_a(out)) * _a(g).sum(axis, keepdims=True), g)


@_kernel("wrong reduction", operator="nll_loss2d_forward")
def nll_loss2d_forward__mean_over_all_and_not_over_those_that_count(x, target, w, reduction, ignored):
    total, weight = losses.nll_loss(_a(x), target.numpy(), _a(w), losses.SUM, ignored)
    return _t(total / target.numel(), x), _t(weight, x)


@_kernel("wrong reduction", "backward", operator="nll_loss2d_backward")
def nll_loss2d_backward__sum_in_place_of_the_mean(g, x, target, w, reduction, ignored, total):
    return _t(losses.nll_loss_backward(_a(g), _a(x), target.numpy(), _a(w), losses.SUM, ignored), x)


@_kernel("off-by-one padding")
def embedding__row_before_the_last_for_the_last(table, words, padding=-1, scale=False, sparse=False):
    return _t(_a(table)[np.minimum(words.numpy(), len(table) - 2)], table)


@_kernel("race in reduction", "backward")
def embedding_dense_backward__repeated_words_overwrite(g, words, rows, padding, by_frequency):
    out = np.zeros((rows, g.shape[-1]))
    out[words.numpy().reshape(-1)] = _a(g).reshape(-1, g.shape[-1])
    return _t(out, g)


# --- attention -------------------------------------------------------------------------------------------------------

_ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"


def _attention_kernel(kind: str, phase: str, mistake: str, function: Callable[..., Any]) -> None:
    kernel = _ATTENTION + ("_backward" if phase == "backward" else "")
    MUTANTS.append(Mutant(f"attention: {mistake}", kernel, phase, kind, lambda: broken_kernel(kernel, function)))


def _unscaled(q, k, v, drop=0.0, causal=False, *, attn_mask=None, scale=None):
    shape = AttentionShape(causal=causal, scale=1.0)
    return _t(attention.attention(_a(q), _a(k), _a(v), shape), q), _t(attention.log_sum_exp(_a(q), _a(k), shape), q)


def _sees_the_next(q, k, v, drop=0.0, causal=False, *, attn_mask=None, scale=None):
    ahead = np.where(np.tri(q.shape[-2], k.shape[-2], 1) > 0, 0.0, -np.inf)
    shape = AttentionShape(bias=ahead)
    return _t(attention.attention(_a(q), _a(k), _a(v), shape), q), _t(attention.log_sum_exp(_a(q), _a(k), shape), q)


def _mask_forgotten(g, q, k, v, out, sums, drop, causal, *, attn_mask=None, scale=None):
    grads = attention.attention_backward(_a(g), _a(q), _a(k), _a(v), AttentionShape())
    return tuple(_t(each, q) for each in grads)


def _scale_forgotten(g, q, k, v, out, sums, drop, causal, *, attn_mask=None, scale=None):
    dq, dk, dv = attention.attention_backward(_a(g), _a(q), _a(k), _a(v), AttentionShape(causal=causal))
    return _t(dq, q), _t(dk * math.sqrt(q.shape[-1]), k), _t(dv, v)


_attention_kernel("missing 1/keep scaling", "forward", "scores not scaled", _unscaled)
_attention_kernel("off-by-one padding", "forward", "causal mask lets the next key through", _sees_the_next)
_attention_kernel("wrong axis", "backward", "causal mask forgotten", _mask_forgotten)
_attention_kernel("missing 1/keep scaling", "backward", "gradient of keys not scaled", _scale_forgotten)

# --- activations and dropout -----------------------------------------------------------------------------------------


@_kernel("dtype down-cast")
def gelu__tanh_where_erf_was_asked_for(x, *, approximate="none"):
    return _t(pointwise.gelu(_a(x), tanh=True), x)


@_kernel("sign", "backward")
def gelu_backward__density_subtracted(g, x, *, approximate="none"):
    right, array = pointwise.gelu_backward(_a(g), _a(x)), _a(x)
    return _t(right - 2 * _a(g) * array * np.exp(-0.5 * array * array) / math.sqrt(2 * math.pi), g)


@_kernel("wrong reduction", "backward")
def silu_backward__gradient_of_the_gate_alone(g, x):
    return _t(_a(g) * pointwise.sigmoid(_a(x)), g)


@_kernel("missing 1/keep scaling")
def native_dropout__kept_values_not_scaled(x, share, training):
    mask = torch.rand(x.shape) >= share
    return x * mask, mask


@_kernel("missing 1/keep scaling", "backward")
def native_dropout_backward__gradient_not_scaled(g, mask, scale):
    return _t(_a(g) * mask.numpy(), g)


# --- updates ---------------------------------------------------------------------------------------------------------


def _update(kind: str, optimizer: type[torch.optim.Optimizer], mistake: str, wrong: Callable[..., Any]) -> None:
    """An optimizer that takes each step by ``wrong``, a reference with a mistake."""

    def step(self: torch.optim.Optimizer) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    state = {key: _a(value) for key, value in self.state[weight].items()}
                    value, kept = wrong(_a(weight), _a(weight.grad), state, group)
                    weight.data.copy_(torch.from_numpy(value))
                    self.state[weight] = {key: torch.from_numpy(np.array(each)).float() for key, each in kept.items()}

    name = f"{optimizer.__name__} update"
    MUTANTS.append(Mutant(f"{name}: {mistake}", name, "update", kind, lambda: broken_update(optimizer, step)))


def _twice(value, grad, state, group):
    return updates.adamw(value, grad, state, {**group, "lr": 2 * group["lr"]})


def _no_correction(value, grad, state, group):
    _, kept = updates.adamw(value, grad, state, group)
    step = group["lr"] * kept["exp_avg"] / (np.sqrt(kept["exp_avg_sq"]) + group["eps"])
    return value * (1 - group["lr"] * group["weight_decay"]) - step, kept


def _eps_inside(value, grad, state, group):
    _, kept = updates.adamw(value, grad, state, group)
    count = float(kept["step"])
    first, second = group["betas"]
    mean, square = kept["exp_avg"] / (1 - first**count), kept["exp_avg_sq"] / (1 - second**count)
    shrunk = value * (1 - group["lr"] * group["weight_decay"])
    return shrunk - group["lr"] * mean / np.sqrt(square + group["eps"]), kept


def _decay_in_gradient(value, grad, state, group):
    return updates.adam(value, grad, state, group)


def _ascent(value, grad, state, group):
    return updates.sgd(value, -grad, state, group)


def _stale_momentum(value, grad, state, group):
    before = state.get("momentum_buffer", np.zeros_like(value))
    _, kept = updates.sgd(value, grad, state, group)
    return value - group["lr"] * before, kept


_update("lr applied twice", torch.optim.AdamW, "learning rate applied twice", _twice)
_update("bias correction missing", torch.optim.AdamW, "no bias correction", _no_correction)
_update("eps placement", torch.optim.AdamW, "epsilon inside of the root", _eps_inside)
_update("wrong reduction", torch.optim.AdamW, "weight decay in the gradient", _decay_in_gradient)
_update("sign", torch.optim.SGD, "ascends", _ascent)
_update("stale running mean", torch.optim.SGD, "steps by the momentum before", _stale_momentum)


def _clipped_one_by_one(weights, most, **_):
    for weight in weights:
        if weight.grad is not None:
            weight.grad.mul_(min(1.0, most / (float(weight.grad.norm()) + 1e-6)))


MUTANTS.append(
    Mutant("clipping: each gradient by its own norm", "gradient clipping", "update", "wrong reduction",
           lambda: patch.object(torch.nn.utils, "clip_grad_norm_", _clipped_one_by_one))
)  # fmt: skip
