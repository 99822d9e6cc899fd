"""State-space models, linear attention and recurrent networks."""

import torch
import torch.nn.functional as functional
from torch import Tensor, nn


class SelectiveScan(nn.Module):
    """Mamba's block with its scan written as a cumulative sum of logarithms, in chunks."""

    def __init__(self, width: int, state: int = 16, chunk: int = 64) -> None:
        super().__init__()
        self.inner, self.state, self.chunk = 2 * width, state, chunk
        self.norm = nn.LayerNorm(width)
        self.into = nn.Linear(width, 2 * self.inner, bias=False)
        self.mix = nn.Conv1d(self.inner, self.inner, 4, padding=3, groups=self.inner)
        self.select = nn.Linear(self.inner, 2 * state + 1, bias=False)
        self.rate = nn.Parameter(torch.zeros(self.inner))
        self.skip = nn.Parameter(torch.ones(self.inner))
        self.out = nn.Linear(self.inner, width, bias=False)

    def forward(self, value: Tensor) -> Tensor:
        length = value.shape[1]
        inner, gate = self.into(self.norm(value)).chunk(2, dim=-1)
        inner = functional.silu(self.mix(inner.transpose(1, 2))[..., :length].transpose(1, 2))
        step, write, read = self.select(inner).split([1, self.state, self.state], dim=-1)
        step = functional.softplus(step)
        decay = -(step * self.rate.exp())
        pieces = zip(
            *(part.split(self.chunk, dim=1) for part in (decay, inner * step, write, read)), strict=True
        )  # fmt: skip
        scanned = torch.cat([self._scan(*piece) for piece in pieces], dim=1)
        return value + self.out((scanned + inner * self.skip) * functional.silu(gate))

    def _scan(self, decay: Tensor, driven: Tensor, write: Tensor, read: Tensor) -> Tensor:
        faded = decay.float().cumsum(1)
        weights = torch.einsum("btn,bsn->bts", read, write).tril()
        return torch.einsum("bts,bsd->btd", weights, driven * torch.exp(-faded)) * torch.exp(faded)


