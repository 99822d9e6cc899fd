"""Encoders from PyTorch's own parts, speech, flows, fields, tables, control, contrast."""

import itertools
import math
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class Classifier(nn.Module):
    """``nn.TransformerEncoder`` over words, with padding masked out."""

    def __init__(self, words: int, width: int, heads: int, layers: int, *, norm_first: bool = False) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.zeros(1, 512, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, 0.1, activation="gelu", batch_first=True, norm_first=norm_first
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, 2)

    def forward(self, tokens: Tensor, padding: Tensor | None = None) -> Tensor:
        value = self.words(tokens) + self.places[:, : tokens.shape[1]]
        return self.out(self.encoder(value, src_key_padding_mask=padding)[:, 0])


class SequenceToSequence(nn.Module):
    """``nn.Transformer`` as its documentation shows it: sequence first, a causal mask for the target."""

    def __init__(self, words: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words, self.width = nn.Embedding(words, width), width
        self.transformer = nn.Transformer(width, heads, layers, layers, 4 * width, 0.1)
        self.out = nn.Linear(width, words)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[0], device=target.device)
        scale = math.sqrt(self.width)
        return self.out(self.transformer(self.words(source) * scale, self.words(target) * scale, tgt_mask=mask))


class Vision(nn.Module):
    """A vision transformer whose blocks use ``nn.MultiheadAttention``."""

    def __init__(self, width: int, heads: int, layers: int, patch: int = 16) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first, self.places = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.zeros(1, 197, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.attention = nn.ModuleList(nn.MultiheadAttention(width, heads, batch_first=True) for _ in range(layers))
        self.wide = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(layers)
        )
        self.out = nn.Linear(width, 1000)

    def forward(self, picture: Tensor) -> Tensor:
        value = self.patches(picture).flatten(2).transpose(1, 2)
        value = torch.cat([self.first.expand(value.shape[0], -1, -1), value], dim=1) + self.places
        for place, (attention, wide) in enumerate(zip(self.attention, self.wide, strict=True)):
            normed = self.norms[2 * place](value)
            value = value + attention(normed, normed, normed, need_weights=False)[0]
            value = value + wide(self.norms[2 * place + 1](value))
        return self.out(value[:, 0])


class Biased(nn.Module):
    """Attention with a learned bias of relative places (T5, Swin): a mask that needs a gradient."""

    def __init__(self, width: int, heads: int, layers: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.into = nn.Linear(96, width)
        self.parts = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.outs = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.bias = nn.Embedding(2 * length - 1, heads)
        self.register_buffer("places", torch.arange(length)[:, None] - torch.arange(length)[None] + length - 1)

    def forward(self, value: Tensor) -> Tensor:
        value = self.into(value)
        batch, length, width = value.shape
        bias = self.bias(self.places).permute(2, 0, 1)[None]
        for parts, out, norm in zip(self.parts, self.outs, self.norms, strict=True):
            query, key, content = parts(norm(value)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(query, key, content, attn_mask=bias.to(query.dtype))
            value = value + out(mixed.transpose(1, 2).reshape(batch, length, width))
        return value.mean(1)


class Checkpointed(nn.Module):
    """A language model that recomputes its blocks by ``torch.utils.checkpoint``."""

    def __init__(self, words: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.out = nn.Linear(width, words, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        value = self.words(tokens)
        for block in self.blocks:
            value = checkpoint(block, value, use_reentrant=False)
        return self.out(value)


class ConformerBlock(nn.Module):
    def __init__(self, width: int, heads: int, window: int = 31) -> None:
        super().__init__()
        self.halves = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, 4 * width),
                nn.SiLU(),
                nn.Dropout(0.1),
                nn.Linear(4 * width, width),
            )
            for _ in range(2)
        )
        self.norm, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, 0.1, batch_first=True)
        self.before = nn.LayerNorm(width)
        self.mix = nn.Sequential(
            nn.Conv1d(width, 2 * width, 1), nn.GLU(dim=1),
            nn.Conv1d(width, width, window, padding=window // 2, groups=width), nn.BatchNorm1d(width), nn.SiLU(),
            nn.Conv1d(width, width, 1),
        )  # fmt: skip

    def forward(self, value: Tensor) -> Tensor:
        value = value + 0.5 * self.halves[0](value)
        normed = self.norm(value)
        value = value + self.attention(normed, normed, normed, need_weights=False)[0]
        value = value + self.mix(self.before(value).transpose(1, 2)).transpose(1, 2)
        return self.last(value + 0.5 * self.halves[1](value))


class Conformer(nn.Module):
    """Speech to letters: two strided convolutions, blocks of attention and convolution, CTC."""

    def __init__(self, width: int, heads: int, layers: int, letters: int = 128) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, 2), nn.ReLU(), nn.Conv2d(width, width, 3, 2), nn.ReLU())
        self.into = nn.Linear(width * 19, width)
        self.blocks = nn.Sequential(*(ConformerBlock(width, heads) for _ in range(layers)))
        self.out = nn.Linear(width, letters)

    def forward(self, spectrum: Tensor) -> Tensor:
        value = self.stem(spectrum[:, None])
        value = self.into(value.transpose(1, 2).flatten(2))
        return self.out(self.blocks(value)).float().log_softmax(-1).transpose(0, 1)


