"""Shallow versions of published networks at random batch sizes: the layers people use, without their repetition.

A network of fifty layers has a dozen different ones. Measured shallow, at many batch sizes, image sizes and sequence
lengths, they teach more per minute. None of them is a network that predictions are tested on.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from torch import nn

from penstock.predict.capture.setup import Hook
from penstock.predict.zoo import image_task, text_task, translation_task
from penstock.predict.zoo.blocks import conv_norm, head, relu
from penstock.predict.zoo.branches import inception, shufflenet, squeezenet
from penstock.predict.zoo.images import alexnet, convnext_net, densenet, efficientnet, mobilenet_v2, resnet, vgg
from penstock.predict.zoo.tokens import EncoderDecoder, LanguageModel, TransformerShape, VisionTransformer

Build = Callable[[], nn.Module]


def images(rng: Random) -> tuple[Hook, str]:
    """A shallow convolutional network, and the optimizer its kind is trained with."""
    kind = rng.choices(list(_IMAGES), [weight for _, weight in _IMAGES.values()])[0]
    pixels = rng.choices([224, 192, 160, 256, 240, 288, 176], [0.62, 0.08, 0.08, 0.08, 0.06, 0.04, 0.04])[0]
    if kind in ("alexnet", "vgg"):
        pixels = 224
    return partial(image_task, _IMAGES[kind][0](rng), pixels=pixels), "adamw" if kind == "convnext" else "sgd"


def _residual(rng: Random) -> Build:
    width, groups = rng.choice([(64, 1), (64, 1), (128, 1), (4, 32), (8, 32), (8, 16), (24, 8), (96, 1)])
    return partial(resnet, (2, 1, 1, 2), width=width, groups=groups)


def _dense(rng: Random) -> Build:
    depths = [rng.randint(2, 6), rng.randint(3, 9), rng.randint(3, 12), rng.randint(3, 9)]
    return partial(densenet, depths, rng.choice([32, 32, 48, 40, 24]))


def _mobile(rng: Random) -> Build:
    return partial(mobilenet_v2, rng.choice([1.0, 1.0, 0.75, 1.4, 0.5]), rng.choice([1, 2]))


def _efficient(rng: Random) -> Build:
    return partial(efficientnet, rng.choice([1.0, 1.0, 1.1, 1.2, 1.4]), 1.0, rng.choice([1, 2]))


def _convnext(rng: Random) -> Build:
    return convnext_from(rng.choice([40, 48, 64, 80, 96, 96, 112, 128]))


def convnext_from(first: int) -> Build:
    """One block a stage, each stage twice as wide as the one before."""
    return partial(convnext_net, (1, 1, 1, 1), (first, 2 * first, 4 * first, 8 * first))


def _shuffle(rng: Random) -> Build:
    return shufflenet_from(rng.choice([48, 88, 116, 176, 244]))


def shufflenet_from(first: int) -> Build:
    """Two units a stage, each stage twice as wide as the one before."""
    return partial(shufflenet, (first, 2 * first, 4 * first), (2, 2, 2))


def any_inception(rng: Random) -> Build:
    """A stem and three modules of random widths, the image halved between them."""
    widths = [[rng.randrange(16 << stage, (64 << stage) + 1, 16) for _ in range(6)] for stage in range(3)]

    def build() -> nn.Module:
        layers: list[nn.Module] = [conv_norm(3, 64, 7, 2, activation=relu), nn.MaxPool2d(3, 2, 1)]
        inward = 64
        for one, narrow, three, thin, five, pooled in widths:
            layers += [inception(inward, one, (narrow, three), (thin, five), pooled), nn.MaxPool2d(3, 2, 1)]
            inward = one + three + five + pooled
        return nn.Sequential(*layers, head(inward))

    return build


_IMAGES: dict[str, tuple[Callable[[Random], Build], float]] = {
    "residual": (_residual, 0.3),
    "basic": (lambda _: partial(resnet, (2, 1, 1, 2), deep=False), 0.08),
    "vgg": (lambda rng: partial(vgg, rng.choice([(1, 1, 2, 2, 2), (2, 2, 2, 2, 2)])), 0.1),
    "alexnet": (lambda _: alexnet, 0.04),
    "dense": (_dense, 0.1),
    "mobile": (_mobile, 0.1),
    "efficient": (_efficient, 0.1),
    "convnext": (_convnext, 0.08),
    "inception": (any_inception, 0.03),
    "squeeze": (lambda rng: partial(squeezenet, rng.choice([0.5, 0.75, 1.5])), 0.03),
    "shuffle": (_shuffle, 0.04),
}

_GPT2 = {"causal": True, "fused_qkv": True, "activation": "tanh-gelu", "dropout": 0.1, "tied": True}
_BERT = {"after": True, "dropout": 0.1, "tied": True}
_LLAMA = {"causal": True, "gated": True, "rms": True, "bias": False, "rotary": True, "activation": "silu"}
_OPT = {"causal": True, "activation": "relu", "dropout": 0.1, "tied": True}
_NEOX = {"causal": True, "fused_qkv": True, "rotary": True}
_T5 = {"head_dim": 64, "rms": True, "bias": False, "rotary": True, "activation": "relu", "dropout": 0.1}
_TEXTS: tuple[tuple[dict[str, Any], tuple[int, int, int, int], tuple[int, ...]], ...] = (
    (_GPT2, (768, 12, 0, 3072), (50257, 50304)), (_GPT2, (1024, 16, 0, 4096), (50257, 50258)),
    (_GPT2, (1280, 20, 0, 5120), (50257, 50256)), (_GPT2, (1600, 25, 0, 6400), (50257, 51201)),
    (_GPT2, (2560, 32, 0, 10240), (50257, 51200)), (_BERT, (768, 12, 0, 3072), (30522, 28996, 50265)),
    (_BERT, (1024, 16, 0, 4096), (30522, 50265, 119547)), (_BERT, (512, 8, 0, 2048), (30522, 250002)),
    (_BERT, (256, 4, 0, 1024), (30522,)), (_LLAMA, (1024, 16, 0, 2816), (32000,)),
    (_LLAMA, (2048, 32, 4, 5632), (32000, 32001)), (_LLAMA, (2048, 32, 8, 8192), (128256,)),
    (_LLAMA, (3072, 24, 8, 8192), (128256,)), (_LLAMA, (4096, 32, 0, 11008), (32000,)),
    (_LLAMA, (4096, 32, 8, 14336), (32000, 128256)), (_LLAMA, (896, 14, 2, 4864), (151936,)),
    (_LLAMA, (1536, 12, 2, 8960), (151936,)), (_LLAMA, (576, 9, 3, 1536), (49152,)),
    (_LLAMA, (5120, 40, 0, 13824), (32000,)), (_OPT, (768, 12, 0, 3072), (50272,)),
    (_OPT, (1024, 16, 0, 4096), (50272,)), (_OPT, (2048, 32, 0, 8192), (50272,)), (_NEOX, (512, 8, 0, 2048), (50304,)),
    (_NEOX, (1024, 16, 0, 4096), (50304,)), (_NEOX, (2048, 16, 0, 8192), (50432,)),
    (_T5, (512, 8, 0, 2048), (32128,)), (_T5, (768, 12, 0, 3072), (32128, 32100)), (_T5, (1024, 16, 0, 4096), (32128,)),
    (_T5, (512, 6, 0, 1024), (250112,)),
)  # fmt: skip
"""Options of a kind; hidden size, heads, heads of keys and values, inner size; vocabularies."""


def text(rng: Random, odd: Callable[[Random], int]) -> tuple[Hook, int]:
    """One or two blocks of a published language model, at a sequence length that comes back too."""
    options, (hidden, heads, key_heads, inner), vocabularies = rng.choice(_TEXTS)
    vocabulary = rng.choice(vocabularies) if rng.random() < 0.85 else odd(rng)
    length = rng.choice([128, 256, 384, 512, 512, 1024, 1024, 2048, 2048])
    length = min(length, 512) if options in (_BERT, _T5) else length
    shape = TransformerShape(
        layers=rng.choice([1, 2]), hidden=hidden, heads=heads, key_heads=key_heads, inner=inner, vocabulary=vocabulary,
        length=length, **options,
    )  # fmt: skip
    if options is _T5:
        return partial(translation_task, partial(EncoderDecoder, shape), length, vocabulary), length
    build = partial(LanguageModel, shape, masked_head=options is _BERT)
    return partial(text_task, build, length, vocabulary), length


def vision(rng: Random) -> tuple[Hook, int]:
    """Two blocks of a published vision transformer, and its number of tokens."""
    hidden, heads = rng.choice([(192, 3), (384, 6), (768, 12), (768, 12), (1024, 16), (1024, 16), (1280, 16)])
    patch, pixels = rng.choice([(16, 224), (16, 224), (32, 224), (14, 224), (16, 384), (16, 256)])
    shape = TransformerShape(layers=2, hidden=hidden, heads=heads, inner=4 * hidden, fused_qkv=rng.random() < 0.8)
    build = partial(VisionTransformer, shape, patch=patch, pixels=pixels)
    return partial(image_task, build, pixels=pixels), (pixels // patch) ** 2 + 1
