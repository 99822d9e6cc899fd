"""The record that makes a set of files a checkpoint: what they are called, how long they are, what they add up to."""

import hashlib
import json
import os
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from penstock.tools import parse_json

STATE = "state.json"
"""The file that says which tensor lies where."""
EXTRAS = "extras.bin"
"""The file with everything that is not a tensor."""
UNREADABLE = "unreadable-"
"""In front of the name of a checkpoint that could not be read and was set aside."""
LARGEST_MANIFEST = 1 << 24
"""Bytes: enough for a hundred thousand files."""
_LONGEST_NAME = 255
_OLD_METADATA = ".metadata"
_DIGITS = 10
_CHUNK = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSum:
    """What a file must look like to be trusted."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Which files of which directory are the checkpoint of a step; ``verified_at``: when they were read back, if so."""

    step: int
    directory: str
    made_at: float
    files: tuple[FileSum, ...]
    verified_at: float | None = None

    @classmethod
    def parse(cls, text: str) -> "Manifest":
        """Read one; whatever is not a manifest, or points outside of its place, is a ValueError or a TypeError."""
        fields = parse_json(text, LARGEST_MANIFEST)
        fields["files"] = tuple(FileSum(**one) for one in fields["files"])
        manifest = cls(**fields)
        if not isinstance(manifest.verified_at, float | int | None):
            raise TypeError(f"verified at {manifest.verified_at!r}")
        for name in (manifest.directory, *(file.name for file in manifest.files)):
            if len(name) > _LONGEST_NAME or Path(name).name != name:
                raise ValueError(f"{name[:_LONGEST_NAME]!r} is not a name")
        if not all(isinstance(file.bytes, int) for file in manifest.files):
            raise TypeError("a file whose length is no number")
        return manifest

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of each file."""
        return {file.name: file.bytes for file in self.files}

    def verify(self, place: Path) -> None:
        """A ValueError unless the files in ``place`` are to the byte what was written."""
        for expected in self.files:
            if sum_of(place / expected.name) != expected:
                raise ValueError(f"{expected.name} differs from what was written")

    def to_text(self) -> str:
        return json.dumps(asdict(self), indent=1)


def format_problem(names: Collection[str]) -> str:
    """Return why this version cannot read a checkpoint of files with these names; empty if it can."""
    if STATE in names and EXTRAS in names:
        return ""
    if _OLD_METADATA in names:
        return "an earlier version of Penstock wrote it, with pickled metadata, which is no longer read"
    return f"it has no {STATE} or no {EXTRAS}"


def directory_name(step: int) -> str:
    """What the directory of a step is called; names sort as steps do."""
    return f"step-{step:0{_DIGITS}d}"


def step_of(name: str) -> int:
    """The step in the name of a manifest; -1 if there is none."""
    digits = name.removeprefix("step-").removesuffix(".json")
    return int(digits) if digits.isdecimal() else -1


def sum_of(path: Path) -> FileSum:
    with path.open("rb") as file:
        return sum_of_stream(path.name, file)


def write_summed(file: IO[bytes], name: str, content: Iterable[memoryview]) -> FileSum:
    """Write pieces to a file; return what it must look like when it is read back."""
    digest, size = hashlib.sha256(), 0
    for piece in content:
        digest.update(piece)
        size += piece.nbytes
        file.write(piece)
    return FileSum(name=name, bytes=size, sha256=digest.hexdigest())


def forget_cached(path: Path) -> None:
    """Have the next reading of a file that is on the disk come from there, where the system can be asked to."""
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def sum_of_stream(name: str, file: IO[bytes]) -> FileSum:
    """Of what is left to read of a file."""
    digest, size = hashlib.sha256(), 0
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
    return FileSum(name=name, bytes=size, sha256=digest.hexdigest())
