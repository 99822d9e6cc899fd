"""The mappings inside a job file, and the shorthands people may write instead of them."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from penstock.core import (
    WATCH_HOTSPOTS,
    WATCH_LOSS,
    BestEffort,
    Deadline,
    Goal,
    InputError,
    JobError,
    LossPolicy,
    PreflightLevel,
    PreflightRule,
    Strictness,
    ValueStep,
    parse_deadline,
)
from penstock.spec.fields import (
    PREFLIGHT_FORMS,
    Count,
    DeadlineText,
    Delay,
    Duration,
    Flag,
    JobFilePart,
    LaterValues,
    LossPolicyName,
    PreflightLevelName,
    Refused,
    StrictnessName,
    Text,
    Whole,
)
from penstock.spec.quantities import range_text, read_range


class GoalPart(JobFilePart):
    """What the person wants, in full: a deadline and how strict it is, or best effort."""

    deadline: DeadlineText | None = Field(
        default=None, description="Finish within this time of submission, or by this date."
    )
    strictness: StrictnessName = Field(
        default=Strictness.HARD,
        description="hard: late is worthless, declined if it cannot be kept. soft: late is only late.",
    )
    then: LaterValues = Field(
        default_factory=dict,
        description="What a late result is still worth, {8h: 50%, 12h: 20%}: half until 8h, a fifth until 12h, then"
        " nothing. Makes the deadline soft.",
    )
    best_effort: Flag = Field(default=False, description="Run on what is left over, without a promise.")

    @model_validator(mode="after")
    def _is_one_goal(self) -> Self:
        if (self.deadline is None) != self.best_effort:
            both = "both a deadline and best effort" if self.best_effort else "a goal without deadline or best_effort"
            raise Refused(JobError(both, "one of the two", "Try {deadline: 6h} or {best_effort: true}"))
        if self.best_effort and "strictness" in self.model_fields_set:
            raise Refused(JobError("a strictness without a deadline", "strictness beside deadline", "Remove it"))
        if self.then:
            self._check_values()
        return self

    def _check_values(self) -> None:
        if self.best_effort:
            raise Refused(JobError("later values without a deadline", "then beside deadline", "Remove then"), "then")
        if self.strictness is Strictness.HARD and "strictness" in self.model_fields_set:
            hard = JobError("a hard deadline with values after it", "soft, or no then", "Remove strictness")
            raise Refused(hard, "strictness")
        check_values(self.deadline or "", self.then)

    def goal_at(self, now: float) -> Goal:
        """What it means for a job that is submitted at ``now``; values after a deadline make it soft."""
        if self.deadline is None:
            return BestEffort()
        return deadline_at(self.deadline, self.strictness, self.then, now)


def deadline_at(deadline: str, strictness: Strictness, then: Mapping[str, float], now: float) -> Deadline:
    """A deadline as people write it, seen from ``now``; values after it make it soft."""
    steps = tuple(ValueStep(parse_deadline(text, now), value) for text, value in then.items())
    return Deadline(parse_deadline(deadline, now), Strictness.SOFT if steps else strictness, steps)


def check_values(deadline: str, then: Mapping[str, float]) -> None:
    """Refuse later values that do not follow the deadline in order of time, or do not fall."""
    mixed = [text for text in then if _is_date(text) != _is_date(deadline)]
    if mixed:
        problem = JobError(f"both {deadline} and {mixed[0]}", "durations from submission alone, or dates alone")
        raise Refused(problem, "then")
    try:
        deadline_at(deadline, Strictness.SOFT, then, 0.0)
    except JobError as problem:
        raise Refused(problem, "then") from None


def _is_date(text: str) -> bool:
    return parse_deadline(text, 0.0) == parse_deadline(text, 1.0)


class DevicesPart(JobFilePart):
    """How many devices the job may get; Penstock chooses inside the bounds."""

    min: Count = Field(default=1, description="Never run on fewer.")
    max: Count | None = Field(default=None, description="Never run on more.")

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.max is not None and self.max < self.min:
            raise Refused(
                JobError(f"at least {self.min} and at most {self.max} devices", "least..most", "Swap the two numbers")
            )
        return self


_UNLEARNED_S = 600.0
"""Between checkpoints of a job that nobody has seen saving."""


class CheckpointPart(JobFilePart):
    """Where and how often the job saves its state."""

    dir: Text | None = Field(
        default=None,
        description="Where checkpoints lie: a directory, or a URL (s3://bucket/job) that every machine reaches.",
    )
    every: Duration | None = Field(
        default=None,
        description="How often a checkpoint is written. Unless given: as often as loses the least time by what saving"
        " costs and how often runs fail, ten minutes where the job has not saved yet.",
    )

    @property
    def every_s(self) -> float:
        """What is given, or what holds where nothing is known."""
        return _UNLEARNED_S if self.every is None else self.every


class WatchPart(JobFilePart):
    """What is looked at while the job trains with penstock.elastic, and what is done about it."""

    loss: LossPolicyName = Field(
        default=LossPolicy.AUTO,
        description="A loss that goes wrong: auto goes back to a checkpoint from one that stays NaN or infinite and"
        " tells of spikes, rollback goes back from spikes that last too, tell only tells, off looks away.",
    )
    hotspots: Flag = Field(
        default=True, description="Whether a few steps are profiled now and then, at half a percent of its time."
    )

    @property
    def variables(self) -> dict[str, str]:
        """How workers are told."""
        return {WATCH_LOSS: self.loss.value, WATCH_HOTSPOTS: "on" if self.hotspots else "off"}


class PreflightPart(JobFilePart):
    """Whether the job's nodes are checked before its workers start, how thoroughly, and when it is not necessary."""

    level: PreflightLevelName = Field(default=PreflightLevel.QUICK, description="quick, full, or off: nothing is.")
    again_after: Delay = Field(
        default=PreflightRule().again_after_s, description="How long a node's last good check is believed; 0s: never."
    )
    from_devices: Count = Field(default=1, description="Check only where the job starts on at least so many devices.")

    @property
    def rule(self) -> PreflightRule | None:
        if self.level is None:
            return None
        return PreflightRule(level=self.level, again_after_s=self.again_after, from_devices=self.from_devices)


