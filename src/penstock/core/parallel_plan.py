"""How one model is split over devices: what the search finds, the exports write out and the runtime runs.

A model is a chain of operators. A plan cuts the chain into pipeline stages and says, for every operator, how many
ways its tensors (``tp``) and its samples (``dp``) are split, whether it is computed again in the backward pass, and
which of its partition variants is used. Axes that hold for the whole model are fields of the plan itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Any

from penstock.core.errors import PlanError


class PipelineSchedule(StrEnum):
    """In which order a stage works on its micro-batches."""

    ONE_F_ONE_B = "1f1b"
    GPIPE = "gpipe"
    INTERLEAVED = "interleaved"
    ZERO_BUBBLE = "zero-bubble"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelStage:
    """A run of consecutive operators on ``devices`` devices; one entry per operator in every tuple."""

    devices: int
    tp: tuple[int, ...]
    dp: tuple[int, ...]
    recompute: tuple[bool, ...]
    variant: tuple[int, ...]

    def __post_init__(self) -> None:
        lengths = {len(self.tp), len(self.dp), len(self.recompute), len(self.variant)}
        if lengths == {0} or len(lengths) != 1:
            raise PlanError(f"a stage whose lists have lengths {sorted(lengths)}", "one entry per operator in each")
        if self.devices < 1 or any(n < 1 for n in (*self.tp, *self.dp)):
            raise PlanError(f"a stage on {self.devices} devices with a degree below 1", "1 or more")

    @classmethod
    def uniform(
        cls, ops: int, *, tp: int = 1, dp: int = 1, recompute: bool = False, context: int = 1
    ) -> "ParallelStage":
        """The same split for every operator."""
        return cls(
            devices=tp * dp * context, tp=(tp,) * ops, dp=(dp,) * ops, recompute=(recompute,) * ops,
            variant=(0,) * ops,
        )  # fmt: skip

    @property
    def ops(self) -> int:
        return len(self.tp)

    @property
    def is_uniform(self) -> bool:
        """Whether every operator of the stage is split the same way."""
        return len(set(self.tp)) == len(set(self.dp)) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelPlan:
    """A whole configuration. ``micro_batch`` counts the samples of one micro-batch over all data-parallel replicas.

    ``zero`` is the ZeRO stage (0 none, 1 optimizer state, 2 and gradients, 3 and weights); ``interleave`` the number
    of model chunks per stage; ``context`` the ways a sequence is split beside ``tp`` and ``dp``; ``experts`` the
    replicas over which the experts of a layer are divided.
    """

    model: str
    global_batch: int
    micro_batch: int
    stages: tuple[ParallelStage, ...]
    schedule: PipelineSchedule = PipelineSchedule.ONE_F_ONE_B
    interleave: int = 1
    zero: int = 0
    sequence_parallel: bool = False
    context: int = 1
    experts: int = 1

    def __post_init__(self) -> None:
        if not self.stages:
            raise PlanError("a plan without stages", "at least one")
        if self.micro_batch < 1 or self.global_batch % self.micro_batch:
            raise PlanError(
                f"a global batch of {self.global_batch} in micro-batches of {self.micro_batch}",
                "a micro-batch that divides the global batch",
            )
        for number, stage in enumerate(self.stages):
            for tp, dp in zip(stage.tp, stage.dp, strict=True):
                if tp * dp * self.context != stage.devices or self.micro_batch % dp:
                    raise PlanError(
                        f"stage {number}: tp {tp} x dp {dp} x context {self.context} on {stage.devices} devices with "
                        f"micro-batch {self.micro_batch}",
                        "a product equal to the number of devices, and dp dividing the micro-batch",
                    )

            if self.experts < 1 or any(dp * self.context % self.experts for dp in stage.dp):
                raise PlanError(
                    f"stage {number}: experts divided {self.experts} ways over {stage.dp[0] * self.context} replicas",
                    "a number that divides the replicas",
                )

    @property
    def devices(self) -> int:
        return sum(stage.devices for stage in self.stages)

    @property
    def ops(self) -> int:
        return sum(stage.ops for stage in self.stages)

    @property
    def micro_batches(self) -> int:
        return self.global_batch // self.micro_batch

    @property
    def cuts(self) -> tuple[int, ...]:
        """The index of each stage's first operator, and one past the last."""
        ends = [0]
        for stage in self.stages:
            ends.append(ends[-1] + stage.ops)
        return tuple(ends)

    def to_mapping(self) -> dict[str, Any]:
        """A JSON value; lists of operators run-length coded as [value, count]."""
        return {
            "model": self.model, "global_batch": self.global_batch, "micro_batch": self.micro_batch,
            "schedule": self.schedule.value, "interleave": self.interleave, "zero": self.zero,
            "sequence_parallel": self.sequence_parallel, "context": self.context,
            **({"experts": self.experts} if self.experts > 1 else {}),
            "stages": [
                {
                    "devices": stage.devices, "ops": stage.ops, "tp": _runs(stage.tp), "dp": _runs(stage.dp),
                    "recompute": _runs(stage.recompute), "variant": _runs(stage.variant),
                }
                for stage in self.stages
            ],
        }  # fmt: skip

    @classmethod
    def from_mapping(cls, value: Mapping[str, Any]) -> "ParallelPlan":
        """The plan that :meth:`to_mapping` wrote."""
        try:
            stages = tuple(
                ParallelStage(
                    devices=int(stage["devices"]),
                    tp=_unrolled(stage["tp"]),
                    dp=_unrolled(stage["dp"]),
                    recompute=tuple(bool(flag) for flag in _unrolled(stage["recompute"])),
                    variant=_unrolled(stage["variant"]),
                )
                for stage in value["stages"]
            )
            return cls(
                model=str(value["model"]), global_batch=int(value["global_batch"]),
                micro_batch=int(value["micro_batch"]), stages=stages,
                schedule=PipelineSchedule(value.get("schedule", PipelineSchedule.ONE_F_ONE_B)),
                interleave=int(value.get("interleave", 1)), zero=int(value.get("zero", 0)),
                sequence_parallel=bool(value.get("sequence_parallel", False)), context=int(value.get("context", 1)),
                experts=int(value.get("experts", 1)),
            )  # fmt: skip
        except (KeyError, TypeError, ValueError) as problem:
            raise PlanError(
                f"not a plan: {type(problem).__name__} {problem}", "what `penstock plan --json` writes"
            ) from problem


def _runs(values: Iterable[int]) -> list[list[int]]:
    return [[int(value), sum(1 for _ in run)] for value, run in groupby(values)]


def _unrolled(runs: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(int(value) for value, count in runs for _ in range(count))
