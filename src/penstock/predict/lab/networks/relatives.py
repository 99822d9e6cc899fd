"""Relatives of published convolutional networks: built alike, at widths and image sizes of their own.

What a library picks for a layer changes within a few channels or pixels. These lie just beside the layers people use,
where a model that has not seen one of them looks for its neighbours.
"""

from collections.abc import Callable
from functools import partial
from random import Random

from penstock.predict.capture.setup import Hook
from penstock.predict.lab.networks.published import Build, any_inception, convnext_from, shufflenet_from
from penstock.predict.lab.networks.random_sizes import any_width
from penstock.predict.zoo import image_task
from penstock.predict.zoo.branches import squeezenet
from penstock.predict.zoo.images import densenet, efficientnet, mobilenet_v2, resnet, vgg


def relative(rng: Random) -> tuple[Hook, str]:
    """A shallow network, and the optimizer its kind is trained with."""
    make = rng.choices(list(_KINDS), list(_KINDS.values()))[0]
    pixels = 224 if make is _vgg or rng.random() < 0.3 else rng.randrange(112, 337, rng.choice([8, 16, 32]))
    return partial(image_task, make(rng), pixels=pixels), "adamw" if make is _convnext else "sgd"


def _residual(rng: Random) -> Build:
    return partial(resnet, _depths(rng), first=_first(rng), width=any_width(rng, 32, 160))


def _grouped(rng: Random) -> Build:
    groups, width = rng.choice([(32, 4), (32, 8), (16, 8), (16, 16), (8, 24), (40, 4), (24, 8), (48, 4), (64, 4)])
    return partial(resnet, _depths(rng), first=_first(rng), width=width, groups=groups)


def _basic(rng: Random) -> Build:
    return partial(resnet, _depths(rng), deep=False, first=_first(rng))


def _vgg(rng: Random) -> Build:
    return partial(vgg, rng.choice([(1, 1, 2, 2, 2), (2, 2, 2, 2, 2)]), _first(rng))


def _dense(rng: Random) -> Build:
    depths = [rng.randint(1, 5) for _ in range(4)]
    return partial(densenet, depths, rng.randrange(16, 65, 8), _first(rng))


def _mobile(rng: Random) -> Build:
    return partial(mobilenet_v2, rng.uniform(0.4, 1.7), rng.choice([1, 2]))


def _efficient(rng: Random) -> Build:
    return partial(efficientnet, rng.uniform(0.6, 1.7), 1.0, rng.choice([1, 2]))


def _convnext(rng: Random) -> Build:
    return convnext_from(rng.randrange(32, 169, 8))


def _shuffle(rng: Random) -> Build:
    return shufflenet_from(rng.randrange(40, 257, 4))


def _squeeze(rng: Random) -> Build:
    return partial(squeezenet, rng.randrange(4, 15) / 8)


def _depths(rng: Random) -> tuple[int, ...]:
    return (rng.choice([1, 2]), 1, 1, rng.choice([1, 2]))


def _first(rng: Random) -> int:
    return rng.randrange(32, 113, 8)


_KINDS: dict[Callable[[Random], Build], float] = {
    _residual: 0.24, _grouped: 0.1, _basic: 0.08, _vgg: 0.08, _dense: 0.1, _mobile: 0.12, _efficient: 0.12,
    _convnext: 0.06, _shuffle: 0.04, _squeeze: 0.03, any_inception: 0.03,
}  # fmt: skip
