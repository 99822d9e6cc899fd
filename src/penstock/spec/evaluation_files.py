"""The job file of an evaluation, which follows from the one whose checkpoint it looks at.

It is a job of the same tenant with the same software around it, at best effort; its command, its devices and its
priority are those of ``evaluate:``.
"""

import shlex
from collections.abc import Mapping
from typing import Any

from penstock.core import InputError
from penstock.spec.evaluate_part import CHECKPOINT_PLACE, STEP_PLACE, EvaluatePart
from penstock.spec.files import to_mapping
from penstock.spec.model import JobFile
from penstock.spec.quantities import WorkUnit, range_text

_SHARED = ("environment", "limits", "secrets", "tenant", "kinds", "hang_after", "grace", "notify")
_LONGEST_NAME = 63


def evaluation_spec(job: JobFile, *, step: int, checkpoint: str) -> dict[str, Any]:
    """What is submitted to evaluate the ``checkpoint`` of a ``step``; raises for a job without ``evaluate:``."""
    part = job.evaluate
    if part is None:
        raise InputError(f"job {job.name} evaluates nothing", "a job file with evaluate", "Add evaluate: eval.py")
    ending = f"-eval-{step}"
    return {
        **{key: value for key, value in to_mapping(job).items() if key in _SHARED},
        "name": f"{job.name[: _LONGEST_NAME - len(ending)]}{ending}",
        **_command(part, {CHECKPOINT_PLACE: checkpoint, STEP_PLACE: str(step)}),
        **({"kinds": list(part.kinds)} if part.kinds else {}),
        "work": sum(samples or 1 for samples in part.sets.values()) or 1,
        "devices": range_text(part.devices.min, part.devices.max),
        "best_effort": True,
        **({} if part.priority is None else {"priority": part.priority}),
        "profile": "never",
        **({"resumable": True} if part.sets else {}),
    }


def steps_between(job: JobFile) -> float | None:
    """How many steps lie between two checkpoints that are evaluated; None where ``every`` counts none."""
    if job.evaluate is None or job.evaluate.every.work is None:
        return None
    work = job.evaluate.every.work
    return work.value * ((job.steps_in_epoch or 1) if work.unit is WorkUnit.EPOCHS else 1)


def _command(part: EvaluatePart, places: Mapping[str, str]) -> dict[str, Any]:
    if part.script is not None:
        return {"script": part.script, "args": [_filled(word, places) for word in part.args]}
    if isinstance(part.command, str):
        quoted = {place: shlex.quote(value) for place, value in places.items()}
        return {"command": _filled(part.command, quoted)}
    return {"command": [_filled(word, places) for word in part.command or ()]}


def _filled(word: str, places: Mapping[str, str]) -> str:
    for place, value in places.items():
        word = word.replace(place, value)
    return word
