"""What an evaluation is told about the checkpoint it looks at: written by the platform, read inside of its workers."""

import json
import re
from dataclasses import dataclass

from penstock.core.codec import build, plain
from penstock.core.errors import CodecError, InputError
from penstock.core.runs import INTERPRETER

EVALUATION = "PENSTOCK_EVALUATION"
"""The variable in which workers find their brief."""
CHECKPOINT = "PENSTOCK_CHECKPOINT"
CHECKPOINT_STEP = "PENSTOCK_CHECKPOINT_STEP"
EVALUATED = "eval/"
"""What the names of results begin with among the metrics of the job whose checkpoint it was."""
SCORING_COMMAND = (INTERPRETER, "-P", "-m", "penstock.runtime.evaluation.scoring")
"""Has metric steps computed beside the workers of an evaluation, and after them."""
SET_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}")
MOST_SETS = 150
"""Data sets of one evaluation; with one result of each there is room for more among the metrics of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSet:
    """One data set. Without a number of ``samples`` it is evaluated in one piece."""

    name: str
    samples: int | None = None

    def __post_init__(self) -> None:
        if not SET_NAME.fullmatch(self.name) or (self.samples is not None and self.samples < 1):
            raise ValueError(f"not a data set: {self.name[:80]!r} of {self.samples} samples")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationBrief:
    """A checkpoint, the data sets to evaluate it on, and how raw outputs become metrics.

    ``metric`` is the command that does so on the processor, if there is one: for each data set, or for each of its
    shards, and then results are means over its samples. ``earlier`` is the directory of an
    evaluation that is over, which knows how long each data set takes.
    """

    step: int
    checkpoint: str
    sets: tuple[EvaluationSet, ...] = ()
    metric: tuple[str, ...] = ()
    metric_by_shard: bool = False
    earlier: str = ""

    @property
    def work(self) -> int:
        """What progress counts to: samples, and pieces of unknown size."""
        return sum(each.samples or 1 for each in self.sets) or 1

    def to_text(self) -> str:
        return json.dumps(plain(self))

    @classmethod
    def parse(cls, text: str) -> "EvaluationBrief":
        """What :meth:`to_text` wrote."""
        try:
            brief: EvaluationBrief = build(cls, json.loads(text))
        except (ValueError, AttributeError, CodecError) as error:
            raise InputError(
                f"{EVALUATION} cannot be read: {error}", "what the platform writes there",
                "Let `evaluate:` of a job file start this script",
            ) from None  # fmt: skip
        return brief
