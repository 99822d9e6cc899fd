"""``evaluate:``: how checkpoints of a job are evaluated by jobs of their own while it trains."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from penstock.core import (
    MOST_SETS,
    SET_NAME,
    EvaluationSet,
    InputError,
    JobError,
    UnitError,
    UnknownNameError,
    brief,
    is_metric_name,
)
from penstock.spec.commands import process_of
from penstock.spec.fields import (
    Command,
    JobFilePart,
    Kinds,
    Priority,
    Refused,
    Text,
    Words,
    described,
    list_of,
    reading,
    text_like,
)
from penstock.spec.parts import Devices, DevicesPart
from penstock.spec.quantities import Amount, duration_text, read_amount, read_count, read_duration, shown
from penstock.spec.stop_clauses import improves_upward

EACH = "each checkpoint"
HIGHER, LOWER = "higher", "lower"
DIRECTIONS = (HIGHER, LOWER)
SET, SHARD = "set", "shard"
METRIC_PER = (SET, SHARD)
CHECKPOINT_PLACE, STEP_PLACE = "{checkpoint}", "{step}"
_EACH = re.compile(r"(each|every)?\s*checkpoint", re.IGNORECASE)
_COUNTED = re.compile(r".*[a-z]{4,}", re.IGNORECASE | re.DOTALL)
"""Units of work are words; those of durations have at most two letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPace:
    """How often checkpoints are evaluated: each, or after so much more work, or after so many more seconds."""

    work: Amount | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        if self.seconds is not None:
            return duration_text(self.seconds)
        return EACH if self.work is None else str(self.work)


def read_pace(value: object) -> EvaluationPace:
    """``each checkpoint``, ``1_000 steps``, ``2 epochs`` or ``30m``."""
    if isinstance(value, str) and _EACH.fullmatch(brief(value)):
        return EvaluationPace()
    try:
        if isinstance(value, str) and _COUNTED.fullmatch(brief(value)):
            return EvaluationPace(work=read_amount(value))
        if isinstance(value, int | float):
            raise UnitError("")
        return EvaluationPace(seconds=read_duration(value))
    except InputError:
        raise UnitError(
            f"{shown(value)} does not say how often", "each checkpoint, a number of steps or epochs, or a duration",
            'Try "each checkpoint", "1_000 steps" or "30m"',
        ) from None  # fmt: skip


def read_sets(value: object) -> dict[str, int | None]:
    """Data sets with their sizes, or names alone."""
    if not isinstance(value, Mapping | Sequence) or isinstance(value, str | bytes):
        raise InputError(f"{shown(value)} are not data sets", "NAME: samples, or a list of names", "Try {arc: 1_000}")
    for name in value:
        if not isinstance(name, str) or not SET_NAME.fullmatch(name):
            raise InputError(
                f"{shown(name)} is not the name of a data set", "up to 63 letters, digits and any of _.@-", "Try arc"
            )
    if isinstance(value, Mapping):
        found = {name: None if size is None else read_count(_size(size)) for name, size in value.items()}
    else:
        found = dict.fromkeys(value)
        if len(found) != len(value):
            raise InputError("a data set that is named twice", "every name once", "Remove one of them")
    if len(found) > MOST_SETS:
        raise InputError(f"{len(found)} data sets", f"at most {MOST_SETS}", "Join some of them")
    return found


def read_metric_per(value: object) -> str:
    """What one metric step is for."""
    if value not in METRIC_PER:
        raise UnknownNameError.of("part for a metric step", str(value), METRIC_PER)
    return str(value)


def read_directions(value: object) -> dict[str, str]:
    """Metrics and which way they improve."""
    if not isinstance(value, Mapping):
        raise InputError(f"{shown(value)} names no metrics", "METRIC: higher or lower", "Try {fluency: higher}")
    for metric, direction in value.items():
        if not isinstance(metric, str) or not is_metric_name(metric):
            raise InputError(f"{shown(metric)} is not the name of a metric", "a name as scripts log it", "Try fluency")
        if direction not in DIRECTIONS:
            raise UnknownNameError.of("direction", str(direction), DIRECTIONS)
    return dict(value)


