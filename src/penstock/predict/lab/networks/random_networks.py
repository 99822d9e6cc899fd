"""Random small networks of common blocks: together they cover the shapes that real networks are made of.

Measuring operations inside little networks instead of one by one gives each its usual neighbours: what lies in the
cache, how warm the chip is, which layout the operation before left. Every network is of another family of shapes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

from torch import nn

from penstock.predict.capture.setup import Hook, Setup
from penstock.predict.kernels.calls import ImageLayout
from penstock.predict.lab.networks import published
from penstock.predict.lab.networks.random_sizes import any_batch, any_vocabulary, any_width, log_uniform, rounded
from penstock.predict.lab.networks.relatives import relative
from penstock.predict.zoo import blocks, image_task, table_task, text_task, translation_task
from penstock.predict.zoo.tokens import EncoderDecoder, LanguageModel, TransformerShape, VisionTransformer


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomNetwork:
    """A random network and how it is trained; the same seed draws the same one."""

    label: str
    hook: Hook
    batch: int
    setup: Setup


_ON_GPU = {"bf16": 0.38, "tf32": 0.34, "fp16": 0.05, "fp32": 0.06, "amp-bf16": 0.17}
_ON_CPU = {"fp32": 1.0}


CPU_SCALES = (0.2, 0.08, 0.03)
"""How large images, batches and texts are on a CPU, against a GPU; the later ones for draws that take too long."""


def random_network(seed: int, device: str = "cuda", *, scale: float | None = None) -> RandomNetwork:
    """Network number ``seed``. A CPU gets smaller images, batches and texts, single precision and plain layers too."""
    rng = Random(seed)
    on_cpu = device == "cpu"
    shares = _KINDS_ON_CPU if on_cpu else _KINDS_ON_GPU
    make = rng.choices(list(shares), list(shares.values()))[0]
    precisions = _ON_CPU if on_cpu else _ON_GPU
    made = make(rng, seed, scale or (CPU_SCALES[0] if on_cpu else 1.0))
    precision = rng.choices(list(precisions), list(precisions.values()))[0]
    return replace(made, setup=replace(made.setup, precision=precision))


def _setup(rng: Random, *, layout: ImageLayout = ImageLayout.CHANNELS_FIRST) -> Setup:
    optimizer = rng.choices(["adamw", "sgd", "adamw-foreach"], [0.45, 0.45, 0.1])[0]
    return Setup(layout=layout, optimizer=optimizer)


Stage = Callable[[int, int, int], nn.Module]


def _stage_maker(rng: Random) -> Stage:
    """One kind of block with its own options; called with channels in, channels out and the stride."""
    kind = rng.choices(["basic", "bottleneck", "grouped", "inverted", "dense", "convnext", "plain"],
                       [0.18, 0.24, 0.08, 0.22, 0.1, 0.08, 0.1])[0]  # fmt: skip
    kernel = rng.choices([3, 5, 7], [0.65, 0.28, 0.07])[0]
    expand, gate = rng.choice([1, 2, 4, 6]), rng.random() < 0.5
    activation = rng.choice([blocks.relu6, blocks.silu, blocks.relu])
    ratio, cardinality, group_width = rng.choice([2, 4, 4, 4]), rng.choice([8, 16, 32]), rng.choice([4, 8, 16])

    def build(inward: int, outward: int, stride: int) -> nn.Module:
        if kind == "basic":
            return blocks.basic(inward, outward, stride)
        if kind == "bottleneck":
            return blocks.bottleneck(inward, outward, stride, rounded(outward / ratio, 8))
        if kind == "grouped":
            return blocks.bottleneck(inward, outward, stride, cardinality * group_width, cardinality)
        if kind == "inverted":
            return blocks.inverted(
                inward, outward, stride, expand=expand, kernel=kernel, squeeze=gate, activation=activation
            )
        if kind == "dense":
            growth = rounded(outward / 4, 8)
            wider, end = inward + growth, nn.AvgPool2d(2) if stride > 1 else nn.Identity()
            return nn.Sequential(
                blocks.Dense(inward, growth), blocks.Dense(wider, growth), nn.BatchNorm2d(wider + growth),
                blocks.relu(), nn.Conv2d(wider + growth, outward, 1, bias=False), end,
            )  # fmt: skip
        if kind == "convnext":
            return nn.Sequential(
                nn.Conv2d(inward, outward, max(stride, 1), max(stride, 1)), blocks.convnext(outward, 7)
            )
        pool: list[nn.Module] = [nn.MaxPool2d(2)] if stride > 1 else []
        return nn.Sequential(nn.Conv2d(inward, outward, kernel, padding=kernel // 2), blocks.relu(), *pool)

    return build


def _convolutional(rng: Random, seed: int, scale: float) -> RandomNetwork:
    pixels = rng.choice([224, 224, 224, 192, 256, 160, 128, 96, 288])
    pixels = rounded(pixels * scale**0.5, 16)
    if scale == 1 and rng.random() < 0.15:
        pixels -= rng.randint(1, 15)
    batch = any_batch(rng, 8, max(12.0, 256 * scale))
    layout = rng.choice([ImageLayout.CHANNELS_FIRST, ImageLayout.CHANNELS_FIRST, ImageLayout.CHANNELS_LAST])
    plan = _stages(rng)

    top = _head(rng, plan[1], plan[2], scale)

    def build() -> nn.Module:
        return nn.Sequential(*(part() for part in plan[0]), top())

    setup = _setup(rng, layout=layout)
    return RandomNetwork(
        label=f"cnn-{seed}", hook=partial(image_task, build, pixels=pixels, classes=plan[2]), batch=batch, setup=setup
    )


def _head(rng: Random, channels: int, classes: int, scale: float) -> Callable[[], nn.Module]:
    """Mostly a pooled linear layer; sometimes the wide fully connected layers of older networks."""
    if rng.random() < 0.85:
        return partial(blocks.head, channels, classes)
    side, wide = rng.choice([2, 4, 6, 7]), rounded(log_uniform(rng, 512, 6000) * scale, 64)

    def build() -> nn.Module:
        return nn.Sequential(
            nn.AdaptiveAvgPool2d(side), nn.Flatten(), nn.Linear(channels * side * side, wide), blocks.relu(),
            nn.Dropout(0.5), nn.Linear(wide, wide), blocks.relu(), nn.Dropout(0.5), nn.Linear(wide, classes),
        )  # fmt: skip

    return build


def _stages(rng: Random) -> tuple[list[Callable[[], nn.Module]], int, int]:
    """A stem and three to five stages of one or two blocks, halving the image as they widen."""
    width = any_width(rng, 16, 128)
    kernel, stride = rng.choice([(7, 2), (3, 2), (3, 1), (4, 4), (5, 2), (11, 4)])
    stem: Callable[[], nn.Module] = (
        partial(nn.Conv2d, 3, width, 4, 4)
        if kernel == 4
        else partial(blocks.conv_norm, 3, width, kernel, stride, 1, blocks.relu)
    )
    parts: list[Callable[[], nn.Module]] = [stem]
    if kernel == 7 or stride == 1:
        parts.append(partial(nn.MaxPool2d, *rng.choice([(3, 2, 1), (2, 2, 0), (3, 2, 0)])))
    inward = width
    for stage in range(rng.randint(3, 5)):
        maker = _stage_maker(rng)
        outward = min(2048, any_width(rng, inward, inward * rng.choice([1.5, 2, 2, 3, 4])))
        parts.append(partial(maker, inward, outward, 2 if stage else 1))
        if rng.random() < 0.6:
            parts.append(partial(maker, outward, outward, 1))
        inward = outward
    return parts, inward, rng.choice([10, 100, 1000, 1000])


def _shape(rng: Random, scale: float, **options: Any) -> TransformerShape:
    head_dim = rng.choices([64, 128, 80, 96, 32], [0.5, 0.27, 0.08, 0.08, 0.07])[0]
    fewest = 4 if scale == 1 else 2
    heads = max(2, round(log_uniform(rng, fewest, max(6.0, 72 * scale)) * 64 / head_dim))
    hidden, gated = heads * head_dim, rng.random() < 0.4
    inner = rounded(hidden * rng.choice([4, 4, 4, 2.6875, 3, 2]), 64)
    grouped = [count for count in (1, 2, 4, 8) if heads % count == 0 and count < heads]
    return TransformerShape(
        layers=rng.choice([1, 2]), hidden=hidden, heads=heads, head_dim=head_dim, inner=inner, gated=gated,
        key_heads=rng.choice(grouped) if gated and grouped and rng.random() < 0.4 else 0,
        rms=rng.random() < 0.35, bias=rng.random() < 0.65, after=rng.random() < 0.25, fused_qkv=rng.random() < 0.5,
        activation=rng.choice(["gelu", "tanh-gelu", "silu", "relu"]), dropout=rng.choice([0.0, 0.0, 0.1]), **options,
    )  # fmt: skip


def _text(rng: Random, seed: int, scale: float) -> RandomNetwork:
    length = rng.choice([128, 256, 384, 512, 512, 1024, 1024, 2048, 2048, 4096])
    length = max(32, rounded(length * scale, 32))
    vocabulary = any_vocabulary(rng) if scale == 1 else round(log_uniform(rng, 1000, 40000))
    shape = _shape(
        rng, scale, vocabulary=vocabulary, length=length, causal=rng.random() < 0.6,
        rotary=rng.random() < 0.4, tied=rng.random() < 0.5,
    )  # fmt: skip
    batch = max(1, round(log_uniform(rng, 1024, max(2048.0, 40000 * scale)) / length))
    masked, both = rng.random() < 0.3, rng.random() < 0.2
    hook: Hook = partial(text_task, partial(LanguageModel, shape, masked_head=masked), length, shape.vocabulary)
    if both:
        hook = partial(translation_task, partial(EncoderDecoder, shape), length, shape.vocabulary)
    return RandomNetwork(label=f"text-{seed}", hook=hook, batch=batch, setup=_setup(rng))


def _vision(rng: Random, seed: int, scale: float) -> RandomNetwork:
    patch, pixels = rng.choice([16, 16, 14, 32, 8]), rng.choice([224, 224, 256, 384, 160])
    pixels = max(2, round(pixels * scale**0.5 / patch)) * patch
    shape = _shape(rng, scale)
    build = partial(VisionTransformer, shape, patch=patch, pixels=pixels)
    length = (pixels // patch) ** 2 + 1
    batch = max(1, any_batch(rng, max(1.0, 1500 / length), max(4.0, 40000 * scale / length)))
    hook = partial(image_task, build, pixels=pixels)
    return RandomNetwork(label=f"vision-{seed}", hook=hook, batch=batch, setup=_setup(rng))


def _layers(rng: Random, seed: int, scale: float) -> RandomNetwork:
    """Fully connected layers alone, as for tables and digits."""
    widths = [any_width(rng, 16, 8000 * scale) for _ in range(rng.randint(3, 6))]
    classes, norm, drop = rng.choice([2, 10, 100]), rng.random() < 0.3, rng.choice([0.0, 0.0, 0.2])
    act = rng.choice([nn.ReLU, nn.GELU, nn.Tanh])

    def build() -> nn.Module:
        parts: list[nn.Module] = []
        for inward, outward in pairwise(widths):
            parts += [nn.Linear(inward, outward), *([nn.BatchNorm1d(outward)] if norm else []), act(), nn.Dropout(drop)]
        return nn.Sequential(*parts, nn.Linear(widths[-1], classes))

    batch = any_batch(rng, 16, max(64.0, 5000 * scale))
    return RandomNetwork(
        label=f"layers-{seed}", hook=partial(table_task, build, widths[0], classes), batch=batch, setup=_setup(rng)
    )


def _known_images(rng: Random, seed: int, _: float) -> RandomNetwork:
    return _images(rng, seed, published.images)


def _kindred_images(rng: Random, seed: int, _: float) -> RandomNetwork:
    return _images(rng, seed, relative)


def _images(rng: Random, seed: int, network: Callable[[Random], tuple[Hook, str]]) -> RandomNetwork:
    hook, optimizer = network(rng)
    layout = rng.choice([ImageLayout.CHANNELS_FIRST, ImageLayout.CHANNELS_FIRST, ImageLayout.CHANNELS_LAST])
    batch = rng.choice([16, 24, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256, 320, 384])
    return RandomNetwork(label=f"cnn-{seed}", hook=hook, batch=batch, setup=Setup(layout=layout, optimizer=optimizer))


def _known_text(rng: Random, seed: int, _: float) -> RandomNetwork:
    hook, length = published.text(rng, any_vocabulary)
    batch = max(1, round(log_uniform(rng, 1024, 24000) / length))
    return RandomNetwork(label=f"text-{seed}", hook=hook, batch=batch, setup=Setup())


def _known_vision(rng: Random, seed: int, _: float) -> RandomNetwork:
    hook, length = published.vision(rng)
    batch = any_batch(rng, max(4.0, 2000 / length), max(8.0, 60000 / length))
    return RandomNetwork(label=f"vision-{seed}", hook=hook, batch=batch, setup=Setup())


_Maker = Callable[[Random, int, float], RandomNetwork]
_KINDS_ON_CPU: dict[_Maker, float] = {_convolutional: 0.5, _text: 0.27, _vision: 0.15, _layers: 0.08}
_KINDS_ON_GPU: dict[_Maker, float] = {
    _convolutional: 0.18, _kindred_images: 0.26, _known_images: 0.16, _text: 0.13, _known_text: 0.14, _vision: 0.06,
    _known_vision: 0.07,
}  # fmt: skip
