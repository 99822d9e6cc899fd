"""The weights of one model in a checkpoint, whole, whatever world saved them; read as they are asked for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import torch
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load

from penstock.core import InputError, UnknownNameError
from penstock.runtime.checkpoints.checkpoint import Checkpoints
from penstock.runtime.checkpoints.safe_reading import SafeReader, TensorPlanner, read_metadata


@dataclass(slots=True)
class SavedWeights:
    """Names without what comes before them in a checkpoint."""

    step: int
    _files: Checkpoints | None
    _place: Path
    _prefix: str
    _entries: Mapping[str, TensorStorageMetadata]

    @classmethod
    def of(cls, files: Checkpoints, step: int | None, model: str) -> "SavedWeights":
        """Those of the newest whole checkpoint, or of the one of a step."""
        manifest = files.newest(step)
        if manifest is None:
            asked = "checkpoint" if step is None else f"checkpoint of step {step}"
            raise InputError(f"no whole {asked} in {files.location}", "one that is listed as whole", "Save one first")
        return cls.at(files.fetch(manifest), model, step=manifest.step, files=files)

    @classmethod
    def at(cls, place: Path, model: str, *, step: int = 0, files: Checkpoints | None = None) -> "SavedWeights":
        """Those in the directory of one checkpoint, which ``files`` lets go of in the end."""
        prefix = f"model/{model}/"
        saved = read_metadata(place).state_dict_metadata
        entries = {
            key.removeprefix(prefix): entry
            for key, entry in saved.items()
            if key.startswith(prefix) and isinstance(entry, TensorStorageMetadata)
        }
        if not entries:
            known = {key.split("/")[1] for key in saved if key.startswith("model/")}
            raise UnknownNameError.of("model", model, sorted(known))
        return cls(step, files, place, prefix, entries)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(entry.size) for name, entry in self._entries.items()}

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of each."""
        return {name: entry.size.numel() * entry.properties.dtype.itemsize for name, entry in self._entries.items()}

    def read(self, names: Iterable[str]) -> dict[str, torch.Tensor]:
        room = {
            self._prefix + name: torch.empty(self._entries[name].size, dtype=self._entries[name].properties.dtype)
            for name in names
        }
        load(room, storage_reader=SafeReader(self._place), planner=TensorPlanner(), no_dist=True)
        return {key.removeprefix(self._prefix): tensor for key, tensor in room.items()}

    def __enter__(self) -> "SavedWeights":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._files is not None:
            self._files.release()
