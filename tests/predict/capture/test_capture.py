"""A model's iteration is followed without running it: the right kernels, counted right, for every way to train."""

import resource
from collections import Counter
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from penstock.core import InputError
from penstock.predict.capture import Capture, Setup, TrainingPhase, capture
from penstock.predict.capture.unknown_values import Origin, _compared
from penstock.predict.kernels import ImageLayout, KernelCall, Precision
from penstock.predict.zoo import network_named


def _calls(seen: Capture, family: str) -> Counter[KernelCall]:
    found: Counter[KernelCall] = Counter()
    for each in seen.calls:
        if each.call.family == family:
            found[each.call] += each.count
    return found


def _two_layers(batch: int) -> Any:
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
    return model, torch.randn(batch, 32)


def test_linear_layers_become_three_products_but_the_first_has_no_input_gradient() -> None:
    seen = capture(_two_layers, 16, Setup(precision="fp32", optimizer="sgd"))
    dims = Counter({call.dims: count for call, count in _calls(seen, "gemm").items()})
    assert dims == {(1, 16, 64, 32): 1, (1, 16, 8, 64): 1, (1, 16, 64, 8): 1, (1, 64, 32, 16): 1, (1, 8, 64, 16): 1}
    assert seen.parameters == 32 * 64 + 64 + 64 * 8 + 8
    assert seen.flops >= 2 * 16 * (2 * 32 * 64 + 3 * 64 * 8)