class Mamba(nn.Module):
    def __init__(self, width: int, layers: int, words: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(SelectiveScan(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        value = self.words(tokens)
        for block in self.blocks:
            value = block(value)
        return functional.linear(self.norm(value), self.words.weight)


class LongConvolution(nn.Module):
    """S4D: a diagonal state space turned into a kernel as long as the sequence, applied by Fourier transforms."""

    def __init__(self, width: int, states: int = 32) -> None:
        super().__init__()
        self.decay = nn.Parameter(torch.rand(width, states))
        self.turn = nn.Parameter(torch.rand(width, states))
        self.gain = nn.Parameter(torch.randn(width, states) / states)
        self.out = nn.Conv1d(width, 2 * width, 1)
        self.norm = nn.LayerNorm(width)

    def forward(self, value: Tensor) -> Tensor:
        length = value.shape[-1]
        times = torch.arange(length, device=value.device, dtype=value.dtype)
        modes = torch.exp(-self.decay.exp()[..., None] * times) * torch.cos(self.turn[..., None] * times)
        kernel = (self.gain[..., None] * modes).sum(1)
        turned = torch.fft.rfft(value, n=2 * length) * torch.fft.rfft(kernel, n=2 * length)
        mixed = functional.glu(self.out(functional.gelu(torch.fft.irfft(turned, n=2 * length)[..., :length])), dim=1)
        return self.norm((value + mixed).transpose(1, 2)).transpose(1, 2)


class S4(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.into = nn.Linear(1, width)
        self.blocks = nn.ModuleList(LongConvolution(width) for _ in range(layers))
        self.out = nn.Linear(width, 10)

    def forward(self, signal: Tensor) -> Tensor:
        value = self.into(signal).transpose(1, 2)
        for block in self.blocks:
            value = block(value)
        return self.out(value.mean(-1))


class Retention(nn.Module):
    """Linear attention with decaying weights in its parallel form, and a gate."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.parts = nn.Linear(width, 4 * width, bias=False)
        self.norm = nn.GroupNorm(heads, width)
        self.out = nn.Linear(width, width, bias=False)
        self.before, self.between = nn.RMSNorm(width), nn.RMSNorm(width)
        self.wide = nn.Sequential(nn.Linear(width, 3 * width), nn.GELU(approximate="tanh"), nn.Linear(3 * width, width))

    def forward(self, value: Tensor) -> Tensor:
        batch, length, width = value.shape
        query, key, content, gate = self.parts(self.before(value)).chunk(4, dim=-1)
        query, key, content = (
            part.view(batch, length, self.heads, -1).transpose(1, 2) for part in (query, key, content)
        )
        scores = query @ key.transpose(-1, -2) * self._fading(length, value)
        scores = scores / scores.detach().abs().sum(-1, keepdim=True).clamp(min=1)
        mixed = (scores @ content).transpose(1, 2).reshape(batch * length, width)
        value = value + self.out(functional.silu(gate) * self.norm(mixed).view(batch, length, width))
        return value + self.wide(self.between(value))

    def _fading(self, length: int, like: Tensor) -> Tensor:
        places = torch.arange(length, device=like.device)
        distance = (places[:, None] - places[None, :]).float()
        rates = torch.log1p(-torch.exp2(-5 - torch.arange(self.heads, device=like.device, dtype=torch.float32)))
        fading = torch.exp(rates[:, None, None] * distance).masked_fill(distance < 0, 0.0)
        return fading.to(like.dtype)


class RetNet(nn.Module):
    def __init__(self, width: int, layers: int, heads: int, words: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Retention(width, heads) for _ in range(layers))
        self.out = nn.Linear(width, words, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        value = self.words(tokens)
        for block in self.blocks:
            value = block(value)
        return self.out(value)


class Tagger(nn.Module):
    """Words, two directions of LSTM, a tag for every word."""

    def __init__(self, words: int, width: int, hidden: int, layers: int, tags: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.recurrent = nn.LSTM(width, hidden, layers, batch_first=True, bidirectional=True, dropout=0.2)
        self.out = nn.Linear(2 * hidden, tags)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.recurrent(self.words(tokens))[0])


class WordModel(nn.Module):
    def __init__(self, words: int, width: int, layers: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.drop = nn.Dropout(0.3)
        self.recurrent = nn.LSTM(width, width, layers, dropout=0.3)
        self.out = nn.Linear(width, words)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.drop(self.recurrent(self.drop(self.words(tokens)))[0]))


class Translator(nn.Module):
    """GRU encoder and decoder with attention between them, everything at once (teacher forcing)."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(words, width), nn.Embedding(words, width)
        self.encoder = nn.GRU(width, width, 2, batch_first=True, bidirectional=True)
        self.decoder = nn.GRU(width, 2 * width, 2, batch_first=True)
        self.out = nn.Linear(4 * width, words)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory, _ = self.encoder(self.source(source))
        state, _ = self.decoder(self.target(target))
        weights = torch.softmax(torch.bmm(state, memory.transpose(1, 2)), dim=-1)
        return self.out(torch.cat([state, torch.bmm(weights, memory)], dim=-1))


class CellByCell(nn.Module):
    """A recurrent policy as people unroll it by hand: one small step after another, all of it issued by the host."""

    def __init__(self, seen: int, hidden: int) -> None:
        super().__init__()
        self.into = nn.Linear(seen, hidden)
        self.cell = nn.LSTMCell(hidden, hidden)
        self.out = nn.Linear(hidden, 8)

    def forward(self, observations: Tensor) -> Tensor:
        state: tuple[Tensor, Tensor] | None = None
        outputs = []
        for step in self.into(observations).tanh().unbind(1):
            state = self.cell(step, state)
            outputs.append(self.out(state[0]))
        return torch.stack(outputs, dim=1)


def next_word(output: Tensor, tokens: Tensor) -> Tensor:
    return functional.cross_entropy(output.flatten(0, 1).float(), tokens.flatten())
