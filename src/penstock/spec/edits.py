"""What may be changed of a job file after its job was submitted, in the same words and with the same complaints."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from penstock.core import Amendment, BestEffort, Deadline, Goal, InputError, JobError, Strictness, parse_deadline
from penstock.spec.documents import Document
from penstock.spec.fields import DeadlineText, Flag, JobFilePart, Name, Priority, Refused
from penstock.spec.parts import Devices
from penstock.spec.problems import explain
from penstock.spec.quantities import range_text

_NOTHING = "deadline, best_effort, devices, priority or name"


class JobEdit(JobFilePart):
    """New values for keys of a job file; what is left out stays as it is."""

    name: Name | None = Field(default=None, description="What people call the job.")
    deadline: DeadlineText | None = Field(default=None, description="Finish within this time from now, or by then.")
    best_effort: Flag | None = Field(default=None, description="Without a deadline from now on.")
    devices: Devices | None = Field(default=None, description='Bounds on the number of devices: 4, "1..8", "2..".')
    priority: Priority | None = Field(default=None, description="0 (least) to 100 (most urgent).")

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_dump(exclude_none=True) or self.best_effort is False:
            raise Refused(JobError("nothing to change", _NOTHING, "Try priority: 50"))
        if self.deadline is not None and self.best_effort:
            raise Refused(JobError("both deadline and best_effort", "one goal", "Remove best_effort"), "best_effort")
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
            soft = _strictness(spec) is Strictness.SOFT
            changed |= {"goal": {"deadline": self.deadline, "strictness": "soft"}} if soft else {
                "deadline": self.deadline
            }  # fmt: skip
        if self.devices is not None:
            changed["devices"] = range_text(self.devices.min, self.devices.max)
        given = {"name": self.name, "priority": self.priority}
        return changed | {key: value for key, value in given.items() if value is not None}

    def _replaced(self) -> tuple[str, ...]:
        return ("goal", "deadline", "best_effort") if self.deadline is not None or self.best_effort else ()

    def _goal(self, spec: Mapping[str, Any], now: float) -> Goal | None:
        if self.best_effort:
            return BestEffort()
        if self.deadline is None:
            return None
        if (at := parse_deadline(self.deadline, now)) <= now:
            raise JobError(f"the deadline {self.deadline} is over", "a time after now", "Give a later one")
        return Deadline(at, _strictness(spec))


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
    return Strictness.SOFT if isinstance(goal, Mapping) and goal.get("strictness") == "soft" else Strictness.HARD
