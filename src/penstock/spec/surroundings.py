"""What a job finds around it: packages, a conda environment or an image, a setup script, limits of memory and cores.

One of three gives the software: packages for a virtual environment, a conda environment, or a container's image. Each
is named and never built here; a backend makes it ready before the first run, or says why it cannot.
"""

import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, PlainSerializer, model_validator

from penstock.core import Container, InputError, JobError, Mount, ResourceLimits, brief, parse_bytes
from penstock.spec.fields import (
    JobFilePart,
    Refused,
    Requirements,
    Text,
    Variables,
    as_list,
    described,
    list_of,
    read_text,
    read_words,
    reading,
    text_like,
)
from penstock.spec.quantities import shown

_IMAGE = re.compile(r"[A-Za-z0-9._/][A-Za-z0-9._/:@+-]{0,511}")
_SHORT_UNIT = re.compile(r"([\d._]+)\s*([kmgt]i?)", re.IGNORECASE)
_UNITS = (("GiB", 2**30), ("GB", 10**9), ("MiB", 2**20), ("MB", 10**6), ("KiB", 2**10), ("KB", 10**3), ("B", 1))
_LEAST_MEMORY = 16 << 20
_MOST_CPUS = 100_000
_ACCESS = {"ro": True, "rw": False}


def read_image(value: object) -> str:
    """The name of an image: a registry's, or the path of a file."""
    if isinstance(value, str | PathLike) and _IMAGE.fullmatch(str(value)):
        return str(value)
    raise InputError(f"{shown(value)} is not an image", "a name, a tag or a digest", 'Try "pytorch/pytorch:2.8.0"')


def read_setup(value: object) -> str:
    """Lines for a shell; a list is one line after the other."""
    lines = (value,) if isinstance(value, str) else read_words(value)
    return read_text("\n".join(read_text(line).strip() for line in lines))


def read_mount(text: str) -> Mount:
    """``/data``, ``/data:/mnt/data`` or ``/data:/mnt/data:ro``."""
    source, *rest = text.split(":")
    access = rest.pop() if rest and rest[-1] in _ACCESS else "rw"
    target = rest[0] if rest else source
    if not source or len(rest) > 1 or (rest and not target.startswith("/")):
        raise InputError(
            f"{shown(text)} is not a mount", "what of the machine, where in the container, and ro to only read",
            'Try "/data", "data:/mnt/data" or "/data:/data:ro"',
        )  # fmt: skip
    return Mount(source=source, target=target, read_only=_ACCESS[access])


def read_memory(value: object) -> int:
    """An amount of memory with its unit; ``8G`` is ``8GB`` and ``8Gi`` is ``8GiB``."""
    if not isinstance(value, str):
        raise InputError(f"{shown(value)} is not an amount of memory", "a number with a unit", 'Try "8GB"')
    short = _SHORT_UNIT.fullmatch(brief(value))
    amount = parse_bytes(f"{short[1]}{short[2]}B" if short else value)
    if amount < _LEAST_MEMORY:
        raise InputError(f"{value} of memory", "at least 16MiB, what Python itself needs", 'Try "8GB"')
    return amount


def read_cpus(value: object) -> float:
    """Processors, also parts of one."""
    try:
        cpus = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else 0.0
    except ValueError:
        cpus = 0.0
    if not 0.01 <= cpus <= _MOST_CPUS:
        raise InputError(f"{shown(value)} is not a number of processors", f"0.01 to {_MOST_CPUS}", "Try 4")
    return cpus


def memory_text(amount: int) -> str:
    """Without loss, in the largest unit that divides it."""
    unit, size = next((unit, size) for unit, size in _UNITS if amount % size == 0)
    return f"{amount // size}{unit}"


def _read_mounts(value: object) -> tuple[str, ...]:
    given: Sequence[str] = (value,) if isinstance(value, str) else read_words(value)
    return tuple(str(read_mount(text)) for text in given)