class RetriesPart(JobFilePart):
    """What happens after a failure that is not Penstock's doing."""

    max: Whole | None = Field(
        default=None,
        description="How often the job is started again before it counts as failed. Unless given: 3 times, but not at"
        " all where a script ends by itself before its first step, and once where it ends again with the same words"
        " and got no further, since it would do so again.",
    )
    backoff: Delay = Field(default=10.0, description="Pause before the first retry; it doubles with each further one.")


def _expand_devices(value: object) -> object:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return value
    try:
        least, most = read_range(value)
    except InputError as problem:
        raise Refused(problem) from None
    return {"min": least, "max": most}


def _expand_preflight(value: object) -> object:
    return value if isinstance(value, Mapping | PreflightPart) else {"level": value}


def _expand_retries(value: object) -> object:
    return {"max": value} if isinstance(value, str | int) and not isinstance(value, bool) else value


def _shorthand(part: type[JobFilePart], *forms: dict[str, Any]) -> WithJsonSchema:
    schema = part.model_json_schema()
    schema.pop("description", None)
    return WithJsonSchema({"anyOf": [*forms, schema]})


Devices = Annotated[
    DevicesPart,
    BeforeValidator(_expand_devices),
    PlainSerializer(lambda devices: range_text(devices.min, devices.max)),
    _shorthand(DevicesPart, {"type": "integer", "minimum": 1}, {"type": "string", "examples": ["1..8", "2.."]}),
]
Preflight = Annotated[
    PreflightPart,
    BeforeValidator(_expand_preflight),
    _shorthand(PreflightPart, PREFLIGHT_FORMS),
]
Retries = Annotated[
    RetriesPart, BeforeValidator(_expand_retries), _shorthand(RetriesPart, {"type": "integer", "minimum": 0})
]
