"""A PyTorch model as the planner's :class:`Family`: its blocks in order, at several micro-batch sizes.

Blocks are the members of the model's sequences and lists of modules. Each becomes two operators, the block and its
output, so that recomputing the block alone means what it means elsewhere: everything inside is dropped, the output
kept. How tensors inside of an unknown block could be divided is not known, so such models are split by stages, samples,
recomputation and sharded state, not by tensors.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from penstock.core import InputError, require
from penstock.parallel.families import Family, OpWork
from penstock.parallel.operators import Volume

if TYPE_CHECKING:
    from penstock.parallel.captured.blocks import CapturedBlock
    from penstock.predict import Hook

SIZES = (1, 2, 4, 8, 16, 32, 64)
"""Micro-batches that are followed, where they divide the batch."""
MOST_SIZES = 5


@dataclass(frozen=True, kw_only=True)
class ModuleFamily(Family):
    """``captured``: the model's segments by micro-batch. ``origins``: of every kind, its segment and whether it is the
    output of that segment."""

    captured: Mapping[int, "tuple[CapturedBlock, ...]"]
    origins: tuple[tuple[int, bool], ...]

    @property
    def training_flops(self) -> float:
        size, segments = next(iter(self.captured.items()))
        return sum(segment.flops for segment in segments) / size


def is_module(text: str) -> bool:
    """Whether a name means a script or ``module:function`` rather than a model we know."""
    return text.endswith(".py") or ":" in text


def module_family(text: str, batch: int, device: str = "cuda") -> ModuleFamily:
    """The model that a script's ``penstock_model(batch)`` or ``module:function`` offers.

    ``batch`` is the global batch; the model is followed at sizes that divide it. ``device``: whose kernels it would
    run, "cuda" or "cpu".
    """
    from penstock.predict import load_hook

    require("torch", extra="runtime", why=f"following the model of {text}")
    captured = dict(_captured(text, load_hook(text), batch, device))
    segments = next(iter(captured.values()))
    size = next(iter(captured))
    parts, origins = _parts(segments, size)
    return ModuleFamily(
        name=text, parts=parts, origins=origins, captured=captured, tokens=1, style="module",
        layers=max(1, len(segments) - 2),
        tied=float(sum(segment.parameters for segment in segments) - _distinct(segments)),
        micro_batches=tuple(captured), tensor_parallel=False,
    )  # fmt: skip


def _captured(text: str, hook: "Hook", batch: int, device: str) -> "Iterator[tuple[int, tuple[CapturedBlock, ...]]]":
    """Sizes at which the model can be followed; the error of the largest if there are none."""
    sizes, problem, count = [size for size in SIZES if batch % size == 0], None, 0
    for size in sizes[-MOST_SIZES:]:
        try:
            yield size, _followed(text, hook, size, device)
            count += 1
        except InputError as refused:
            problem = refused
    if not count and problem is not None:
        raise problem


def _followed(text: str, hook: "Hook", size: int, device: str) -> "tuple[CapturedBlock, ...]":
    from penstock.parallel.captured.blocks import follow
    from penstock.predict import Setup

    try:
        found = follow(hook, size, Setup(), device)
    except InputError:
        raise
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as problem:
        raise InputError(
            f"{text} fails with a batch of {size}: {type(problem).__name__}: {problem}", "a model that runs"
        ) from problem
    return tuple(segment for segment in found if segment.calls)


def _distinct(segments: "tuple[CapturedBlock, ...]") -> int:
    """Elements of all parameters, each counted once."""
    weights: dict[int, int] = {}
    for segment in segments:
        weights |= segment.weights
    return sum(weights.values())


def _parts(
    segments: "tuple[CapturedBlock, ...]", size: int
) -> tuple[tuple[tuple[tuple[OpWork, ...], int], ...], tuple[tuple[int, bool], ...]]:
    """Runs of equal segments, each as its two operators repeated."""
    parts, origins = [], []
    for _, members in groupby(enumerate(segments), key=lambda member: member[1].signature):
        run = list(members)
        place, segment = run[0]
        works = tuple(_works(segment, size, is_end=place in (0, len(segments) - 1)))
        parts.append((works, len(run)))
        origins += [(place, is_output) for is_output in (False, True)[: len(works)]]
    return tuple(parts), tuple(origins)


def _works(segment: "CapturedBlock", size: int, *, is_end: bool) -> Iterator[OpWork]:
    inside = OpWork(
        name=segment.name, parameters=Volume(float(segment.parameters)), kept=Volume(segment.kept / size),
        sent=Volume(segment.sent / size), starts_layer=not is_end, pinned=is_end,
    )  # fmt: skip
    yield inside
    if not is_end:
        yield replace(inside, name=f"{segment.name}-output", parameters=Volume(), starts_layer=False)
