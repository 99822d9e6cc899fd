"""One clear complaint about a job, whatever pydantic found.

A person can act on one sentence at a time: an unknown key comes first, because what is missing or contradictory is
often only misspelt; then whatever stands first in the file.
"""

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from penstock.core import InputError, JobError, UnknownNameError
from penstock.spec.documents import Document, KeyPath
from penstock.spec.fields import Refused
from penstock.spec.quantities import shown

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_ELSEWHERE = {
    "cmd": "command", "run": "command", "commands": "command", "entrypoint": "command", "arguments": "args",
    "gpus": "devices", "num_gpus": "devices", "resources": "devices", "workers": "devices", "accelerators": "devices",
    "epochs": "work", "steps": "work", "iterations": "work", "max_steps": "work", "batch_size": "global_batch",
    "env": "environment.env", "requirements": "environment.requirements", "packages": "environment.requirements",
    "working_dir": "environment.working_dir", "workdir": "environment.working_dir", "cwd": "environment.working_dir",
    "strictness": "goal.strictness", "time_limit": "deadline", "due": "deadline", "user": "tenant", "queue": "tenant",
    "max_restarts": "retries", "max_retries": "retries", "retry": "retries", "checkpoint_dir": "checkpoint.dir",
    "checkpoint_every": "checkpoint.every", "interval": "checkpoint.every", "timeout": "hang_after",
    "image": "environment.image", "container": "environment.image", "docker": "environment.image",
    "conda": "environment.conda", "setup": "environment.setup", "mounts": "environment.mounts",
    "volumes": "environment.mounts", "memory": "limits.memory", "mem": "limits.memory", "cpus": "limits.cpus",
}  # fmt: skip
"""What other platforms call our keys."""

_EXAMPLES = {
    "work": 'Add work: "30 epochs" or work: "10_000 steps", on the command line --work "10_000 steps"; '
    '--work "1 step" if the script counts nothing'
}


def explain(error: ValidationError, document: Document, model: type[BaseModel]) -> InputError:
    """The complaint that helps most."""
    found = error.errors(include_url=False)
    first = min(found, key=lambda detail: _rank(detail, document))
    return _complaint(first, document, model)


def placed(problem: InputError, where: str) -> InputError:
    """The same problem, saying where it is."""
    return type(problem)(f"{where}{problem.given}", problem.allowed, problem.hint)


def _rank(detail: "ErrorDetails", document: Document) -> tuple[bool, int]:
    return detail["type"] != "extra_forbidden", document.line(detail["loc"]) or 0


def _complaint(detail: "ErrorDetails", document: Document, model: type[BaseModel]) -> InputError:
    path: KeyPath = detail["loc"]
    refused = detail.get("ctx", {}).get("error")
    if isinstance(refused, Refused):
        return placed(refused.problem, document.where((*path, *refused.at) if refused.at else path))
    if detail["type"] == "extra_forbidden":
        return _unknown_key(path, document, model)
    key = ".".join(map(str, path))
    if detail["type"] == "missing":
        return JobError(f"{document.where(path[:-1])}{key} is missing", "", _EXAMPLES.get(key, ""))
    if detail["type"] in ("model_type", "model_attributes_type", "dict_type"):
        part = part_at(model, path)
        keys = ", ".join(part.model_fields) if part else ""
        return InputError(f"{document.where(path)}{shown(detail['input'])} is not a mapping", f"the keys {keys}")
    return InputError(f"{document.where(path)}{shown(detail['input'])}", detail["msg"].removeprefix("Input should be "))


def _unknown_key(path: KeyPath, document: Document, model: type[BaseModel]) -> InputError:
    name, inside = str(path[-1]), ".".join(map(str, path[:-1]))
    part = part_at(model, path[:-1])
    problem = UnknownNameError.of(f"key in {inside}" if inside else "key", name, part.model_fields if part else ())
    if not inside and name.lower() in _ELSEWHERE:
        problem = UnknownNameError(problem.given, problem.allowed, f"Did you mean {_ELSEWHERE[name.lower()]!r}?")
    return placed(problem, document.where(path) if path in document.labels else document.place(path))


def part_at(model: type[BaseModel], path: KeyPath) -> type[BaseModel] | None:
    """The model behind a key."""
    for key in path:
        field = model.model_fields.get(str(key))
        inner = _model_in(field.annotation) if field else None
        if inner is None:
            return None
        model = inner
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    candidates = [getattr(c, "__origin__", c) for c in (annotation, *getattr(annotation, "__args__", ()))]
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), None)
