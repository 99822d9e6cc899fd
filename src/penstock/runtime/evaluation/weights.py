"""The weights of a model from a checkpoint: one of ``penstock.elastic``, or a file of ``torch.save``.

Nothing that a checkpoint holds is run. Optimizer state is not read.
"""

from pathlib import Path

import torch
from torch import nn

from penstock.core import InputError
from penstock.runtime.checkpoints.exchange.saved_weights import SavedWeights


def load_weights(model: nn.Module, place: Path, name: str = "model") -> None:
    """Fill a model; ``name`` is what it is called in a checkpoint that holds more than one."""
    if place.is_dir():
        _load_directory(model, place, name)
        return
    # A file that the user's script has saved, in the user's own process, by the reader that creates tensors only.
    found = torch.load(place, weights_only=True, map_location="cpu")  # noqa: TID251
    model.load_state_dict(found[name] if isinstance(found, dict) and name in found else found)


def _load_directory(model: nn.Module, place: Path, name: str) -> None:
    saved, own = SavedWeights.at(place, name), model.state_dict()
    for path, tensor in own.items():
        if saved.shapes.get(path) != tuple(tensor.shape):
            raise InputError(f"the model does not fit the checkpoint at {path!r}", "the model it was made with")
    model.load_state_dict(saved.read(own))
