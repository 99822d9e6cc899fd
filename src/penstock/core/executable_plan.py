"""Which plans our runtime can run, and what is in the way of the others: the rules, apart from PyTorch."""

from penstock.core.gpt_chain import gpt_layers
from penstock.core.parallel_plan import ParallelPlan, PipelineSchedule

_ORDERLY = (PipelineSchedule.ONE_F_ONE_B, PipelineSchedule.GPIPE)


def why_not_executable(plan: ParallelPlan) -> str | None:
    """Why the runtime cannot execute this plan, or ``None`` if it can; such plans are for export only."""
    return next(filter(None, (reason(plan) for reason in _REASONS)), None)


def evenly_split(plan: ParallelPlan) -> bool:
    """Whether every stage is split the same way, as PyTorch's own pipeline schedules expect."""
    return len({(stage.tp[0], stage.dp[0]) for stage in plan.stages}) == 1


def _other_model(plan: ParallelPlan) -> str | None:
    family = plan.model.lower().partition("-")[0]
    if family != "gpt" or not gpt_layers(plan.ops):
        return f"only the GPT family runs here, and {plan.model!r} with {plan.ops} operators is not of it"
    return None


def _mixed_stage(plan: ParallelPlan) -> str | None:
    mixed = [number for number, stage in enumerate(plan.stages) if not stage.is_uniform]
    return f"the operators of stage {mixed[0]} are split in different ways" if mixed else None


def _other_variant(plan: ParallelPlan) -> str | None:
    swapped = [number for number, stage in enumerate(plan.stages) if any(stage.variant)]
    return f"stage {swapped[0]} swaps column and row partition" if swapped else None


def _uneven_schedule(plan: ParallelPlan) -> str | None:
    if plan.schedule not in _ORDERLY and not evenly_split(plan):
        return f"the {plan.schedule} schedule needs the same tp and dp in every stage"
    return None


def _odd_interleave(plan: ParallelPlan) -> str | None:
    interleaved = plan.schedule is PipelineSchedule.INTERLEAVED
    layers = gpt_layers(plan.ops)
    if interleaved and len(plan.stages) * plan.interleave > layers:
        return f"{len(plan.stages)} stages x {plan.interleave} chunks are more than {layers} layers"
    if not interleaved and plan.interleave > 1:
        return f"{plan.interleave} chunks per stage need the interleaved schedule, not {plan.schedule}"
    return None


def _sharded_zero_bubble(plan: ParallelPlan) -> str | None:
    if plan.schedule is PipelineSchedule.ZERO_BUBBLE and plan.zero > 1:
        return (
            "the zero-bubble schedule computes weight gradients apart, which sharded weights (ZeRO 2, 3) do not allow"
        )
    return None


_REASONS = (_other_model, _mixed_stage, _other_variant, _uneven_schedule, _odd_interleave, _sharded_zero_bubble)
