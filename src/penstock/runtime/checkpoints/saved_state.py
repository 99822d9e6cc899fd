"""What a checkpoint holds: which part of which tensor lies where in which file, as versioned JSON beside the files.

A checkpoint is a directory with one *shard* file for every worker that wrote (raw bytes, chunk after chunk), one file
with everything that is not a tensor of the state (:mod:`penstock.runtime.value_codec`) and ``state.json``, which says
what lies where. Nothing in it is a pickle, nothing depends on the version of Python or PyTorch that wrote it, and
reading it runs nothing: names, lengths and boxes are checked before a byte is used.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from penstock.core import CodecError, InputError
from penstock.runtime.checkpoints.layout.chunks import Box, Chunk
from penstock.runtime.checkpoints.layout.resharding import check_covered, fill, journeys, needs_of
from penstock.runtime.checkpoints.manifest import EXTRAS, STATE, format_problem
from penstock.runtime.checkpoints.memory.host_memory import open_existing
from penstock.runtime.checkpoints.state import TensorSpec
from penstock.runtime.value_codec import decode

_FORMAT, _VERSION = "penstock-checkpoint", 1
_LARGEST_TEXT = 1 << 30
_EXTRAS = {"values", "groups", "parts"}


class UnreadableCheckpointError(InputError):
    """A checkpoint that cannot be read: damaged, of another format, or not written by Penstock."""


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A file of a checkpoint and the chunks that lie in it."""

    name: str
    bytes: int
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class SavedState:
    """The tensors of a checkpoint, by where they lie, and everything else by value."""

    shards: tuple[ShardFile, ...]
    extras: Mapping[str, Any]

    @classmethod
    def read(cls, name: str, sizes: Mapping[str, int], content: Callable[[str], bytes]) -> "SavedState":
        """Read the description of a checkpoint of files of these sizes; ``content`` returns the bytes of one of them.

        This is what resuming reads before it loads a tensor. It raises :class:`UnreadableCheckpointError`.
        """
        if problem := format_problem(sizes):
            raise unreadable(name, problem)
        if max(sizes[STATE], sizes[EXTRAS]) > _LARGEST_TEXT:
            raise unreadable(name, f"{STATE} or {EXTRAS} is larger than {_LARGEST_TEXT} bytes")
        try:
            shards = _shards(json.loads(content(STATE)), sizes)
            _check_whole(shards)
            extras = decode(content(EXTRAS))
            if not isinstance(extras, dict) or not extras.keys() >= _EXTRAS:
                raise ValueError(f"{EXTRAS} is not what a run saves")
        except InputError as error:
            raise unreadable(name, error.given) from None
        except (CodecError, ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
            raise unreadable(name, f"{type(error).__name__}: {error}") from None
        return cls(shards, extras)

    @classmethod
    def at(cls, place: Path) -> "SavedState":
        """Read the checkpoint whose files lie in a directory."""
        try:
            sizes = {path.name: path.stat().st_size for path in place.iterdir()}
            return cls.read(place.name, sizes, lambda name: (place / name).read_bytes())
        except OSError as error:
            raise unreadable(place.name, str(error)) from None

    @property
    def specs(self) -> list[TensorSpec]:
        return list({chunk.key: chunk.spec for shard in self.shards for chunk in shard.chunks}.values())

    def fill(self, place: Path, room: Mapping[str, torch.Tensor]) -> None:
        """Read from the files in ``place`` this worker's part of every tensor in ``room``."""
        needs = needs_of(room)
        ways = journeys([shard.chunks for shard in self.shards], [0] * len(self.shards), [needs])
        check_covered(needs, ways, 0)
        wanted = {part.shard for part in ways.get((0, 0), ())}
        files = {index: open_existing(place / self.shards[index].name, self.shards[index].bytes) for index in wanted}
        fill(room, needs, files, ways, None)


def state_text(shards: Iterable[ShardFile]) -> str:
    """Return what ``state.json`` says."""
    rows = [{"file": shard.name, "chunks": [chunk.to_row() for chunk in shard.chunks]} for shard in shards]
    return json.dumps({"format": _FORMAT, "version": _VERSION, "shards": rows})


def unreadable(name: str, why: str) -> UnreadableCheckpointError:
    return UnreadableCheckpointError(
        f"checkpoint {name}, which cannot be read: {why}", "a checkpoint of this format that is whole",
        "Use an older one, or the version of Penstock that wrote it",
    )  # fmt: skip


def _shards(said: Any, sizes: Mapping[str, int]) -> tuple[ShardFile, ...]:
    if not isinstance(said, dict) or said.get("format") != _FORMAT:
        raise ValueError(f"{STATE} is not of the format {_FORMAT}")
    if said.get("version") != _VERSION:
        raise ValueError(f"version {said.get('version')!r} of the format; this Penstock reads version {_VERSION}")
    found = []
    for row in said["shards"]:
        name = str(row["file"])
        size = sizes[name]  # of a file that is not there: a KeyError
        chunks = tuple(Chunk.from_row(chunk) for chunk in row["chunks"])
        if any(chunk.start < 0 or chunk.start + chunk.bytes > size for chunk in chunks):
            raise ValueError(f"a tensor lies outside of {name}")
        found.append(ShardFile(name, size, chunks))
    return tuple(found)


def _check_whole(shards: tuple[ShardFile, ...]) -> None:
    """Refuse tensors of which a part lies in no shard."""
    chunks = [shard.chunks for shard in shards]
    wholes = {chunk.key: Box((0,) * len(chunk.shape), chunk.shape) for found in chunks for chunk in found}
    check_covered(wholes, journeys(chunks, [0] * len(chunks), [wholes]), 0)
