"""Where checkpoints lie, and how one becomes whole there: a directory of a file system, or below a URL.

A storage holds directories of files and one manifest for each, written last: what has no manifest is no checkpoint.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock.core import PenstockError
from penstock.runtime.checkpoints.manifest import FileSum, Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDraft:
    """A checkpoint that is being written: to ``place``, until it is whole and known as ``path``."""

    step: int
    place: str
    path: str


class CheckpointStorage(Protocol):
    """What :class:`~penstock.runtime.checkpoints.checkpoint.Checkpoints` needs of a place."""

    def draft(self, step: int) -> CheckpointDraft:
        """Where to write a step; members that write one together come to the same answer."""
        ...

    def write(self, draft: CheckpointDraft, name: str, content: Iterable[memoryview]) -> FileSum:
        """Write a file of a draft; return what it must look like when it is read back."""
        ...

    def commit(self, draft: CheckpointDraft, files: Sequence[FileSum]) -> None:
        """Make a draft whose files are all written a checkpoint."""
        ...

    def verify(self, draft: CheckpointDraft) -> None:
        """Read back what was committed, as resuming does, and say so in its manifest.

        A checkpoint that cannot be read back is removed, with an OSError.
        """
        ...

    def discard(self, draft: CheckpointDraft) -> None:
        """Make room again; a checkpoint of the same step that is whole stays."""
        ...

    def manifests(self) -> list[str]:
        """The names of what claims to be a checkpoint, the newest first."""
        ...

    def read_manifest(self, name: str) -> Manifest: ...

    def set_aside(self, manifest: str) -> None:
        """Take a checkpoint that cannot be read out of the list of those to resume from; its files are kept."""
        ...

    def fetch(self, manifest: Manifest) -> Path:
        """A directory of this machine with the files of a checkpoint."""
        ...

    def release(self) -> None:
        """What was fetched is not needed any more."""
        ...

    def sweep(self) -> None:
        """Remove what an earlier run did not finish writing."""
        ...

    def keep_newest(self, count: int) -> None:
        """Remove all but the newest checkpoints."""
        ...

    def drop_after(self, step: int) -> None:
        """Remove all checkpoints of later steps."""
        ...


def reason_of(error: BaseException) -> str:
    """Return an error in one line: in the words of the system where it is the system's."""
    if isinstance(error, OSError):
        return str(error.strerror or error)
    return str(error) if isinstance(error, ValueError | PenstockError) else f"{type(error).__name__}: {error}"