Image = Annotated[str, reading(read_image), described(text_like("pytorch/pytorch:2.8.0"))]
Mounts = Annotated[
    tuple[str, ...],
    reading(_read_mounts),
    PlainSerializer(as_list),
    described(list_of({"type": "string"}), text_like("/data:/data:ro")),
]
Setup = Annotated[str, reading(read_setup), described(text_like("apt-get install -y git"), list_of())]
Memory = Annotated[
    int, reading(read_memory), PlainSerializer(memory_text, return_type=str), described(text_like("8GB"))
]
Cpus = Annotated[
    float,
    reading(read_cpus),
    PlainSerializer(lambda cpus: int(cpus) if cpus == int(cpus) else cpus),
    described({"type": "number", "exclusiveMinimum": 0}, text_like("4")),
]


class EnvironmentPart(JobFilePart):
    """What the job finds around it when it starts."""

    requirements: Requirements | None = Field(
        default=None, description="A requirements file or a list of packages, installed once and reused."
    )
    conda: Text | None = Field(
        default=None,
        description="A conda environment: its name, its directory, or an environment.yml that is built once.",
    )
    image: Image | None = Field(
        default=None, description="The image of a container that every worker runs in; it brings its own Python."
    )
    mounts: Mounts = Field(
        default=(), description="What of the machine the container sees besides the job's directories: source:target."
    )
    setup: Setup | None = Field(
        default=None, description="Shell commands that are run once in the environment before the first run."
    )
    env: Variables = Field(default_factory=dict, description="Environment variables of every worker.")
    working_dir: Text | None = Field(
        default=None, description="Where workers start; the job file's directory by default."
    )

    @model_validator(mode="after")
    def _is_one_environment(self) -> Self:
        given = [key for key in ("requirements", "conda", "image") if getattr(self, key) is not None]
        if len(given) > 1:
            problem = JobError(f"both {given[0]} and {given[1]}", "one source of software", _INSTEAD[given[1]])
            raise Refused(problem, given[1])
        if self.mounts and self.image is None:
            raise Refused(JobError("mounts without an image", "mounts beside image", "Remove mounts"), "mounts")
        return self

    @property
    def conda_file(self) -> bool:
        """Whether the conda environment is described by a file rather than there already."""
        return self.conda is not None and self.conda.endswith((".yml", ".yaml"))

    @property
    def software(self) -> tuple[str, str, str]:
        """What besides packages decides which software the job runs."""
        return self.conda or "", self.image or "", self.setup or ""

    @property
    def container(self) -> Container | None:
        if self.image is None:
            return None
        return Container(image=self.image, mounts=tuple(map(read_mount, self.mounts)))

    def located(self, root: Path, working_dir: Path) -> "EnvironmentPart":
        """The same with every path absolute; what is relative is meant from ``root``."""
        changed: dict[str, object] = {"working_dir": str(root / working_dir)}
        if isinstance(self.requirements, str):
            changed["requirements"] = str(root / self.requirements)
        if self.conda is not None and (self.conda_file or "/" in self.conda):
            changed["conda"] = str(root / self.conda)
        if self.image is not None and self.image.endswith(".sif"):
            changed["image"] = str(root / self.image)
        if self.mounts:
            changed["mounts"] = tuple(_located_mount(read_mount(text), root) for text in self.mounts)
        return self.model_copy(update=changed)


_INSTEAD = {
    "conda": "Put the packages into environment.yml, below pip",
    "image": "Build an image that has them, or install them in setup",
}


def _located_mount(mount: Mount, root: Path) -> str:
    source = str(root / mount.source)
    target = mount.target if mount.target.startswith("/") else str(root / mount.target)
    return str(Mount(source=source, target=target, read_only=mount.read_only))


class LimitsPart(JobFilePart):
    """What the job may use of its machines for each device it holds."""

    memory: Memory | None = Field(default=None, description="Memory for each device; more ends the run.")
    cpus: Cpus | None = Field(default=None, description="Processors for each device; it never gets more.")

    @property
    def resources(self) -> ResourceLimits:
        return ResourceLimits(memory_bytes=self.memory, cpus=self.cpus)
