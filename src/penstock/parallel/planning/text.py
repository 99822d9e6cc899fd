"""A plan as a person reads it: which devices hold which layers, split how, and what that is expected to cost."""

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from penstock.core import ParallelPlan, ParallelStage, format_bytes, format_duration
from penstock.parallel.full_cost import Prediction, StagePrediction
from penstock.parallel.operators import OpChain
from penstock.parallel.planning.candidates import Candidate, Planned

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
BAR_CELLS = 10
MOST_NODES = 16


def letter(stage: int) -> str:
    """One sign per stage; signs repeat after the sixty-second."""
    return LETTERS[stage % len(LETTERS)]


def plan_picture(planned: Planned) -> str:
    """Devices by node, then stages with their share of the model and their memory."""
    plan, chain = planned.plan, planned.family.chain()
    return "\n".join(
        [*headline(planned), "", *device_map(plan, planned.mesh.per_node), "", *stage_lines(planned, chain)]
    )


def headline(planned: Planned) -> Iterator[str]:
    prediction, family = planned.prediction, planned.family
    peak = " of the bf16 peak" if planned.fp8 else ""
    yield (
        f"{family.name} ({family.parameters / 1e9:.2f} billion parameters) on {planned.mesh.name}, "
        f"batch {planned.plan.global_batch}"
        + (f" x {family.tokens} tokens" if family.tokens > 1 else "")
        + (", linear layers in fp8" if planned.fp8 else "")
    )
    yield (
        f"{format_duration(prediction.iteration_s)} per iteration, {prediction.samples_per_s:.4g} samples/s, "
        f"MFU {100 * prediction.utilisation:.1f} %{peak}, bubble {100 * prediction.bubble:.1f} %"
    )
    yield plan_words(planned.plan)


def plan_words(plan: ParallelPlan) -> str:
    """The whole plan in one line."""
    words = [
        f"{len(plan.stages)} stage{'s' * (len(plan.stages) > 1)}",
        f"{plan.micro_batches} micro-batches of {plan.micro_batch}",
    ]
    words += (
        [f"{plan.schedule.value}" + (f" x{plan.interleave}" if plan.interleave > 1 else "")]
        if len(plan.stages) > 1
        else []
    )
    words += [f"ZeRO {plan.zero}"] if plan.zero else []
    words += ["sequence parallel"] if plan.sequence_parallel else []
    words += [f"context {plan.context}"] if plan.context > 1 else []
    words += [f"experts over {plan.experts}"] if plan.experts > 1 else []
    return ", ".join(words)


def device_map(plan: ParallelPlan, per_node: int) -> Iterator[str]:
    """One line per node, one sign per device: the stage it works on."""
    signs = "".join(letter(number) * stage.devices for number, stage in enumerate(plan.stages))
    lines = [signs[at : at + per_node] for at in range(0, len(signs), per_node)]
    for number, line in enumerate(lines[:MOST_NODES]):
        yield f"node {number:<3} {' '.join(line)}"
    if len(lines) > MOST_NODES:
        yield f"… and {len(lines) - MOST_NODES} more nodes"


def stage_lines(planned: Planned, chain: OpChain) -> Iterator[str]:
    plan, prediction = planned.plan, planned.prediction
    yield f"{'stage':<6}{'devices':>8}  {'layers':<12}{'split':<18}{'recompute':<11}{'ms':>9}  memory"
    for number, (stage, cost) in enumerate(zip(plan.stages, prediction.stages, strict=True)):
        slow = "  slowest" if number == prediction.bottleneck and len(plan.stages) > 1 else ""
        memory = memory_bar(cost, planned.mesh.memory_bytes)
        yield (
            f"{letter(number):<6}{stage.devices:>8}  {layers_of(chain, plan, number):<12}{split_of(stage, plan):<18}"
            f"{recompute_of(stage):<11}{1e3 * cost.micro_batch_s:>9.1f}  {memory}{slow}"
        )


def layers_of(chain: OpChain, plan: ParallelPlan, number: int) -> str:
    """How many layers start in a stage, and what else it holds."""
    start, stop = plan.cuts[number], plan.cuts[number + 1]
    count = int(np.count_nonzero(chain.starts_layer[start:stop]))
    ends = ("in+" if start == 0 else ""), ("+out" if stop == chain.size else "")
    inside = stop < chain.size and not chain.starts_layer[stop]
    return f"{ends[0]}{count}{ends[1]}{'~' if inside else ''}"


