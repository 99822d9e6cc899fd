"""Samples by their indices, as a batch on the right device; packed tokens are read ahead of training."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from penstock.core import InputError
from penstock.runtime.data.reading.prefetch import DEPTH, LoadingStats, Prefetch
from penstock.runtime.data.reading.read_ahead import ReadAhead
from penstock.runtime.data.reading.tensor_batches import TensorBatches
from penstock.runtime.data.reading.windowed_order import EpochOrder
from penstock.runtime.training.order import SampleOrder


class Loader:
    """Fetches any set of samples from packed tokens, a map-style dataset or a tuple of equally long tensors.

    ``prefetch`` batches are read ahead in a thread: a few of data that is made for it, none of other data unless asked
    for, whose author need not have thought of threads.
    """

    def __init__(
        self, dataset: Any, device: torch.device, collate: Callable[[list[Any]], Any] | None = None,
        prefetch: int | None = None,
    ) -> None:  # fmt: skip
        self._tensors = _as_tensors(dataset)
        if self._tensors is None and not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
            raise InputError(
                f"a {type(dataset).__name__} has no length or no indices", "a map-style dataset or a tuple of tensors",
                "Give it __len__ and __getitem__, so that any worker can fetch any sample",
            )  # fmt: skip
        if prefetch is not None and prefetch < 0:
            raise InputError(f"prefetch={prefetch}", "0 or more batches")
        self._dataset = dataset
        self._device = device
        self._collate = collate
        is_packed = hasattr(dataset, "read_into") and collate is None
        self._batches = TensorBatches(dataset, device) if is_packed else None
        self._depth = prefetch if prefetch is not None else DEPTH * (self._batches is not None)
        self._ahead = Prefetch(self._read, self._depth, self._deliver)
        self._near: ReadAhead | None = None

    def __len__(self) -> int:
        return len(self._tensors[0]) if self._tensors else len(self._dataset)

    def own_order(self, seed: int) -> EpochOrder | None:
        """The order that the data itself wants, if it does."""
        return self._dataset.order(seed) if self._batches is not None else None

    def follow(self, order: SampleOrder, first: int, last: int, rank: int, size: int, micro_batch: int | None) -> None:
        """The steps from ``first`` to before ``last`` are about to be fetched, as one of these workers."""
        if self._depth:
            self._ahead.follow(self._announced(order, first, last, rank, size, micro_batch))

    def fetch(self, indices: Sequence[int]) -> Any:
        return self._ahead.take(indices)

    def stats(self) -> LoadingStats:
        """What loading has cost so far."""
        return self._ahead.stats()

    def close(self) -> None:
        self._ahead.close()
        if self._near is not None:
            self._near.close()

    def _announced(
        self, order: SampleOrder, first: int, last: int, rank: int, size: int, micro_batch: int | None
    ) -> Iterator[Sequence[int]]:
        if self._near is None and self._batches is not None and order.shuffle:
            self._near = ReadAhead(self._dataset, self._dataset.order(order.seed))
        for step in range(first, last):
            if self._near is not None:
                self._near.move_to(*order.place(step))
            yield from micro_batches(order.share(step, rank, size).indices, micro_batch)

    def _read(self, indices: Sequence[int]) -> Any:
        """A batch in host memory."""
        if self._batches is not None:
            return self._batches.read(indices)
        if self._tensors is not None:
            chosen = torch.tensor(indices)
            return tuple(tensor[chosen] for tensor in self._tensors)
        if hasattr(self._dataset, "__getitems__"):
            samples = list(self._dataset.__getitems__(list(indices)))
        else:
            samples = [self._dataset[index] for index in indices]
        return (self._collate or _default_collate)(samples)

    def _deliver(self, batch: Any) -> Any:
        return _moved(batch, self._device) if self._batches is None else self._batches.deliver(batch)


def micro_batches(indices: Sequence[int], size: int | None) -> Iterator[Sequence[int]]:
    """Samples in batches of at most ``size``."""
    step = size or len(indices)
    yield from (indices[start : start + step] for start in range(0, len(indices), step))


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