def _size(given: object) -> object:
    """A number, or a mapping with nothing but one."""
    if not isinstance(given, Mapping):
        return given
    if set(given) != {"samples"}:
        raise InputError(f"{shown(given)} is not the size of a data set", "a number of samples", "Try {arc: 1_000}")
    return given["samples"]


Pace = Annotated[
    EvaluationPace, reading(read_pace), PlainSerializer(str, return_type=str),
    described(text_like(EACH, "1_000 steps", "30m")),
]  # fmt: skip
Sets = Annotated[
    dict[str, int | None],
    reading(read_sets),
    described(
        {"type": "object", "additionalProperties": {"type": ["integer", "string", "null", "object"]}},
        list_of({"type": "string"}),
    ),
]


MetricPer = Annotated[str, reading(read_metric_per), described({"enum": list(METRIC_PER)})]
Directions = Annotated[
    dict[str, str],
    reading(read_directions),
    described({"type": "object", "additionalProperties": {"enum": list(DIRECTIONS)}}),
]


class EvaluatePart(JobFilePart):
    """Which checkpoints are evaluated, by what, and on which data sets."""

    command: Command | None = Field(
        default=None, description="What every worker of an evaluation runs; {checkpoint} and {step} are filled in."
    )
    script: Text | None = Field(default=None, description="A Python script, instead of command.")
    args: Words = Field(default=(), description="Arguments of the script; {checkpoint} and {step} are filled in.")
    every: Pace = Field(
        default=EvaluationPace(), description='Which checkpoints: "each checkpoint", "1_000 steps" or "30m" apart.'
    )
    sets: Sets = Field(
        default_factory=dict, description="Data sets and how many samples each has; split and packed onto the devices."
    )
    metric: Command | None = Field(
        default=None, description="Computes the metrics of a data set from raw outputs, on the processor."
    )
    metric_per: MetricPer = Field(
        default=SET, description="Whether the metric step is run once for each data set, or for each of its shards."
    )
    better: Directions = Field(
        default_factory=dict,
        description="Metrics and which way they improve, higher or lower, where names do not tell.",
    )
    devices: Devices = Field(default=DevicesPart(min=1, max=1), description="How many devices an evaluation may have.")
    kinds: Kinds = Field(default=(), description="Kinds of devices it can use; those of the job by default.")
    priority: Priority | None = Field(
        default=None,
        description="0 to 100; unless given, that of a job that can give up a device, else below all others.",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.command is None) == (self.script is None):
            given = "neither command nor script" if self.script is None else "both command and script"
            raise Refused(JobError(given, "one of them", "Try script: eval.py"), "command")
        if self.args and self.script is None:
            raise Refused(JobError("args without a script", "args beside script", "Put them into command"), "args")
        if self.metric is not None and not self.sets:
            raise Refused(JobError("a metric step without data sets", "metric beside sets", "Add sets"), "metric")
        if self.metric is None and self.metric_per != SET:
            raise Refused(JobError("metric_per without metric", "metric_per beside metric", "Add metric"), "metric_per")
        return self

    def rises(self, metric: str) -> bool | None:
        """Whether larger values of ``SET/METRIC`` are better; None where nobody can tell."""
        name = metric.partition("/")[2] or metric
        said = self.better.get(name) or self.better.get(metric)
        return improves_upward(name) if said is None else said == HIGHER

    @property
    def data_sets(self) -> tuple[EvaluationSet, ...]:
        return tuple(EvaluationSet(name=name, samples=samples) for name, samples in self.sets.items())

    @property
    def metric_by_shard(self) -> bool:
        return self.metric_per == SHARD

    @property
    def metric_words(self) -> tuple[str, ...]:
        return () if self.metric is None else process_of(self.metric)


def _expand(value: object) -> Any:
    if not isinstance(value, str):
        return value
    return {"script": value} if value.endswith(".py") and not value.split()[1:] else {"command": value}


Evaluate = Annotated[
    EvaluatePart,
    BeforeValidator(_expand),
    described(text_like("eval.py", "python eval.py {checkpoint}"), EvaluatePart.model_json_schema()),
]
