"""What every export needs to know about a plan: is it one a trainer's flags can say, and what are the flags?"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from penstock.core import ParallelPlan, PlanError
from penstock.parallel.families import Family
from penstock.parallel.operators import OpChain
from penstock.parallel.planning.uniform_plans import Recompute, recomputed
from penstock.predict import Chip, Precision


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """Text for a file or a command line; ``notes`` say where the trainer's plan differs from ours, and by how much."""

    trainer: str
    text: str
    launch: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Flat:
    """A plan with one tensor- and one data-parallel degree and whole layers per stage.

    ``recomputed_layers``: of a stage under full recomputation. ``notes``: what had to be rounded to get here.
    """

    plan: ParallelPlan
    tp: int
    dp: int
    layers: tuple[int, ...]
    recompute: Recompute
    recomputed_layers: int
    notes: tuple[str, ...]

    @property
    def pp(self) -> int:
        return len(self.layers)

    @property
    def even(self) -> bool:
        return len(set(self.layers)) == 1

    @property
    def micro_batch(self) -> int:
        """Per device, as trainers count it."""
        return self.plan.micro_batch // self.dp

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """Layers of every chunk of every stage: ``chunks[round][stage]``, in the order the model runs through them.

        Where they do not divide, the first chunk of all, with the embedding, and the last, with the loss, have less.
        """
        rounds, dealt = self.plan.interleave, []
        for number, count in enumerate(self.layers):
            least, more = divmod(count, rounds)
            dealt.append([least + ((rounds - 1 - turn if number == 0 else turn) < more) for turn in range(rounds)])
        return tuple(zip(*dealt, strict=True))


def flattened(plan: ParallelPlan, family: Family, trainer: str) -> Flat:
    """The plan in the words every trainer shares; unequal degrees are refused, cuts inside layers are rounded."""
    degrees = {(tp, dp) for stage in plan.stages for tp, dp in zip(stage.tp, stage.dp, strict=True)}
    if len(degrees) > 1:
        shown = ", ".join(f"tp {tp} x dp {dp}" for tp, dp in sorted(degrees))
        raise PlanError(
            f"{trainer} cannot run a plan that mixes {shown}", "the same degrees for every operator and stage",
            "Export the uniform plan instead: --uniform",
        )  # fmt: skip
    (tp, dp), chain = degrees.pop(), family.chain()
    layers, rounded = layers_per_stage(chain, plan)
    if min(layers[0] + 1, *layers[1:-1], layers[-1] + 1) < plan.interleave or min(layers) < 1:
        raise PlanError(
            f"{trainer} deals whole layers to stages, and one of them would have {min(layers)} for "
            f"{plan.interleave} chunks", "a layer for every chunk but those of the embedding and the loss",
            "Export the uniform plan: --uniform",
        )  # fmt: skip
    how, count, approximate = recompute_of(chain, family, plan)
    notes = []
    if rounded:
        notes.append("stages are cut inside layers; the nearest whole layers are exported")
    if approximate:
        notes.append(f"single operators are recomputed; {how} recomputation of {count} layers per stage is the nearest")
    return Flat(
        plan=plan, tp=tp, dp=dp, layers=layers, recompute=how, recomputed_layers=count, notes=tuple(notes)
    )  # fmt: skip


def layers_per_stage(chain: OpChain, plan: ParallelPlan) -> tuple[tuple[int, ...], bool]:
    """Whole layers of each stage, and whether a cut had to be moved to the nearest border."""
    starts = np.flatnonzero(chain.starts_layer)
    borders = np.append(starts, chain.size)
    inner = [int(np.abs(borders - cut).argmin()) for cut in plan.cuts[1:-1]]
    marks = [0, *inner, len(starts)]
    rounded = any(cut not in set(starts.tolist()) for cut in plan.cuts[1:-1])
    return tuple(int(n) for n in np.diff(marks)), rounded


def recompute_of(chain: OpChain, family: Family, plan: ParallelPlan) -> tuple[Recompute, int, bool]:
    """The nearest thing a flag can say, the layers it applies to, and whether it is only near."""
    flags = np.concatenate([np.array(stage.recompute, bool) for stage in plan.stages])
    if not flags.any():
        return Recompute.NONE, 0, False
    for how in (Recompute.NORMS, Recompute.SELECTIVE):
        whole = np.array(recomputed(chain, family, how), bool)
        if whole.mean() < 1 and not (flags & ~whole).any():
            return how, 0, bool((flags & whole).sum() < whole.sum())
    free = ~chain.pinned
    if flags[free].mean() > 0.95:
        return Recompute.FULL, _most_layers(chain, plan, flags), False
    return Recompute.FULL, _most_layers(chain, plan, flags), True


def _most_layers(chain: OpChain, plan: ParallelPlan, flags: NDArray[np.bool_]) -> int:
    """Layers with a recomputed operator, in the stage that has most of them."""
    layer = np.cumsum(chain.starts_layer)
    cuts = plan.cuts
    counts = [
        len(np.unique(layer[start:stop][flags[start:stop]]))
        for start, stop in pairwise(cuts)
    ]  # fmt: skip
    return max(counts)


def half_precision(chip: Chip) -> Precision:
    """What training in half precision means on the device: bf16 came with Ampere, fp16 before it."""
    return Precision.BF16 if Precision.BF16 in dict(chip.peaks) else Precision.FP16