class _ChannelsMoved(nn.Module):
    """A convolution whose result is read channels-last, as by a norm over channels: so its gradient comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        moved = self.second(self.first(images)).permute(0, 2, 3, 1)
        return moved.contiguous().square()


@pytest.mark.parametrize(("device", "copies"), [("cuda", 1), ("cpu", 0)])
def test_a_gradient_that_lies_otherwise_is_copied_once_for_all_gradients_of_a_convolution(
    device: str, copies: int
) -> None:
    seen = capture(lambda batch: (_ChannelsMoved(), torch.randn(batch, 3, 12, 12)), 4, Setup(), device=device)
    back = [each.call for each in seen.calls if each.phase is TrainingPhase.BACKWARD]
    assert sum(call.variant == "copy/s" and call.dims[0] == 4 * 16 * 12 * 12 for call in back) == copies
    if device == "cuda":
        assert {call.layout for call in back if call.family.startswith("conv")} == {ImageLayout.CHANNELS_FIRST}


def test_pools_that_choose_their_windows_are_another_kernel() -> None:
    model = nn.Sequential(nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(3), nn.MaxPool2d(2))
    seen = capture(lambda batch: (model, torch.randn(batch, 4, 24, 24, requires_grad=True)), 2, Setup(precision="fp32"))
    assert [call.variant for call in _calls(seen, "pool")] == ["avg", "adaptive", "max"]


def test_resnet50_has_its_published_size() -> None:
    seen = capture(network_named("resnet50").hook, 4, Setup(optimizer="sgd"))
    assert seen.parameters == 25_557_032
    forward = sum(
        each.call.flops * each.count
        for each in seen.calls
        if each.phase is TrainingPhase.FORWARD and each.call.family in ("conv", "gemm")
    )
    assert forward / 4 / 2 == pytest.approx(4.09e9, rel=0.01)  # multiply-adds per image, He et al.
    assert sum(_calls(seen, "conv").values()) == sum(_calls(seen, "conv_wgrad").values()) == 53
    assert sum(_calls(seen, "conv_dgrad").values()) == 52  # images need no gradient


@pytest.mark.parametrize(
    ("name", "millions"),
    [("vgg16", 138.4), ("bert-base", 109.5), ("gpt2", 124.4), ("gpt2-xl", 1557.6), ("vit-l", 304.3)],
)
def test_networks_have_their_published_parameters(name: str, millions: float) -> None:
    assert capture(network_named(name).hook, 1).parameters / 1e6 == pytest.approx(millions, rel=0.002)


def test_seven_billion_parameters_are_followed_without_holding_them() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seen = capture(network_named("llama-7b").hook, 1)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert seen.parameters == 6_738_415_616
    assert grown < 1e6  # kilobytes
    assert seen.memory.weights == 2 * seen.parameters


def test_attention_runs_fused_and_forward_and_backward() -> None:
    seen = capture(network_named("gpt2").hook, 2)
    (forward,), (backward,) = _calls(seen, "attention"), _calls(seen, "attention_bwd")
    assert forward.dims == backward.dims == (2, 12, 1024, 1024, 64, 1)
    assert _calls(seen, "attention")[forward] == 12
    assert forward.flops == 4 * 2 * 12 * 1024 * 1024 * 64 / 2
    assert not _calls(seen, "softmax").keys() - {call for call in _calls(seen, "softmax") if "log" in call.variant}


def test_autocast_multiplies_in_bf16_and_normalises_in_fp32() -> None:
    plain = capture(network_named("bert-base").hook, 1, Setup(precision="tf32"))
    cast = capture(network_named("bert-base").hook, 1, Setup(precision="amp-bf16"))
    assert {call.precision for call in _calls(plain, "gemm")} == {Precision.TF32}
    assert {call.precision for call in _calls(cast, "gemm")} == {Precision.BF16}
    assert {call.precision for call in _calls(cast, "norm")} == {Precision.FP32}
    casts = [call for call in _calls(cast, "copy") if call.variant == "copy/m"]
    assert sum(_calls(cast, "copy")[call] for call in casts) > 100
    assert cast.memory.weights == plain.memory.weights


def test_channels_last_stays_channels_last_through_the_network() -> None:
    seen = capture(network_named("resnet18").hook, 8, Setup(layout=ImageLayout.CHANNELS_LAST))
    layouts = Counter(call.layout for family in ("conv", "conv_dgrad", "conv_wgrad") for call in _calls(seen, family))
    assert layouts == {ImageLayout.CHANNELS_LAST: layouts.total()}
    norms = [call for call in _calls(seen, "norm") if call.layout is ImageLayout.CHANNELS_FIRST]
    assert not norms


def test_optimizers_differ_in_kernels_and_state() -> None:
    kinds = {name: capture(_two_layers, 4, Setup(optimizer=name)) for name in ("sgd", "adamw", "adamw-foreach")}
    variants = {name: {call.variant for call in _calls(seen, "optimizer")} for name, seen in kinds.items()}
    assert "fused_adamw" in variants["adamw"]
    assert {"foreach_lerp", "foreach_addcdiv"} <= variants["adamw-foreach"]
    assert variants["sgd"] == {"foreach_add", "foreach_mul"}
    assert kinds["adamw"].memory.optimizer == 2 * kinds["sgd"].memory.optimizer


def test_recomputing_blocks_trades_memory_for_work() -> None:
    hook = network_named("bert-base").hook
    plain, again = (capture(hook, 4, Setup(recompute=flag)) for flag in (False, True))
    assert again.memory.activations < 0.4 * plain.memory.activations
    assert again.memory.peak < plain.memory.peak
    assert 1.2 < again.flops / plain.flops < 1.4


def test_activations_grow_with_the_batch_and_weights_do_not() -> None:
    small, large = (capture(network_named("resnet18").hook, batch).memory for batch in (8, 16))
    assert small.weights == large.weights
    assert large.activations == pytest.approx(2 * small.activations, rel=0.01)


class _Looks(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.layer, self.how = nn.Linear(4, 4), how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        if self.how == "count":
            return y[: int(y.argmax())]  # looked at here
        if self.how == "numpy":
            return y * float(y.detach().numpy().sum())  # or here
        if self.how == "item":
            return y * y.mean().item()
        return y if y.sum() > 0 else -y


@pytest.mark.parametrize(("how", "words"), [("count", "looked at here"), ("numpy", "or here")])
def test_a_model_whose_sizes_depend_on_values_is_refused_with_the_line_that_does(how: str, words: str) -> None:
    with pytest.raises(InputError, match="reads the value of a tensor") as caught:
        capture(lambda batch: (_Looks(how), torch.randn(batch, 4)), 2)
    assert words in str(caught.value)
    assert "test_capture.py" in str(caught.value)


@pytest.mark.parametrize(("how", "words"), [("item", "taken as 1"), ("if", "taken as true")])
def test_values_that_change_no_sizes_are_assumed_and_said(how: str, words: str) -> None:
    seen = capture(lambda batch: (_Looks(how), torch.randn(batch, 4)), 2)
    assert seen.waits == 1
    assert any(words in each for each in seen.assumed)


def test_named_inputs_and_a_model_that_returns_its_loss() -> None:
    class Output:
        def __init__(self, loss: torch.Tensor) -> None:
            self.loss = loss

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 1)

        def forward(self, values: torch.Tensor, scale: torch.Tensor) -> Output:
            return Output((self.layer(values) * scale).mean())

    seen = capture(lambda batch: (Model(), {"values": torch.randn(batch, 4), "scale": torch.randn(1)}), 3)
    assert sum(_calls(seen, "gemm").values()) == 2


@pytest.mark.parametrize("offered", [None, nn.Linear(2, 2), (1, 2)])
def test_a_hook_that_returns_something_else_is_told_what_to_return(offered: Any) -> None:
    with pytest.raises(InputError, match="model, inputs or model, inputs, loss"):
        capture(lambda _: offered, 2)


def test_wrong_setups_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="bf16"):
        Setup(precision="bfloat")
    with pytest.raises(InputError, match="adamw"):
        Setup(optimizer="adamm")
    with pytest.raises(InputError, match="at least 1"):
        capture(_two_layers, 0)


def test_torch_modules_with_attention_inside_are_followed_too() -> None:
    layer = partial(nn.TransformerEncoderLayer, 64, 4, 128, batch_first=True, dropout=0.0)
    seen = capture(lambda batch: (layer(), torch.randn(batch, 16, 64)), 2, Setup(precision="fp32"))
    assert sum(_calls(seen, "attention").values()) == sum(_calls(seen, "attention_bwd").values()) == 1
    assert not _calls(seen, "softmax")
    assert sum(_calls(seen, "gemm").values()) == 12 - 1  # the input needs no gradient


def _joined(layout: torch.memory_format) -> KernelCall:
    def hook(batch: int) -> object:
        class Twice(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.scale = nn.Parameter(torch.ones(8, 1, 1))

            def forward(self, images: torch.Tensor) -> torch.Tensor:
                return torch.cat([images, self.scale * images], 1)

        return Twice(), torch.randn(batch, 8, 5, 5).to(memory_format=layout)

    (call,) = (call for call in _calls(capture(hook, 4), "copy") if call.variant == "cat" and call.dims[2] == 2)
    return call


def test_joined_numbers_are_as_many_tensors() -> None:
    def hook(batch: int) -> Any:
        model, inputs = _two_layers(batch)
        return model, inputs, lambda out: torch.stack([out.sum(), out.mean(), out.amax()]).sum()

    (call,) = (call for call in _calls(capture(hook, 4), "copy") if call.variant == "cat")
    assert call.dims == (3, 1, 3)


def test_joining_says_how_long_the_stretches_are_that_lie_together() -> None:
    assert _joined(torch.contiguous_format).dims == (4 * 16 * 25, 8 * 25, 2)
    assert _joined(torch.channels_last).dims == (4 * 16 * 25, 8, 2)


@pytest.mark.parametrize(("layout", "plane"), [(ImageLayout.CHANNELS_FIRST, 49), (ImageLayout.CHANNELS_LAST, 1)])
def test_batch_norm_says_how_the_pixels_of_a_channel_lie(layout: ImageLayout, plane: int) -> None:
    seen = capture(network_named("resnet18").hook, 8, Setup(layout=layout))
    for family in ("norm", "norm_bwd"):
        assert (512, 8 * 49, plane) in {call.dims for call in _calls(seen, family)}


def test_gradients_lie_as_devices_lay_them_out() -> None:
    """Behind a mean over pixels they come channels first, even where everything else is channels last."""
    seen = capture(network_named("mobilenet-v2").hook, 2, Setup(layout=ImageLayout.CHANNELS_LAST))
    layouts = {call.layout for call in _calls(seen, "norm_bwd") if call.dims[0] == 1280}
    assert layouts == {ImageLayout.CHANNELS_FIRST}


@pytest.mark.parametrize(
    ("name", "bound", "density"),
    [("lt", 3, 0.3), ("le", 3, 0.3), ("gt", 3, 0.7), ("ge", 3, 0.7), ("lt", -1, 0.0), ("gt", 11, 0.0), ("lt", 11, 1.0)],
)
def test_how_many_classes_lie_below_a_bound(name: str, bound: int, density: float) -> None:
    found = _compared(name, (None, bound), [Origin(classes=10)])
    assert found is not None
    assert found.density == pytest.approx(density)
