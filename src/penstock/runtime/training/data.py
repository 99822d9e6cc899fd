"""Samples by their indices, as a batch on the right device."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from penstock.core import InputError


class Loader:
    """Fetches any set of samples from a map-style dataset or from a tuple of equally long tensors."""

    def __init__(self, dataset: Any, device: torch.device, collate: Callable[[list[Any]], Any] | None = None) -> None:
        self._tensors = _as_tensors(dataset)
        if self._tensors is None and not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
            raise InputError(
                f"a {type(dataset).__name__} has no length or no indices", "a map-style dataset or a tuple of tensors",
                "Give it __len__ and __getitem__, so that any worker can fetch any sample",
            )  # fmt: skip
        self._dataset = dataset
        self._device = device
        self._collate = collate

    def __len__(self) -> int:
        return len(self._tensors[0]) if self._tensors else len(self._dataset)

    def fetch(self, indices: Sequence[int]) -> Any:
        if self._tensors is not None:
            chosen = torch.tensor(indices)
            return tuple(tensor[chosen].to(self._device) for tensor in self._tensors)
        if hasattr(self._dataset, "__getitems__"):
            samples = list(self._dataset.__getitems__(list(indices)))
        else:
            samples = [self._dataset[index] for index in indices]
        return _moved((self._collate or _default_collate)(samples), self._device)


def _as_tensors(dataset: Any) -> tuple[torch.Tensor, ...] | None:
    if not isinstance(dataset, tuple) or not dataset or not all(isinstance(part, torch.Tensor) for part in dataset):
        return None
    if len({len(part) for part in dataset}) > 1:
        lengths = ", ".join(str(len(part)) for part in dataset)
        raise InputError(f"tensors of lengths {lengths}", "tensors of one length", "Sample i is row i of each of them")
    return dataset


def _default_collate(samples: list[Any]) -> Any:
    from torch.utils.data import default_collate

    return default_collate(samples)


def _moved(batch: Any, device: torch.device) -> Any:
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, dict):
        return {key: _moved(value, device) for key, value in batch.items()}
    if isinstance(batch, list | tuple) and not hasattr(batch, "_fields"):
        return type(batch)(_moved(value, device) for value in batch)
    return batch
