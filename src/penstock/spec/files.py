"""Job files in and out: the front of the room, where text, mappings and Python become a :class:`JobFile`."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from penstock.core import InputError
from penstock.spec.commands import words_of
from penstock.spec.documents import Document, read_document
from penstock.spec.fields import NAME
from penstock.spec.model import JobFile
from penstock.spec.problems import explain
from penstock.spec.quantities import shown

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"


def load_job_file(path: Path | str) -> JobFile:
    """A YAML or JSON job file, its paths made absolute; every file it names must exist."""
    where = Path(path)
    return validated(read_document(where), base=where.absolute().parent)


def parse_job(values: Mapping[str, Any], *, source: str = "the job", base: Path | None = None) -> JobFile:
    """A job from a mapping, such as a request's body. With ``base``, relative paths start there and must exist."""
    if not isinstance(values, Mapping):
        raise InputError(f"{source} is {shown(values)}", "a mapping of keys to values")
    return validated(Document(dict(values), source), base=base)


def job(**values: Any) -> JobFile:
    """A job from Python, with the keys of the job file; paths, dates and time spans may be Python's own."""
    return parse_job(values, source="job()")


def validated(document: Document, base: Path | None) -> JobFile:
    """The job in a document, or one complaint about it."""
    if wrong := next((key for key in document.values if not isinstance(key, str)), None):
        raise InputError(f"{document.source}: the key {shown(wrong)} is not a word", "words as keys")
    try:
        found = JobFile.model_validate(document.values)
    except ValidationError as error:
        raise explain(error, document, JobFile) from None
    if "name" not in document.values:
        found = found.model_copy(update={"name": _name_for(found)})
    return found if base is None else _existing(found.located(base), document)


def to_mapping(job: JobFile) -> dict[str, Any]:
    """What has to be written down to get the same job again: no key that holds its default."""
    kept = job.model_dump(mode="json", exclude_defaults=True)
    return {"name": job.name, **kept}


def dump_yaml(job: JobFile) -> str:
    """The job as a YAML job file."""
    return yaml.safe_dump(to_mapping(job), sort_keys=False, allow_unicode=True, width=120)


def json_schema() -> dict[str, Any]:
    """A JSON Schema of the job file, for completion and checks in editors."""
    schema = JobFile.model_json_schema()
    return {"$schema": SCHEMA_ID, **schema, "title": "Penstock job file"}


def _name_for(job: JobFile) -> str:
    words = (job.script,) if job.script else words_of(job.command or ()) or (job.model,)
    best = next((word for word in words if word and word.endswith(".py")), words[0] or "")
    stem = Path(best).stem if best != job.model or best.endswith(".json") else best
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", stem)[:63].strip("._-")
    return plain if NAME.fullmatch(plain) else "job"


def _existing(job: JobFile, document: Document) -> JobFile:
    requirements = job.environment.requirements
    _must_be("directory", job.working_dir, document.where(("environment", "working_dir")))
    if job.script_path is not None:
        _must_be("file", job.script_path, document.where(("script",)))
    if job.evaluate is not None and job.evaluate.script is not None:
        _must_be("file", job.working_dir / job.evaluate.script, document.where(("evaluate", "script")))
    if job.model is not None and job.model.endswith(".json"):
        _must_be("file", Path(job.model), document.where(("model",)))
    if isinstance(requirements, str):
        where = document.where(("environment", "requirements"))
        _must_be("file", Path(requirements), where, "Check the path, or give packages as a list: [numpy]")
    if job.environment.conda_file:
        _must_be("file", Path(job.environment.conda or ""), document.where(("environment", "conda")))
    return job


def _must_be(what: str, path: Path, where: str, hint: str = "Check the path") -> None:
    if not (path.is_dir() if what == "directory" else path.is_file()):
        raise InputError(f"{where}there is no {what} {path}", f"an existing {what}", hint)
