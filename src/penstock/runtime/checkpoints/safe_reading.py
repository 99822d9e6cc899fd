"""Checkpoints are data: reading one runs nothing that stands in it.

``torch.distributed.checkpoint`` keeps its metadata as a pickle, and a pickle calls whatever it names. Others may be
able to write where a job saves, and a checksum beside a file says nothing about who wrote both. So the metadata is read
by an unpickler that knows the classes such metadata consists of and nothing else; every file it points to lies beside
it; and values that only an unrestricted unpickler could read, which Penstock never writes, are refused.
"""

import importlib
import io
import pickle
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta, TensorStorageMetadata
from torch.distributed.checkpoint.planner import ReadItem

from penstock.core import InputError

_METADATA_FILE = ".metadata"
_ALLOWED = frozenset({
    *(("torch.distributed.checkpoint.metadata", name) for name in (
        "Metadata", "TensorStorageMetadata", "TensorProperties", "ChunkStorageMetadata", "MetadataIndex", "StorageMeta",
        "_MEM_FORMAT_ENCODING",
    )),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("torch.serialization", "_get_layout"),
    ("torch", "Size"),
    ("pathlib", "PosixPath"),
    ("pathlib", "WindowsPath"),
})  # fmt: skip


class UnsafeCheckpointError(InputError):
    """A checkpoint that holds more than tensors and their names, or that cannot be read."""


class SafeReader(FileSystemReader):
    """Reads the files of one checkpoint; its metadata is read once, and is what was checked."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._checked = read_metadata(path)
        self._checked.storage_meta = self._checked.storage_meta or StorageMeta()
        self._checked.storage_meta.load_id = self.load_id

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:  # noqa: ARG002 (torch passes a rank)
        return self._checked


class TensorPlanner(DefaultLoadPlanner):
    """Loads tensors and nothing that would have to be unpickled."""

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:  # noqa: ARG002 (as torch has it)
        raise _refused(f"the value of {read_item.dest_index.fqn!r} is not a tensor")


def read_metadata(path: Path) -> Metadata:
    """What a checkpoint consists of; raises :class:`UnsafeCheckpointError` for anything but tensors in files of its."""
    try:
        with (path / _METADATA_FILE).open("rb") as file:
            metadata = _MetadataUnpickler(file).load()
    except UnsafeCheckpointError:
        raise
    except Exception as problem:
        raise _refused(f"{path / _METADATA_FILE} cannot be read: {type(problem).__name__}: {problem}") from problem
    _check(metadata, path)
    return metadata  # type: ignore[no-any-return]


def read_extras(path: Path | BinaryIO) -> dict[str, Any]:
    """What is saved beside tensors: numbers, text and tensors, in the format that holds nothing else."""
    try:
        extras = torch.load(path, weights_only=True)
    except Exception as problem:
        first = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise _refused(f"{path} cannot be read: {first}") from problem
    if not isinstance(extras, dict) or not isinstance(extras.get("host"), list | tuple | set | frozenset):
        raise _refused(f"{path} does not say what it should")
    return extras


class _MetadataUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        if (module, name) not in _ALLOWED:
            raise _refused(f"its metadata asks for {module}.{name}, which is none of what a checkpoint consists of")
        return getattr(importlib.import_module(module), name)


def _check(metadata: object, path: Path) -> None:
    if not isinstance(metadata, Metadata) or not isinstance(metadata.storage_data, dict):
        raise _refused(f"{path / _METADATA_FILE} is not metadata of a checkpoint")
    if not all(isinstance(entry, TensorStorageMetadata) for entry in metadata.state_dict_metadata.values()):
        raise _refused(f"{path} holds values that are not tensors")
    for place in metadata.storage_data.values():
        if Path(place.relative_path).name != place.relative_path or getattr(place, "transform_descriptors", None):
            raise _refused(f"{path} points to {place.relative_path!r}, which is no plain file of its own")


def _refused(given: str) -> UnsafeCheckpointError:
    return UnsafeCheckpointError(given, "a checkpoint that Penstock has written", "Delete it, or use an older one")
