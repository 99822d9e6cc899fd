"""Networks of the literature by name, and which of them the kernel model may learn from.

A network is a function of the batch size that returns ``model, inputs, loss``: what the hook ``penstock_model`` of a
script returns. Nothing is downloaded and no weights are trained: only shapes decide the time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from penstock.core import UnknownNameError
from penstock.predict.zoo.branches import googlenet, mobilenet_v3, shufflenet, squeezenet
from penstock.predict.zoo.images import (
    alexnet,
    convnext_net,
    densenet,
    efficientnet,
    efficientnet_b0,
    mobilenet_v2,
    resnet,
    vgg,
)
from penstock.predict.zoo.tokens import EncoderDecoder, LanguageModel, TransformerShape, VisionTransformer

Loss = Callable[[Any], Tensor]
Hook = Callable[[int], tuple[nn.Module, tuple[Tensor, ...], Loss]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooNetwork:
    """A named network; ``held_out`` ones are never learned from, so that errors on them are honest."""

    name: str
    hook: Hook
    optimizer: str
    batches: tuple[int, ...]
    """Batch sizes it is measured at."""
    held_out: bool = True


def cross_entropy(targets: Tensor) -> Loss:
    def loss(scores: Tensor) -> Tensor:
        return functional.cross_entropy(scores.flatten(0, -2), targets.flatten())

    return loss


def image_task(build: Callable[[], nn.Module], batch: int, pixels: int = 224, classes: int = 1000) -> Any:
    model = build()
    return model, (torch.randn(batch, 3, pixels, pixels),), cross_entropy(torch.randint(classes, (batch,)))


def table_task(build: Callable[[], nn.Module], columns: int, classes: int, batch: int) -> Any:
    return build(), (torch.randn(batch, columns),), cross_entropy(torch.randint(classes, (batch,)))


def text_task(build: Callable[[], nn.Module], length: int, vocabulary: int, batch: int) -> Any:
    words = torch.randint(vocabulary, (batch, length))
    return build(), (words,), cross_entropy(torch.randint(vocabulary, (batch, length)))


def translation_task(build: Callable[[], nn.Module], length: int, vocabulary: int, batch: int) -> Any:
    both = tuple(torch.randint(vocabulary, (batch, length)) for _ in range(2))
    return build(), both, cross_entropy(torch.randint(vocabulary, (batch, length)))


def _bert(layers: int, hidden: int, heads: int, *, length: int = 512, vocabulary: int = 30522) -> Hook:
    shape = TransformerShape(
        layers=layers, hidden=hidden, heads=heads, inner=4 * hidden, vocabulary=vocabulary, length=512, after=True,
        dropout=0.1, tied=True,
    )  # fmt: skip
    return partial(text_task, lambda: LanguageModel(shape, masked_head=True), length, shape.vocabulary)


def _gpt2(layers: int, hidden: int, heads: int) -> Hook:
    shape = TransformerShape(
        layers=layers, hidden=hidden, heads=heads, inner=4 * hidden, vocabulary=50257, length=1024, causal=True,
        fused_qkv=True, activation="tanh-gelu", dropout=0.1, tied=True,
    )  # fmt: skip
    return partial(text_task, lambda: LanguageModel(shape), 1024, shape.vocabulary)


def _opt(layers: int, hidden: int, heads: int) -> Hook:
    shape = TransformerShape(
        layers=layers, hidden=hidden, heads=heads, inner=4 * hidden, vocabulary=50272, length=2048, causal=True,
        activation="relu", dropout=0.1, tied=True,
    )  # fmt: skip
    return partial(text_task, lambda: LanguageModel(shape), 2048, shape.vocabulary)


def _pythia(layers: int, hidden: int, heads: int) -> Hook:
    shape = TransformerShape(
        layers=layers, hidden=hidden, heads=heads, inner=4 * hidden, vocabulary=50304, causal=True, fused_qkv=True,
        rotary=True,
    )  # fmt: skip
    return partial(text_task, lambda: LanguageModel(shape), 2048, shape.vocabulary)


def _llama(
    layers: int, hidden: int, heads: int, inner: int, *, key_heads: int = 0, vocabulary: int = 32000, tied: bool = False
) -> Hook:  # fmt: skip
    shape = TransformerShape(
        layers=layers, hidden=hidden, heads=heads, key_heads=key_heads, inner=inner, vocabulary=vocabulary, causal=True,
        gated=True, rms=True, bias=False, rotary=True, activation="silu", tied=tied,
    )  # fmt: skip
    return partial(text_task, lambda: LanguageModel(shape), 2048, vocabulary)


def _vit(layers: int, hidden: int, heads: int, patch: int = 16) -> Hook:
    shape = TransformerShape(layers=layers, hidden=hidden, heads=heads, inner=4 * hidden, fused_qkv=True)
    return partial(image_task, lambda: VisionTransformer(shape, patch=patch))


def _t5(layers: int, hidden: int, heads: int, inner: int) -> Hook:
    shape = TransformerShape(
        layers=layers, hidden=hidden, heads=heads, head_dim=64, inner=inner, vocabulary=32128, rms=True, bias=False,
        rotary=True, activation="relu", dropout=0.1,
    )  # fmt: skip
    return partial(translation_task, lambda: EncoderDecoder(shape), 512, 32128)


def _learned(name: str, hook: Hook, optimizer: str, *batches: int) -> ZooNetwork:
    return ZooNetwork(name=name, hook=hook, optimizer=optimizer, batches=batches, held_out=False)


def _held_out(name: str, hook: Hook, optimizer: str, *batches: int) -> ZooNetwork:
    return ZooNetwork(name=name, hook=hook, optimizer=optimizer, batches=batches)


def _image(build: Callable[[], nn.Module], pixels: int = 224) -> Hook:
    return partial(image_task, build, pixels=pixels)


NETWORKS = (
    _learned("resnet18", _image(lambda: resnet((2, 2, 2, 2), deep=False)), "sgd", 64, 256),
    _learned("vgg16", _image(vgg), "sgd", 32, 128),
    _learned("regnet-like", _image(lambda: resnet((2, 4, 10, 2), width=6, groups=16)), "sgd", 64, 128),
    _learned("convnext-nano", _image(lambda: convnext_net((2, 2, 8, 2), (80, 160, 320, 640))), "adamw", 64, 128),
    _learned("vit-b", _vit(12, 768, 12), "adamw", 32, 128),
    _learned("bert-base", _bert(12, 768, 12), "adamw", 8, 32),
    _learned("gpt2", _gpt2(12, 768, 12), "adamw", 4, 16),
    _learned("t5-small", _t5(6, 512, 8, 2048), "adamw", 8, 32),
    _learned("llama-300m", _llama(12, 1024, 16, 2816), "adamw", 2, 8),
    _held_out("resnet34", _image(lambda: resnet((3, 4, 6, 3), deep=False)), "sgd", 64, 128, 256),
    _held_out("resnet50", _image(lambda: resnet((3, 4, 6, 3))), "sgd", 32, 64, 192),
    _held_out("resnet101", _image(lambda: resnet((3, 4, 23, 3))), "sgd", 32, 64, 128),
    _held_out("resnet152", _image(lambda: resnet((3, 8, 36, 3))), "sgd", 32, 64, 128),
    _held_out("wide-resnet50", _image(lambda: resnet((3, 4, 6, 3), width=128)), "sgd", 32, 64, 128),
    _held_out("resnext50", _image(lambda: resnet((3, 4, 6, 3), width=4, groups=32)), "sgd", 32, 64, 128),
    _held_out("vgg19", _image(lambda: vgg((2, 2, 4, 4, 4))), "sgd", 32, 64, 128),
    _held_out("alexnet", _image(alexnet), "sgd", 256, 512, 1024),
    _held_out("densenet121", _image(densenet), "sgd", 32, 64, 128),
    _held_out("mobilenet-v2", _image(mobilenet_v2), "sgd", 64, 128, 256),
    _held_out("efficientnet-b0", _image(efficientnet_b0), "sgd", 64, 128, 192),
    _held_out("convnext-tiny", _image(convnext_net), "adamw", 32, 64, 128),
    _held_out("vit-l", _vit(24, 1024, 16), "adamw", 16, 32, 64),
    _held_out("vit-s", _vit(12, 384, 6), "adamw", 64, 128, 256),
    _held_out("bert-large", _bert(24, 1024, 16), "adamw", 8, 16, 32),
    _held_out("gpt2-medium", _gpt2(24, 1024, 16), "adamw", 4, 8, 16),
    _held_out("gpt2-large", _gpt2(36, 1280, 20), "adamw", 2, 4, 8),
    _held_out("gpt2-xl", _gpt2(48, 1600, 25), "adamw", 2, 4, 8),
    _held_out("llama-1b", _llama(16, 2048, 32, 8192, key_heads=8, vocabulary=128256, tied=True), "adamw", 1, 2, 4),
    _held_out("llama-7b", _llama(32, 4096, 32, 11008), "adamw", 1, 2),
    _held_out("t5-base", _t5(12, 768, 12, 3072), "adamw", 8, 16, 32),
    _held_out("googlenet", _image(googlenet), "sgd", 128, 256),
    _held_out("squeezenet", _image(squeezenet), "sgd", 256, 512),
    _held_out("shufflenet-v2", _image(shufflenet), "sgd", 256, 512),
    _held_out("mobilenet-v3", _image(mobilenet_v3), "sgd", 192, 384),
    _held_out("efficientnet-b2", _image(lambda: efficientnet(1.1, 1.2), 260), "sgd", 64, 128),
    _held_out("densenet169", _image(lambda: densenet((6, 12, 32, 32))), "sgd", 64, 128),
    _held_out("convnext-small", _image(lambda: convnext_net((3, 3, 27, 3))), "adamw", 48, 96),
    _held_out("deit-tiny", _vit(12, 192, 3), "adamw", 192, 384),
    _held_out("vit-b-32", _vit(12, 768, 12, 32), "adamw", 192, 384),
    _held_out("roberta-large", _bert(24, 1024, 16, length=384, vocabulary=50265), "adamw", 12, 24),
    _held_out("opt-1.3b", _opt(24, 2048, 32), "adamw", 2, 4),
    _held_out("pythia-410m", _pythia(24, 1024, 16), "adamw", 2, 4),
    _held_out("qwen2-0.5b", _llama(24, 896, 14, 4864, key_heads=2, vocabulary=151936, tied=True), "adamw", 2, 4),
    _held_out("smollm-360m", _llama(32, 960, 15, 2560, key_heads=5, vocabulary=49152, tied=True), "adamw", 3, 6),
    _held_out("t5-large", _t5(24, 1024, 16, 4096), "adamw", 6, 12),
)
"""Every network with the batch sizes it was measured at. The ones held out share no layer shapes on purpose."""

_BY_NAME = {network.name: network for network in NETWORKS}


def network_named(name: str) -> ZooNetwork:
    """The network of a name; a wrong one gets the nearest suggested."""
    if name not in _BY_NAME:
        raise UnknownNameError.of("network", name, _BY_NAME, "Or give a script.py or module:function")
    return _BY_NAME[name]
