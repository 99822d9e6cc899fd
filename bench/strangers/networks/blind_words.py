"""Words: read from pictures, put into vectors by their parts, written again from a single vector."""

from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor, nn


def read(inward: int, outward: int, *, norm: bool, window: int = 3) -> list[nn.Module]:
    layers: list[nn.Module] = [nn.Conv2d(inward, outward, window, padding=window // 3)]
    return [*layers, *([nn.BatchNorm2d(outward)] if norm else []), nn.ReLU(True)]


class BothWays(nn.Module):
    def __init__(self, inward: int, hidden: int, outward: int) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(inward, hidden, bidirectional=True)
        self.out = nn.Linear(2 * hidden, outward)

    def forward(self, value: Tensor) -> Tensor:
        found, _ = self.recurrent(value)
        length, batch, width = found.shape
        return self.out(found.view(length * batch, width)).view(length, batch, -1)


class Reader(nn.Module):
    """CRNN: columns of a word's picture, two recurrent layers both ways, CTC."""

    def __init__(self, letters: int, hidden: int) -> None:
        super().__init__()
        self.columns = nn.Sequential(
            *read(1, 64, norm=False), nn.MaxPool2d(2, 2), *read(64, 128, norm=False), nn.MaxPool2d(2, 2),
            *read(128, 256, norm=True), *read(256, 256, norm=False), nn.MaxPool2d((2, 2), (2, 1), (0, 1)),
            *read(256, 512, norm=True), *read(512, 512, norm=False), nn.MaxPool2d((2, 2), (2, 1), (0, 1)),
            *read(512, 512, norm=True, window=2),
        )  # fmt: skip
        self.recurrent = nn.Sequential(BothWays(512, hidden, hidden), BothWays(hidden, hidden, letters))

    def forward(self, picture: Tensor) -> Tensor:
        value = self.columns(picture).squeeze(2).permute(2, 0, 1)
        return functional.log_softmax(self.recurrent(value), dim=2)


def crnn(batch: int) -> Any:
    letters, loss = torch.randint(1, 37, (batch, 8)), nn.CTCLoss(zero_infinity=True)

    def read_right(output: Tensor) -> Tensor:
        seen = torch.full((batch,), output.shape[0], dtype=torch.long)
        return loss(output, letters, seen, torch.full((batch,), 8, dtype=torch.long))

    return Reader(37, 256), torch.rand(batch, 1, 32, 100), read_right


class WordVectors(nn.Module):
    """fastText: a word is the mean of its parts, its neighbours are told from words drawn at random."""

    def __init__(self, parts: int, words: int, width: int) -> None:
        super().__init__()
        self.parts = nn.EmbeddingBag(parts, width, mode="mean", sparse=True)
        self.words = nn.Embedding(words, width, sparse=True)
        nn.init.uniform_(self.parts.weight, -1 / width, 1 / width)
        nn.init.zeros_(self.words.weight)

    def forward(self, parts: Tensor, near: Tensor, drawn: Tensor) -> Tensor:
        word = self.parts(parts)
        right = (word * self.words(near)).sum(-1)
        wrong = torch.bmm(self.words(drawn), word.unsqueeze(2)).squeeze(2)
        return -(functional.logsigmoid(right) + functional.logsigmoid(-wrong).sum(1)).mean()


def word_vectors(batch: int) -> Any:
    inputs = (
        torch.randint(1000000, (batch, 12)), torch.randint(100000, (batch,)), torch.randint(100000, (batch, 10)),
    )  # fmt: skip
    return WordVectors(1000000, 100000, 100), inputs


class SentenceVae(nn.Module):
    """A sentence into a vector with doubt, and back word by word with some of the words hidden."""

    def __init__(self, words: int, width: int, hidden: int, latent: int) -> None:
        super().__init__()
        self.words, self.drop = nn.Embedding(words, width), nn.Dropout(0.3)
        self.encoder = nn.LSTM(width, hidden, batch_first=True, bidirectional=True)
        self.mean, self.spread = nn.Linear(2 * hidden, latent), nn.Linear(2 * hidden, latent)
        self.start = nn.Linear(latent, 2 * hidden)
        self.decoder = nn.LSTM(width + latent, hidden, batch_first=True)
        self.out = nn.Linear(hidden, words)

    def forward(self, tokens: Tensor) -> Tensor:
        batch, length = tokens.shape
        _, (last, _) = self.encoder(self.drop(self.words(tokens)))
        last = torch.cat([last[0], last[1]], dim=-1)
        mean, spread = self.mean(last), self.spread(last)
        latent = mean + torch.randn_like(mean) * torch.exp(0.5 * spread)
        hidden = torch.rand(batch, length - 1, device=tokens.device) < 0.25
        given = self.words(tokens[:, :-1].masked_fill(hidden, 3))
        given = torch.cat([self.drop(given), latent[:, None].expand(-1, length - 1, -1)], dim=-1)
        state = tuple(part.unsqueeze(0).contiguous() for part in torch.tanh(self.start(latent)).chunk(2, dim=-1))
        scores = self.out(self.drop(self.decoder(given, state)[0]))
        wrong = functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten(), reduction="sum") / batch
        apart = -0.5 * (1 + spread - mean.square() - spread.exp()).sum(1).mean()
        return wrong + 0.1 * apart


def sentence_vae(batch: int) -> Any:
    return SentenceVae(20000, 300, 512, 32), torch.randint(20000, (batch, 40))