def split_of(stage: ParallelStage, plan: ParallelPlan) -> str:
    pairs = [pair for pair, _ in groupby(zip(stage.tp, stage.dp, strict=True))]
    context = f" cp{plan.context}" if plan.context > 1 else ""
    distinct = list(dict.fromkeys(pairs))
    words = " | ".join(f"tp{tp} dp{dp}" for tp, dp in distinct[:2]) + (" …" if len(distinct) > 2 else "")
    return words + context


def recompute_of(stage: ParallelStage) -> str:
    share = sum(stage.recompute) / stage.ops
    return "none" if not share else "all" if share > 0.95 else f"{100 * share:.0f} %"


def memory_bar(cost: StagePrediction, limit: float) -> str:
    share = cost.memory.total / limit
    full = min(BAR_CELLS, round(share * BAR_CELLS))
    return "█" * full + "░" * (BAR_CELLS - full) + f" {format_bytes(cost.memory.total)} ({100 * share:.0f} %)"


def plan_findings(planned: Planned) -> Iterator[str]:
    """What bounds the plan, what was tried, how far from the bound."""
    prediction = planned.prediction
    yield f"time goes to: {', '.join(f'{name} {100 * share:.1f} %' for name, share in shares(prediction))}"
    if not planned.fits:
        needed, limit = format_bytes(prediction.memory_bytes), format_bytes(planned.mesh.memory_bytes)
        yield f"does not fit: {needed} on the fullest device, and a plan may use {limit}"
    if planned.best.origin == "own":
        yield from _own_findings(planned)
        return
    counts = ", ".join(f"{count} {origin}" for origin, count in planned.tried.items())
    spent, origin = format_duration(planned.seconds), origin_words(planned.best)
    yield f"tried: {counts} plans that fit in {spent}; the best is from the {origin}"
    yield _bound_words(planned)
    if planned.export_only:
        yield f"export only: {planned.export_only}"


def _own_findings(planned: Planned) -> Iterator[str]:
    yield _bound_words(planned)
    if planned.export_only:
        yield f"export only: {planned.export_only}"


def _bound_words(planned: Planned) -> str:
    bound = format_duration(planned.bound_s)
    return f"no plan can take less than {bound}: at most {100 * planned.gap:.1f} % could be saved"


def origin_words(candidate: Candidate) -> str:
    return {"uniform": "uniform grid", "polish": "polished uniform grid or search"}.get(
        candidate.origin, candidate.origin
    )


def shares(prediction: Prediction) -> Sequence[tuple[str, float]]:
    """Parts of the iteration as the slowest stage sees them, largest first."""
    slowest = prediction.stages[prediction.bottleneck]
    count = prediction.plan.micro_batches * prediction.straggling
    parts = {
        "forward and backward": (slowest.forward_s + slowest.backward_s) * count,
        "recomputation": slowest.recompute_s * count,
        "transfers and resharding": (slowest.transfer_s + slowest.reshard_s) * count,
        "sharded weights": slowest.sync.per_micro_batch_s * count,
        "bubble": prediction.bubble * prediction.pipeline_s,
        "gradients": prediction.exposed_sync_s + prediction.tied_s,
        "optimizer": prediction.optimizer_s,
    }
    ranked = sorted(parts.items(), key=lambda part: -part[1])
    return [
        (name, seconds / prediction.iteration_s)
        for name, seconds in ranked
        if seconds > 0.0005 * prediction.iteration_s
    ]


def plan_comparison(planned: Planned) -> Iterator[str]:
    """The plan beside the best one that is the same on every stage."""
    if planned.uniform is None:
        yield "no uniform plan fits; only unequal stages do"
        return
    if planned.uniform.plan == planned.plan:
        yield "the best plan is a uniform one"
    rows = [("best", planned.best), ("uniform", planned.uniform)] if planned.uniform.plan != planned.plan else []
    rows += [(f"other {number}", other) for number, other in enumerate(planned.others[:5], start=1)]
    yield f"{'':<9}{'s/iteration':>12}{'bubble':>9}{'gradients':>11}{'memory':>10}  plan"
    for name, candidate in rows:
        p, words = candidate.prediction, plan_words(candidate.plan)
        yield (
            f"{name:<9}{p.iteration_s:>12.3f}{100 * p.bubble:>8.1f}%{p.exposed_sync_s:>10.3f}s"
            f"{format_bytes(p.memory_bytes):>10}  {split_of(candidate.plan.stages[0], candidate.plan)}: {words}"
        )
    if planned.uniform.plan != planned.plan:
        gain = planned.uniform.iteration_s / planned.best.iteration_s - 1
        yield f"the best uniform plan takes {100 * gain:.1f} % longer"
