"""Packed tokens for loops of one's own: an iterator of batches whose state is one position, valid for any width.

Ranks that work on the same samples (a model that is split by tensors or stages) can share one reader: with ``group``
the first of them reads and hands every batch to the others, who need no file system.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from penstock.core import InputError
from penstock.runtime.data.reading.prefetch import DEPTH, LoadingStats
from penstock.runtime.data.reading.tensor_batches import TensorBatches, as_batch
from penstock.runtime.data.reading.token_batch import TokenBatch
from penstock.runtime.training.data import Loader
from penstock.runtime.training.order import SampleOrder

_FOREVER = 2**62


class TokenLoader:
    """``for batch in TokenLoader(dataset, global_batch=512, rank=r, size=n)``: this rank's share of every global batch.

    Batches come without end, epoch after epoch; the last one of an epoch may be smaller, and empty on some ranks.
    ``state_dict`` counts what all ranks together have been given, so it is the same on all of them and may be loaded
    into any number of ranks: nothing is repeated and nothing left out.
    """

    def __init__(
        self, dataset: Any, *, global_batch: int, rank: int = 0, size: int = 1, seed: int = 0, shuffle: bool = True,
        device: torch.device | str = "cpu", prefetch: int = DEPTH, group: dist.ProcessGroup | None = None,
    ) -> None:  # fmt: skip
        if not 0 <= rank < size:
            raise InputError(f"rank {rank} of {size}", "0 to one less than the size")
        self._dataset = dataset
        self._rank, self._size = rank, size
        self._device = torch.device(device)
        self._batches = TensorBatches(dataset, self._device)
        self._group = group
        reads = group is None or dist.get_rank(group) == 0
        self._loader = Loader(dataset, self._device, prefetch=prefetch) if reads else None
        self._order = SampleOrder(
            samples=len(dataset), batch=global_batch, seed=seed, shuffle=shuffle,
            order=dataset.order(seed) if shuffle else None,
        )  # fmt: skip
        self._step = 0

    def __iter__(self) -> Iterator[TokenBatch]:
        first = self._step
        if self._loader is not None:
            self._loader.follow(self._order, first, _FOREVER, self._rank, self._size, None)
        while True:
            share = self._order.share(self._step, self._rank, self._size)
            batch = self._fetched(share.indices)
            self._step += 1
            yield batch if share.counted else TokenBatch(*(None if one is None else one[:0] for one in batch))

    def state_dict(self) -> dict[str, Any]:
        """Where all ranks together are: of constant size, and the same for every number of them."""
        return {
            "step": self._step, "global_batch": self._order.batch, "seed": self._order.seed,
            "shuffle": self._order.shuffle, "data": self._dataset.state_dict(),
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there with the next iteration over this loader."""
        own = self.state_dict()
        for name in ("global_batch", "seed", "shuffle"):
            if state[name] != own[name]:
                raise InputError(
                    f"{name}={own[name]}, where training began with {state[name]}", "the same",
                    "The order of samples would be another one",
                )  # fmt: skip
        self._dataset.load_state_dict(state["data"])
        self._step = int(state["step"])

    def stats(self) -> LoadingStats | None:
        """What loading has cost; nothing on ranks that do not read."""
        return None if self._loader is None else self._loader.stats()

    def close(self) -> None:
        if self._loader is not None:
            self._loader.close()

    def _fetched(self, indices: tuple[int, ...]) -> TokenBatch:
        if self._group is not None:
            return self._shared(indices, self._group)
        assert self._loader is not None
        batch: TokenBatch = self._loader.fetch(indices)
        return batch

    def _shared(self, indices: tuple[int, ...], group: dist.ProcessGroup) -> TokenBatch:
        """One member reads, all receive: tokens, labels and positions in one exchange."""
        if self._loader is None:
            block = self._batches.empty(len(indices)).to(self._device)
        else:
            batch = self._loader.fetch(indices)
            block = torch.stack([one for one in batch if one is not None])
        dist.broadcast(block, dist.get_global_rank(group, 0), group=group)
        return as_batch(block)
