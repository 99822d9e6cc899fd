"""The weights of one model in a checkpoint, whole, whatever world saved them; read as they are asked for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import torch

from penstock.core import InputError, UnknownNameError
from penstock.runtime.checkpoints.checkpoint import Checkpoints
from penstock.runtime.checkpoints.saved_state import SavedState
from penstock.runtime.checkpoints.state import TensorSpec


@dataclass(slots=True)
class SavedWeights:
    """Names without what comes before them in a checkpoint."""

    step: int
    _files: Checkpoints | None
    _place: Path
    _prefix: str
    _state: SavedState
    _entries: Mapping[str, TensorSpec]

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
        prefix, state = f"model/{model}/", SavedState.at(place)
        entries = {spec.key.removeprefix(prefix): spec for spec in state.specs if spec.key.startswith(prefix)}
        if not entries:
            known = {spec.key.split("/")[1] for spec in state.specs if spec.key.startswith("model/")}
            raise UnknownNameError.of("model", model, sorted(known))
        return cls(step, files, place, prefix, state, entries)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: entry.shape for name, entry in self._entries.items()}

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of each."""
        return {name: entry.bytes for name, entry in self._entries.items()}

    def read(self, names: Iterable[str]) -> dict[str, torch.Tensor]:
        specs = [self._entries[name] for name in names]
        room = {spec.key: torch.empty(spec.shape, dtype=spec.dtype) for spec in specs}
        self._state.fill(self._place, room)
        return {key.removeprefix(self._prefix): tensor for key, tensor in room.items()}

    def __enter__(self) -> "SavedWeights":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._files is not None:
            self._files.release()


def empty_target(directory: str | Path) -> Path:
    """Return where an export goes: a directory with nothing in it."""
    target = Path(directory)
    if target.exists() and any(target.iterdir()):
        raise InputError(f"{target}, where something is already", "an empty or a new directory", "Choose another")
    return target
