"""How stages and micro-batches interleave in time: the iteration each schedule takes.

``busy`` is what one micro-batch costs each stage in all. All schedules keep the slowest stage busy for every
micro-batch; they differ in how long it waits for the first and after the last one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.core import PipelineSchedule


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Seconds of one micro-batch on one stage; the weight gradient is the part of the backward nobody waits for."""

    forward: float
    backward: float
    weight_gradient: float

    @property
    def busy(self) -> float:
        return self.forward + self.backward


def iteration_s(stages: Sequence[StageTimes], micro_batches: int, schedule: PipelineSchedule, chunks: int = 1) -> float:
    """From the first forward to the last backward pass."""
    slowest = max(range(len(stages)), key=lambda number: stages[number].busy)
    waiting = sum(_fill(stage, schedule, chunks) for number, stage in enumerate(stages) if number != slowest)
    return micro_batches * stages[slowest].busy + waiting


def _fill(stage: StageTimes, schedule: PipelineSchedule, chunks: int) -> float:
    """What a stage adds to the wait of the slowest one.

    1F1B and GPipe: a whole micro-batch. Interleaved: one of the stage's chunks (Narayanan et al., SC'21).
    Zero-bubble: weight gradients fill the gaps on both sides (ZB-H1 of Qi et al., ICLR'24).
    """
    if schedule is PipelineSchedule.INTERLEAVED:
        return stage.busy / chunks
    if schedule is PipelineSchedule.ZERO_BUBBLE:
        return max(0.0, stage.busy - 2 * stage.weight_gradient)
    return stage.busy


def in_flight(number: int, stages: int, micro_batches: int, schedule: PipelineSchedule, chunks: int = 1) -> float:
    """Micro-batches whose activations stage ``number`` holds at the same time.

    Interleaved: a stage runs all chunks but one of a round ahead, then two for each stage behind it, before its first
    backward pass (the warm-up of Narayanan et al., SC'21); late stages hold nearly as much as early ones.
    """
    if schedule is PipelineSchedule.GPIPE:
        return micro_batches
    held = float(stages - number)
    if schedule is PipelineSchedule.INTERLEAVED and stages > 1:
        held = ((chunks - 1) * stages + 2 * (stages - number - 1) + 1) / chunks
    return min(held, micro_batches)
