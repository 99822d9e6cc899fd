"""What may be changed of a job file after its job was submitted, in the same words and with the same complaints."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from penstock.core import Amendment, BestEffort, Goal, InputError, JobError, Strictness, percent_text
from penstock.spec.documents import Document
from penstock.spec.fields import DeadlineText, Flag, JobFilePart, LaterValues, Name, Priority, Refused
from penstock.spec.parts import Devices, check_values, deadline_at
from penstock.spec.problems import explain
from penstock.spec.quantities import range_text

_NOTHING = "deadline, best_effort, devices, priority or name"


class JobEdit(JobFilePart):
    """New values for keys of a job file; what is left out stays as it is."""

    name: Name | None = Field(default=None, description="What people call the job.")
    deadline: DeadlineText | None = Field(default=None, description="Finish within this time from now, or by then.")
    then: LaterValues | None = Field(
        default=None, description="With a deadline: what late is still worth, {8h: 50%}; {} for nothing said."
    )
    best_effort: Flag | None = Field(default=None, description="Without a deadline from now on.")
    devices: Devices | None = Field(default=None, description='Bounds on the number of devices: 4, "1..8", "2..".')
    priority: Priority | None = Field(default=None, description="0 (least) to 100 (most urgent).")

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_dump(exclude_none=True) or self.best_effort is False:
            raise Refused(JobError("nothing to change", _NOTHING, "Try priority: 50"))
        if self.deadline is not None and self.best_effort:
            raise Refused(JobError("both deadline and best_effort", "one goal", "Remove best_effort"), "best_effort")
        if self.then is not None and self.deadline is None:
            raise Refused(JobError("later values without a deadline", "then beside deadline", "Add deadline"), "then")
        if self.then and self.deadline is not None:
            check_values(self.deadline, self.then)
        return self

    def amendment(self, spec: Mapping[str, Any], now: float) -> Amendment:
        """What it means to the job of the job file ``spec`` at ``now``."""
        least, most = (None, None) if self.devices is None else (self.devices.min, self.devices.max)
        batch = spec.get("global_batch")
        if least is not None and isinstance(batch, int):
            if least > batch:
                raise JobError(
                    f"at least {least} devices for a global batch of {batch}", "one sample for each device or more",
                    f"Give at most {batch}",
                )  # fmt: skip
            most = batch if most is None else min(most, batch)
        return Amendment(goal=self._goal(spec, now), priority=self.priority, at_least=least, at_most=most)

    def applied_to(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """The job file with these values; a deadline that was soft stays so."""
        changed = {key: value for key, value in spec.items() if key not in self._replaced()}
        if self.deadline is not None:
            changed |= self._goal_keys(spec, self.deadline)
        if self.devices is not None:
            changed["devices"] = range_text(self.devices.min, self.devices.max)
        given = {"name": self.name, "priority": self.priority}
        return changed | {key: value for key, value in given.items() if value is not None}

    def _goal_keys(self, spec: Mapping[str, Any], deadline: str) -> dict[str, Any]:
        if self.then:
            then = {at: percent_text(share) for at, share in self.then.items()}
            return {"goal": {"deadline": deadline, "then": then}}
        if _strictness(spec) is Strictness.SOFT:
            return {"goal": {"deadline": deadline, "strictness": "soft"}}
        return {"deadline": deadline}

    def _replaced(self) -> tuple[str, ...]:
        return ("goal", "deadline", "best_effort") if self.deadline is not None or self.best_effort else ()

    def _goal(self, spec: Mapping[str, Any], now: float) -> Goal | None:
        if self.best_effort:
            return BestEffort()
        if self.deadline is None:
            return None
        if self.then is None and _has_values(spec):
            raise JobError(
                f"a new deadline of {self.deadline} without what late is worth from now on",
                "deadline together with then", "Add --then 8h=50%, or --then none",
            )  # fmt: skip
        goal = deadline_at(self.deadline, _strictness(spec), self.then or {}, now)
        if goal.at <= now:
            raise JobError(f"the deadline {self.deadline} is over", "a time after now", "Give a later one")
        return goal


def read_edit(values: Mapping[str, Any]) -> JobEdit:
    """New values for a job; raises :class:`~penstock.core.InputError` with what is wrong."""
    if not isinstance(values, Mapping):
        raise InputError("the edit is not a mapping", "a mapping of keys to values")
    document = Document(dict(values), "the edit")
    try:
        return JobEdit.model_validate(document.values)
    except ValidationError as error:
        raise explain(error, document, JobEdit) from None


def _strictness(spec: Mapping[str, Any]) -> Strictness:
    goal = spec.get("goal")
    is_soft = isinstance(goal, Mapping) and (goal.get("strictness") == "soft" or bool(goal.get("then")))
    return Strictness.SOFT if is_soft else Strictness.HARD


def _has_values(spec: Mapping[str, Any]) -> bool:
    goal = spec.get("goal")
    return isinstance(goal, Mapping) and bool(goal.get("then"))
