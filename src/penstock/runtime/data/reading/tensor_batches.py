"""Samples as tensors: read into one block of memory, page-locked where a GPU waits for it, and moved there at once."""

from collections.abc import Sequence
from typing import Any

import torch

from penstock.runtime.data.reading.token_batch import TokenBatch


class TensorBatches:
    """Batches of a token data set on a device. PyTorch keeps page-locked memory and reuses it when copies are done."""

    def __init__(self, dataset: Any, device: torch.device) -> None:
        self._dataset = dataset
        self._device = device

    def read(self, indices: Sequence[int]) -> torch.Tensor:
        """The batch in host memory: tokens, labels and, with boundaries, positions, one above the other."""
        block = self.empty(len(indices), pinned=self._device.type == "cuda")
        self._dataset.read_into(indices, as_batch(block.numpy()))
        return block

    def empty(self, rows: int, *, pinned: bool = False) -> torch.Tensor:
        planes = 3 if self._dataset.boundaries else 2
        return torch.empty((planes, rows, self._dataset.sequence), dtype=torch.int64, pin_memory=pinned)

    def deliver(self, block: torch.Tensor) -> TokenBatch:
        """The same on the device; the copy runs while the caller goes on."""
        return as_batch(block.to(self._device, non_blocking=True))


def as_batch(block: Any) -> TokenBatch:
    return TokenBatch(block[0], block[1], block[2] if len(block) > 2 else None)
