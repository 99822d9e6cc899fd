"""The weights of a model from a checkpoint: one of ``penstock.elastic``, or a file of ``torch.save``.

Nothing that a checkpoint holds is run. Optimizer state is not read.
"""

from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict_loader import load

from penstock.core import InputError
from penstock.runtime.checkpoints.safe_reading import SafeReader, TensorPlanner

_MODEL = "model/"


def load_weights(model: nn.Module, place: Path, name: str | None = None) -> None:
    """Fill a model; ``name`` is what it was attached as, where a checkpoint holds several."""
    if place.is_dir():
        _load_directory(model, place, name)
        return
    found = torch.load(place, weights_only=True, map_location="cpu")
    chosen = name or ("model" if isinstance(found, dict) and "model" in found else None)
    model.load_state_dict(found if chosen is None else found[chosen])


def _load_directory(model: nn.Module, place: Path, name: str | None) -> None:
    reader = SafeReader(place)
    saved: dict[str, Any] = reader.read_metadata().state_dict_metadata
    models = sorted({key.split("/")[1] for key in saved if key.startswith(_MODEL)})
    chosen = name or (models[0] if len(models) == 1 else "")
    if chosen not in models:
        raise InputError(
            f"the checkpoint {place} has the models {', '.join(models) or 'none'}", "the name of one of them",
            "Give it: run.load(model, name=…)",
        )  # fmt: skip
    room = {f"{_MODEL}{chosen}/{path}": tensor for path, tensor in model.state_dict().items()}
    for key, tensor in room.items():
        if key not in saved or tuple(saved[key].size) != tuple(tensor.shape):
            raise InputError(
                f"the model does not fit the checkpoint at {key.removeprefix(_MODEL)!r}", "the model it was made with"
            )
    load(room, storage_reader=reader, planner=TensorPlanner(), no_dist=True)
    model.load_state_dict({key.removeprefix(f"{_MODEL}{chosen}/"): tensor for key, tensor in room.items()})
