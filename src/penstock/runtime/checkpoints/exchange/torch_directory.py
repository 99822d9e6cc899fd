"""Weights of a checkpoint as a directory of ``torch.distributed.checkpoint``, for tools that read those.

Its metadata is a pickle. Penstock writes it here for others and never reads one.
"""

import warnings
from pathlib import Path

from torch.distributed.checkpoint.filesystem import FileSystemWriter  # noqa: TID251
from torch.distributed.checkpoint.state_dict_saver import save  # noqa: TID251

from penstock.runtime.checkpoints.checkpoint import Checkpoints
from penstock.runtime.checkpoints.exchange.saved_weights import SavedWeights, empty_target


def export_torch(location: str | Path, directory: str | Path, *, step: int | None = None, model: str = "model") -> int:
    """Write the weights of the newest checkpoint, or of the one of ``step``, and return its step.

    All weights are in host memory at a time, under the names they have in the model.
    """
    target = empty_target(directory)
    with SavedWeights.of(Checkpoints(location), step, model) as saved, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled, unavailable or uninitialized")
        save(saved.read(saved.shapes), storage_writer=FileSystemWriter(target), no_dist=True)
        return saved.step
