"""What a trainer really runs of a plan, and what the difference costs.

Trainers deal whole layers, recompute in a few ways and shard in their own. What they will run is a plan too: it is
priced like any other, so that a note can say how much longer it takes, and refused where it would not fit.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np

from penstock.core import ParallelPlan, ParallelStage, PlanError, format_bytes
from penstock.parallel.devices import ChipMesh
from penstock.parallel.exports.common import Flat
from penstock.parallel.families import Family
from penstock.parallel.full_cost import Prediction, predict
from penstock.parallel.operators import OpChain
from penstock.parallel.planning.candidates import Candidate
from penstock.parallel.planning.planner import Planner
from penstock.parallel.planning.uniform_plans import Recompute, recomputed

NEGLIGIBLE = 5e-4
"""Of an iteration or of a device's memory: differences that nobody needs to be told."""


def as_run(flat: Flat, family: Family) -> ParallelPlan:
    """The plan that the flags describe: whole layers per stage, the same recomputation in each."""
    chain = family.chain()
    starts = np.flatnonzero(chain.starts_layer)
    inner = [int(starts[border]) for border in list(accumulate(flat.layers))[:-1]]
    again = _recomputed(chain, family, flat, [0, *inner, chain.size])
    stages = tuple(
        replace(
            ParallelStage.uniform(stop - start, tp=flat.tp, dp=flat.dp, context=flat.plan.context),
            recompute=tuple(again[start:stop]),
        )
        for start, stop in pairwise([0, *inner, chain.size])
    )
    return replace(flat.plan, stages=stages)


def _recomputed(chain: OpChain, family: Family, flat: Flat, cuts: list[int]) -> list[bool]:
    """Flags of every operator; under full recomputation those of the first layers of every stage."""
    if flat.recompute is not Recompute.FULL or flat.recomputed_layers >= max(flat.layers):
        return recomputed(chain, family, flat.recompute)
    flags = np.array(recomputed(chain, family, Recompute.FULL))
    layer = np.cumsum(chain.starts_layer)
    for start, stop in pairwise(cuts):
        own = layer[start:stop] - (layer[start] if chain.starts_layer[start] else layer[start] + 1)
        flags[start:stop] &= own < flat.recomputed_layers
    return list(flags.tolist())


def priced(plan: ParallelPlan, candidate: Candidate, family: Family) -> Prediction:
    """What is expected of ``plan`` on the devices and tables that the candidate was priced with."""
    view = candidate.prediction.stages[0].view
    return predict(
        plan, view.tables, view.mesh, tied_bytes=family.element_bytes * family.tied,
        sample_flops=family.training_flops,
    )  # fmt: skip


def overlap_notes(candidate: Candidate, family: Family, mesh: ChipMesh, trainer: str) -> Iterator[str]:
    """What it costs a trainer that runs the collectives of tensor parallelism between products, not behind them."""
    if not candidate.trainer.overlaps_tensors or not candidate.plan.sequence_parallel:
        return
    without = replace(candidate.trainer, overlaps_tensors=False)
    plan = candidate.plan
    planner = Planner(family=family, mesh=mesh, batch=plan.global_batch, trainer=without)
    slower = planner.evaluated(plan).best.iteration_s / candidate.iteration_s - 1
    yield (
        f"{trainer} runs the collectives of tensor parallelism between products, not behind them: an iteration takes "
        f"{100 * slower:.1f} % longer"
    )


def cost_notes(flat: Flat, candidate: Candidate, family: Family, mesh: ChipMesh, trainer: str) -> Iterator[str]:
    """How the trainer's plan differs in time and memory; refuses one that would not fit."""
    plan = as_run(flat, family)
    if plan == candidate.plan:
        return
    ours, theirs = candidate.prediction, priced(plan, candidate, family)
    if theirs.memory_bytes > mesh.memory_bytes:
        raise PlanError(
            f"as {trainer} can say it, the plan needs {format_bytes(theirs.memory_bytes)} per device",
            f"{format_bytes(mesh.memory_bytes)} on {mesh.name}",
            "Export the uniform plan (--uniform) or plan with less --memory",
        )  # fmt: skip
    slower = theirs.iteration_s / ours.iteration_s - 1
    more = theirs.memory_bytes - ours.memory_bytes
    words = [f"{100 * abs(slower):.1f} % {'longer' if slower > 0 else 'less'}"] if abs(slower) > NEGLIGIBLE else []
    if more > NEGLIGIBLE * mesh.memory_bytes:
        words.append(f"{format_bytes(more)} more of a device")
    if words:
        yield f"as exported an iteration takes {' and '.join(words)} than the plan"
