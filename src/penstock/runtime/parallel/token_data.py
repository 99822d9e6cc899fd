"""The samples of a step, the same for every plan and width: drawn by the number of the step alone."""

from pathlib import Path
from typing import Protocol

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from penstock.core import InputError
from penstock.runtime.data.reading.tensor_batches import TensorBatches
from penstock.runtime.data.reading.token_dataset import TokenDataset


class TokenSource(Protocol):
    """Where samples come from."""

    def batch(self, step: int, samples: int, sequence: int) -> tuple[Tensor, Tensor]:
        """Tokens of one step, and the token that follows each."""
        ...


class CountingTokens:
    """Tokens that count up from a random start: nothing to download, and the loss falls quickly if training works."""

    def __init__(self, vocabulary: int) -> None:
        self._vocabulary = vocabulary

    def batch(self, step: int, samples: int, sequence: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(step)
        start = torch.randint(0, self._vocabulary, (samples, 1), generator=generator)
        return _shifted((start + torch.arange(sequence + 1)) % self._vocabulary)


class FileTokens:
    """A flat file of 16-bit tokens, as GPT trainers prepare their text; samples begin at random places."""

    def __init__(self, path: Path, vocabulary: int) -> None:
        try:
            self._tokens = np.memmap(path, np.uint16, "r")
        except (OSError, ValueError) as problem:
            raise InputError(f"no tokens in {path}: {problem}", "a file of 16-bit tokens") from problem
        self._path, self._vocabulary = path, vocabulary

    def batch(self, step: int, samples: int, sequence: int) -> tuple[Tensor, Tensor]:
        if len(self._tokens) <= sequence + 1:
            raise InputError(f"{len(self._tokens)} tokens in {self._path}", f"more than the {sequence} of a sample")
        generator = torch.Generator().manual_seed(step)
        starts = torch.randint(0, len(self._tokens) - sequence - 1, (samples,), generator=generator)
        text = torch.stack([self._sample(int(start), sequence) for start in starts])
        if int(text.max()) >= self._vocabulary:
            raise InputError(f"token {int(text.max())} in {self._path}", f"less than the vocabulary {self._vocabulary}")
        return _shifted(text)

    def _sample(self, start: int, sequence: int) -> Tensor:
        return torch.from_numpy(self._tokens[start : start + sequence + 1].astype(np.int64))


class PackedTokens:
    """What ``penstock data pack`` wrote, in its own order; one process reads, the others get their tokens from it."""

    def __init__(self, location: str, vocabulary: int, sequence: int, device: torch.device) -> None:
        self._dataset = TokenDataset(location, sequence=sequence, boundaries=False)
        if self._dataset.vocabulary > vocabulary:
            raise InputError(
                f"{location} with a vocabulary of {self._dataset.vocabulary}", f"at most the model's {vocabulary}",
                f"Give --vocabulary {self._dataset.vocabulary}",
            )  # fmt: skip
        self._order = self._dataset.order(seed=0)
        self._batches = TensorBatches(self._dataset, device)
        self._device = device

    def batch(self, step: int, samples: int, sequence: int) -> tuple[Tensor, Tensor]:
        if dist.get_rank() == 0:
            chosen = self._order.overall((step - 1) * samples, step * samples)
            block = self._batches.read(chosen.tolist()).to(self._device)
        else:
            block = self._batches.empty(samples).to(self._device)
        dist.broadcast(block, 0)
        return block[0, :, :sequence], block[1, :, :sequence]


def _shifted(text: Tensor) -> tuple[Tensor, Tensor]:
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()