def ctc(output: Tensor, letters: Tensor) -> Tensor:
    length, batch, _ = output.shape
    seen = torch.full((batch,), length, dtype=torch.long)
    said = torch.full((batch,), letters.shape[1], dtype=torch.long)
    return functional.ctc_loss(output, letters, seen, said, zero_infinity=True)


class WaveEncoder(nn.Module):
    """wav2vec 2.0: seven convolutions over the raw wave, then a transformer."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        windows = [(10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2)]
        stack: list[nn.Module] = []
        for place, (window, stride) in enumerate(windows):
            stack += [nn.Conv1d(512 if place else 1, 512, window, stride, bias=False)]
            stack += [nn.GroupNorm(512, 512)] if not place else []
            stack += [nn.GELU()]
        self.wave = nn.Sequential(*stack)
        self.into = nn.Sequential(nn.LayerNorm(512), nn.Linear(512, width))
        self.places = nn.Conv1d(width, width, 128, padding=64, groups=16)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, 320)

    def forward(self, wave: Tensor) -> Tensor:
        value = self.into(self.wave(wave[:, None]).transpose(1, 2))
        value = value + functional.gelu(self.places(value.transpose(1, 2))[..., :-1].transpose(1, 2))
        return self.out(self.encoder(value))


class Coupling(nn.Module):
    """Glow: channels mixed by a matrix whose determinant counts, half of them changed by the other half."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.eye(channels) + 0.01 * torch.ones(channels, channels))
        self.scale, self.shift = (
            nn.Parameter(torch.ones(1, channels, 1, 1)),
            nn.Parameter(torch.zeros(1, channels, 1, 1)),
        )
        self.net = nn.Sequential(
            nn.Conv2d(channels // 2, hidden, 3, padding=1), nn.ReLU(), nn.Conv2d(hidden, hidden, 1), nn.ReLU(),
            nn.Conv2d(hidden, channels, 3, padding=1),
        )  # fmt: skip

    def forward(self, value: Tensor) -> tuple[Tensor, Tensor]:
        pixels = value.shape[-1] * value.shape[-2]
        value = value * self.scale + self.shift
        value = functional.conv2d(value, self.mix[:, :, None, None])
        volume = pixels * (torch.linalg.slogdet(self.mix)[1] + self.scale.abs().log().sum())
        kept, changed = value.chunk(2, dim=1)
        log_scale, shift = self.net(kept).chunk(2, dim=1)
        log_scale = torch.tanh(log_scale)
        return torch.cat([kept, changed * log_scale.exp() + shift], dim=1), volume + log_scale.sum((1, 2, 3))


class Flow(nn.Module):
    def __init__(self, hidden: int, steps: int) -> None:
        super().__init__()
        self.steps = nn.ModuleList(Coupling(12 if place < steps // 2 else 48, hidden) for place in range(steps))

    def forward(self, picture: Tensor) -> Tensor:
        value, volume = functional.pixel_unshuffle(picture, 2), torch.zeros(picture.shape[0], device=picture.device)
        for place, step in enumerate(self.steps):
            if place == len(self.steps) // 2:
                value = functional.pixel_unshuffle(value, 2)
            value, more = step(value)
            volume = volume + more
        return (0.5 * value.square().sum((1, 2, 3)) - volume).mean() / picture[0].numel()


class Autoregressive(nn.Module):
    """MAF: networks with masked weights over a table's columns, several in a row."""

    def __init__(self, columns: int, hidden: int, steps: int) -> None:
        super().__init__()
        self.first = nn.ModuleList(nn.Linear(columns, hidden) for _ in range(steps))
        self.second = nn.ModuleList(nn.Linear(hidden, 2 * columns) for _ in range(steps))
        degrees = torch.arange(hidden) % (columns - 1)
        self.register_buffer("into", (degrees[:, None] >= torch.arange(columns)[None]).float())
        self.register_buffer("out", (torch.arange(columns).repeat(2)[:, None] > degrees[None]).float())

    def forward(self, value: Tensor) -> Tensor:
        volume = 0.0
        for first, second in zip(self.first, self.second, strict=True):
            hidden = functional.relu(functional.linear(value, first.weight * self.into, first.bias))
            shift, scale = functional.linear(hidden, second.weight * self.out, second.bias).chunk(2, dim=-1)
            value = ((value - shift) * torch.exp(-scale)).flip(-1)
            volume = volume + scale.sum(-1)
        return (0.5 * value.square().sum(-1) + volume).mean()


class Spectral(nn.Module):
    """A Fourier neural operator's layer: products of the low frequencies, and a bypass."""

    def __init__(self, width: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        self.low = nn.Parameter(torch.randn(width, width, modes, modes, 2) / width)
        self.high = nn.Parameter(torch.randn(width, width, modes, modes, 2) / width)
        self.bypass = nn.Conv2d(width, width, 1)

    def forward(self, value: Tensor) -> Tensor:
        seen, modes = torch.fft.rfft2(value), self.modes
        out = torch.zeros_like(seen)
        low, high = torch.view_as_complex(self.low), torch.view_as_complex(self.high)
        out[:, :, :modes, :modes] = torch.einsum("bixy,ioxy->boxy", seen[:, :, :modes, :modes], low)
        out[:, :, -modes:, :modes] = torch.einsum("bixy,ioxy->boxy", seen[:, :, -modes:, :modes], high)
        return functional.gelu(torch.fft.irfft2(out, s=value.shape[-2:]) + self.bypass(value))


class Operator(nn.Module):
    def __init__(self, width: int, modes: int, layers: int) -> None:
        super().__init__()
        self.into, self.out = nn.Conv2d(3, width, 1), nn.Conv2d(width, 1, 1)
        self.layers = nn.Sequential(*(Spectral(width, modes) for _ in range(layers)))

    def forward(self, field: Tensor) -> Tensor:
        return self.out(self.layers(self.into(field)))


class Field(nn.Module):
    """NeRF: a deep narrow network over encoded points, and what a ray sees by cumulative products."""

    def __init__(self, width: int, layers: int, samples: int) -> None:
        super().__init__()
        self.samples = samples
        sizes = [63, *[width] * layers]
        self.layers = nn.ModuleList(
            nn.Linear(i + (63 if place == layers // 2 else 0), o)
            for place, (i, o) in enumerate(itertools.pairwise(sizes))
        )
        self.out = nn.Linear(width, 4)

    def forward(self, rays: Tensor) -> Tensor:
        far = torch.linspace(0.0, 1.0, self.samples, device=rays.device, dtype=rays.dtype)
        points = rays[:, None, :3] + rays[:, None, 3:] * far[None, :, None]
        angles = points[..., None] * 2.0 ** torch.arange(10, device=rays.device, dtype=rays.dtype)
        encoded = torch.cat([points, angles.sin().flatten(-2), angles.cos().flatten(-2)], dim=-1)
        value = encoded
        for place, layer in enumerate(self.layers):
            value = functional.relu(layer(torch.cat([value, encoded], -1) if place == len(self.layers) // 2 else value))
        found = self.out(value)
        opaque = 1 - torch.exp(-functional.relu(found[..., 3]))
        light = torch.cumprod(torch.cat([torch.ones_like(opaque[:, :1]), 1 - opaque[:, :-1]], dim=1) + 1e-6, dim=1)
        return ((opaque * light)[..., None] * torch.sigmoid(found[..., :3])).sum(1)


class Tabular(nn.Module):
    """FT-Transformer: every column of a table is a token."""

    def __init__(self, numbers: int, categories: int, width: int, layers: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.randn(numbers, width)), nn.Parameter(torch.zeros(numbers, width))
        self.table = nn.Embedding(1000 * categories, width)
        layer = nn.TransformerEncoderLayer(width, 8, 2 * width, 0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, 1)

    def forward(self, numbers: Tensor, categories: Tensor) -> Tensor:
        tokens = torch.cat([numbers[..., None] * self.scale + self.shift, self.table(categories)], dim=1)
        return self.out(self.encoder(tokens).mean(1))


class Plain(nn.Module):
    """A wide network with batch norms, as for click rates and small tables."""

    def __init__(self, columns: int, width: int, layers: int) -> None:
        super().__init__()
        sizes = [columns, *[width] * layers]
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in itertools.pairwise(sizes))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(layers))
        self.out = nn.Linear(width, 1)

    def forward(self, value: Tensor) -> Tensor:
        for layer, norm in zip(self.layers, self.norms, strict=True):
            value = functional.dropout(functional.relu(norm(layer(value))), 0.1, self.training)
        return self.out(value)


class ActorCritic(nn.Module):
    """PPO's loss over a small policy and a small value network: all of it waits for the host."""

    def __init__(self, seen: int, actions: int, width: int = 256) -> None:
        super().__init__()
        self.actor = nn.Sequential(
            nn.Linear(seen, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, actions)
        )
        self.critic = nn.Sequential(
            nn.Linear(seen, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )

    def forward(self, seen: Tensor, action: Tensor, before: Tensor, gain: Tensor, reward: Tensor) -> Tensor:
        chances = torch.log_softmax(self.actor(seen), dim=-1)
        taken = chances.gather(1, action[:, None]).squeeze(1)
        ratio = torch.exp(taken - before)
        gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        surrogate = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        entropy = -(chances.exp() * chances).sum(-1).mean()
        return -surrogate - 0.01 * entropy + 0.5 * (self.critic(seen).squeeze(1) - reward).square().mean()


class PixelPolicy(nn.Module):
    """IMPALA's network over small pictures."""

    def __init__(self, actions: int = 15) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inward, outward in ((4, 32), (32, 64), (64, 64)):
            layers += [nn.Conv2d(inward, outward, 3, padding=1), nn.MaxPool2d(3, 2, 1), _Skip(outward), _Skip(outward)]
        self.body = nn.Sequential(*layers, nn.ReLU(), nn.Flatten(), nn.Linear(64 * 64, 256), nn.ReLU())
        self.policy, self.value = nn.Linear(256, actions), nn.Linear(256, 1)

    def forward(self, picture: Tensor) -> tuple[Tensor, Tensor]:
        found = self.body(picture / 255.0)
        return torch.log_softmax(self.policy(found), -1), self.value(found)


class _Skip(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )

    def forward(self, value: Tensor) -> Tensor:
        return value + self.path(value)


class TwoTowers(nn.Module):
    """CLIP: pictures and words into one space, every pair compared."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.pictures = Vision(width, width // 64, layers)
        self.words = Classifier(32000, width, width // 64, layers, norm_first=True)
        self.pictures.out, self.words.out = nn.Linear(width, 512), nn.Linear(width, 512)
        self.warmth = nn.Parameter(torch.tensor(2.6))

    def forward(self, picture: Tensor, tokens: Tensor) -> Tensor:
        left, right = (
            functional.normalize(self.pictures(picture), dim=-1),
            functional.normalize(self.words(tokens), dim=-1),
        )
        scores = self.warmth.exp() * left @ right.t()
        right_one = torch.arange(len(scores), device=scores.device)
        return (functional.cross_entropy(scores, right_one) + functional.cross_entropy(scores.t(), right_one)) / 2


class Twins(nn.Module):
    """SimCLR: two views of every picture, the loss over all pairs with the diagonal masked out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        from bench.strangers.networks.pictures import Residual

        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), Residual(width, width, 1),
            Residual(width, 2 * width, 2), Residual(2 * width, 4 * width, 2), Residual(4 * width, 8 * width, 2),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Sequential(nn.Linear(8 * width, 512), nn.ReLU(), nn.Linear(512, 128))

    def forward(self, views: Tensor) -> Tensor:
        found = functional.normalize(self.head(self.body(views)), dim=-1)
        scores = (found @ found.t() / 0.5).float()
        count = len(scores)
        scores = scores.masked_fill(torch.eye(count, dtype=torch.bool, device=scores.device), -1e9)
        return functional.cross_entropy(scores, (torch.arange(count, device=scores.device) + count // 2) % count)


def itself(output: Any) -> Tensor:
    """For models that return their loss."""
    found: Tensor = output.float()
    return found
