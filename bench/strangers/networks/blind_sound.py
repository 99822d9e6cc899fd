"""Text to speech: phonemes to a spectrum by lengths that are predicted, and a spectrum to a wave sample by sample."""

import math
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence


def sinusoids(length: int, width: int) -> Tensor:
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    angles = torch.arange(length)[:, None] * rates[None]
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class SpeechBlock(nn.Module):
    """Attention and two convolutions over time, whatever is padding set to zero after each."""

    def __init__(self, width: int, heads: int, hidden: int, window: int = 9) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.wide = nn.Conv1d(width, hidden, window, padding=window // 2)
        self.narrow = nn.Conv1d(hidden, width, 1)
        self.drop = nn.Dropout(0.2)

    def forward(self, value: Tensor, padding: Tensor) -> Tensor:
        batch, length, width = value.shape
        query, key, content = (
            part(value).view(batch, length, self.heads, -1).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-2, -1) / math.sqrt(width // self.heads)
        weights = scores.masked_fill(padding[:, None, None, :], float("-inf")).softmax(dim=-1)
        mixed = (weights @ content).transpose(1, 2).reshape(value.shape)
        value = self.first(value + self.drop(self.out(mixed))).masked_fill(padding[..., None], 0)
        wide = self.narrow(functional.relu(self.wide(value.transpose(1, 2)))).transpose(1, 2)
        return self.second(value + self.drop(wide)).masked_fill(padding[..., None], 0)


class VariancePredictor(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv1d(width, width, 3, padding=1) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.drop, self.out = nn.Dropout(0.5), nn.Linear(width, 1)

    def forward(self, value: Tensor, padding: Tensor) -> Tensor:
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            value = self.drop(norm(functional.relu(convolution(value.transpose(1, 2))).transpose(1, 2)))
        return self.out(value).squeeze(-1).masked_fill(padding, 0.0)


def lengthened(value: Tensor, durations: Tensor, frames: int) -> Tensor:
    """Every phoneme as often as it lasts."""
    rows = [torch.repeat_interleave(one, lasts, dim=0) for one, lasts in zip(value, durations, strict=True)]
    padded = pad_sequence(rows, batch_first=True)
    return functional.pad(padded, (0, 0, 0, frames - padded.shape[1]))


def postnet(bands: int, width: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for place in range(5):
        inward, outward = bands if place == 0 else width, bands if place == 4 else width
        layers += [nn.Conv1d(inward, outward, 5, padding=2), nn.BatchNorm1d(outward)]
        layers += [nn.Tanh()] if place < 4 else []
        layers += [nn.Dropout(0.5)]
    return nn.Sequential(*layers)


class FastSpeech(nn.Module):
    """FastSpeech 2: lengths, pitch and energy are predicted, and taught while it learns."""

    def __init__(self, phonemes: int, width: int, bands: int = 80) -> None:
        super().__init__()
        self.phonemes = nn.Embedding(phonemes, width, padding_idx=0)
        self.register_buffer("places", sinusoids(1000, width))
        self.register_buffer("bins", torch.linspace(-3, 3, 255))
        self.encoder = nn.ModuleList(SpeechBlock(width, 2, 1024) for _ in range(4))
        self.decoder = nn.ModuleList(SpeechBlock(width, 2, 1024) for _ in range(6))
        self.duration, self.pitch, self.energy = (VariancePredictor(width) for _ in range(3))
        self.pitches, self.energies = nn.Embedding(256, width), nn.Embedding(256, width)
        self.out, self.postnet = nn.Linear(width, bands), postnet(bands, 512)

    def forward(
        self, phonemes: Tensor, lengths: Tensor, durations: Tensor, pitch: Tensor, energy: Tensor, spectrum: Tensor
    ) -> Tensor:
        quiet = torch.arange(phonemes.shape[1], device=phonemes.device)[None] >= lengths[:, None]
        durations = durations.masked_fill(quiet, 0)
        value = self.phonemes(phonemes) + self.places[: phonemes.shape[1]]
        for block in self.encoder:
            value = block(value, quiet)
        guessed = [predict(value, quiet) for predict in (self.duration, self.pitch, self.energy)]
        value = value + self.pitches(torch.bucketize(pitch, self.bins))
        value = value + self.energies(torch.bucketize(energy, self.bins))
        frames = spectrum.shape[1]
        silent = torch.arange(frames, device=value.device)[None] >= durations.sum(1, keepdim=True)
        value = lengthened(value, durations, frames) + self.places[:frames]
        for block in self.decoder:
            value = block(value, silent)
        drawn = self.out(value)
        refined = drawn + self.postnet(drawn.transpose(1, 2)).transpose(1, 2)
        wanted = (torch.log(durations.float() + 1), pitch, energy)
        heard = ~silent[..., None]
        loss = sum(
            functional.l1_loss(one.masked_select(heard), spectrum.masked_select(heard)) for one in (drawn, refined)
        )
        for guess, truth in zip(guessed, wanted, strict=True):
            loss = loss + functional.mse_loss(guess.masked_select(~quiet), truth.masked_select(~quiet))
        return loss


def fastspeech(batch: int) -> Any:
    inputs = (
        torch.randint(1, 150, (batch, 100)), torch.randint(60, 101, (batch,)), torch.randint(2, 9, (batch, 100)),
        torch.randn(batch, 100), torch.randn(batch, 100), torch.randn(batch, 640, 80),
    )  # fmt: skip
    return FastSpeech(150, 256), inputs


class GatedLayer(nn.Module):
    """A window with holes into the past, told what to say, and a gate."""

    def __init__(self, width: int, skip: int, told: int, dilation: int, *, last: bool) -> None:
        super().__init__()
        self.reach = dilation
        self.past = nn.Conv1d(width, 2 * width, 2, dilation=dilation)
        self.told = nn.Conv1d(told, 2 * width, 1, bias=False)
        self.keep = None if last else nn.Conv1d(width, width, 1)
        self.skip = nn.Conv1d(width, skip, 1)

    def forward(self, value: Tensor, told: Tensor) -> tuple[Tensor, Tensor]:
        both = self.past(functional.pad(value, (self.reach, 0))) + self.told(told)
        left, right = both.chunk(2, dim=1)
        gated = torch.tanh(left) * torch.sigmoid(right)
        if self.keep is not None:
            value = (value + self.keep(gated)) * math.sqrt(0.5)
        return value, self.skip(gated)


class WaveNet(nn.Module):
    def __init__(self, width: int, skip: int, stacks: int, layers: int, bands: int = 80, levels: int = 256) -> None:
        super().__init__()
        self.levels = levels
        self.into = nn.Conv1d(levels, width, 1)
        self.raised = nn.Sequential(
            nn.ConvTranspose1d(bands, bands, 20, 10, 5), nn.LeakyReLU(0.4),
            nn.ConvTranspose1d(bands, bands, 40, 20, 10), nn.LeakyReLU(0.4),
        )  # fmt: skip
        dilations = [2**place for _ in range(stacks) for place in range(layers)]
        self.layers = nn.ModuleList(
            GatedLayer(width, skip, bands, dilation, last=place == len(dilations) - 1)
            for place, dilation in enumerate(dilations)
        )
        self.out = nn.Sequential(nn.ReLU(), nn.Conv1d(skip, skip, 1), nn.ReLU(), nn.Conv1d(skip, levels, 1))

    def forward(self, wave: Tensor, spectrum: Tensor) -> Tensor:
        value = self.into(functional.one_hot(wave, self.levels).transpose(1, 2).float())
        told, skipped = self.raised(spectrum), 0
        for layer in self.layers:
            value, found = layer(value, told)
            skipped = skipped + found
        return self.out(skipped)


def wavenet(batch: int) -> Any:
    """A second of sound."""
    wave = torch.randint(256, (batch, 16000))

    def loss(output: Tensor) -> Tensor:
        return functional.cross_entropy(output[:, :, :-1], wave[:, 1:])

    return WaveNet(64, 256, 3, 10), (wave, torch.randn(batch, 80, 80)), loss
