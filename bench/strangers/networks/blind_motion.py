"""What moves and who it is: optical flow, rain in the next hour, actions in films, persons seen by several cameras."""

from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor, nn


class FlowResidual(nn.Module):
    def __init__(self, inward: int, outward: int, norm: type[nn.Module], stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inward, outward, 3, stride, 1), norm(outward), nn.ReLU(inplace=True),
            nn.Conv2d(outward, outward, 3, 1, 1), norm(outward), nn.ReLU(inplace=True),
        )  # fmt: skip
        self.skip = (
            nn.Identity() if stride == 1 else nn.Sequential(nn.Conv2d(inward, outward, 1, stride), norm(outward))
        )

    def forward(self, value: Tensor) -> Tensor:
        return functional.relu(self.skip(value) + self.body(value))


def flow_encoder(outward: int, norm: type[nn.Module]) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3), norm(64), nn.ReLU(inplace=True), FlowResidual(64, 64, norm, 1),
        FlowResidual(64, 64, norm, 1), FlowResidual(64, 96, norm, 2), FlowResidual(96, 96, norm, 1),
        FlowResidual(96, 128, norm, 2), FlowResidual(128, 128, norm, 1), nn.Conv2d(128, outward, 1),
    )  # fmt: skip


class Correlation:
    """Every pixel compared with every other one, at four resolutions, looked up around where it is thought to go."""

    def __init__(self, first: Tensor, second: Tensor, radius: int = 4) -> None:
        batch, channels, height, width = first.shape
        volume = torch.einsum("bcn,bcm->bnm", first.flatten(2), second.flatten(2)) / channels**0.5
        volume = volume.reshape(batch * height * width, 1, height, width)
        self.radius, self.levels = radius, [volume]
        for _ in range(3):
            self.levels.append(functional.avg_pool2d(self.levels[-1], 2, stride=2))

    def __call__(self, where: Tensor) -> Tensor:
        batch, _, height, width = where.shape
        around = torch.linspace(-self.radius, self.radius, 2 * self.radius + 1, device=where.device)
        window = torch.stack(torch.meshgrid(around, around, indexing="ij"), dim=-1)
        centre, found = where.permute(0, 2, 3, 1).reshape(-1, 1, 1, 2), []
        for level, volume in enumerate(self.levels):
            places = centre / 2**level + window
            size = torch.tensor([volume.shape[-1] - 1, volume.shape[-2] - 1], device=where.device)
            sampled = functional.grid_sample(volume, 2 * places / size - 1, align_corners=True)
            found.append(sampled.view(batch, height, width, -1))
        return torch.cat(found, dim=-1).permute(0, 3, 1, 2).contiguous()


class SeparableGRU(nn.Module):
    def __init__(self, hidden: int, inward: int) -> None:
        super().__init__()
        both = hidden + inward
        self.flat = nn.ModuleList(nn.Conv2d(both, hidden, (1, 5), padding=(0, 2)) for _ in range(3))
        self.tall = nn.ModuleList(nn.Conv2d(both, hidden, (5, 1), padding=(2, 0)) for _ in range(3))

    def forward(self, state: Tensor, value: Tensor) -> Tensor:
        for update, reset, new in (self.flat, self.tall):
            both = torch.cat([state, value], dim=1)
            gate, kept = torch.sigmoid(update(both)), torch.sigmoid(reset(both))
            state = (1 - gate) * state + gate * torch.tanh(new(torch.cat([kept * state, value], dim=1)))
        return state


class Raft(nn.Module):
    """Optical flow refined twelve times by a recurrent unit that reads a volume of correlations."""

    def __init__(self, rounds: int = 12, hidden: int = 128) -> None:
        super().__init__()
        self.rounds, self.hidden = rounds, hidden
        self.features = flow_encoder(256, nn.InstanceNorm2d)
        self.context = flow_encoder(2 * hidden, nn.BatchNorm2d)
        self.seen = nn.Sequential(nn.Conv2d(4 * 81, 256, 1), nn.ReLU(), nn.Conv2d(256, 192, 3, padding=1), nn.ReLU())
        self.moved = nn.Sequential(
            nn.Conv2d(2, 128, 7, padding=3), nn.ReLU(), nn.Conv2d(128, 64, 3, padding=1), nn.ReLU()
        )
        self.joined = nn.Conv2d(256, 126, 3, padding=1)
        self.gru = SeparableGRU(hidden, hidden + 128)
        self.flow = nn.Sequential(nn.Conv2d(hidden, 256, 3, padding=1), nn.ReLU(), nn.Conv2d(256, 2, 3, padding=1))
        self.mask = nn.Sequential(nn.Conv2d(hidden, 256, 3, padding=1), nn.ReLU(), nn.Conv2d(256, 576, 1))

    def forward(self, first: Tensor, second: Tensor) -> list[Tensor]:
        left, right = self.features(torch.cat([first, second])).chunk(2)
        correlation = Correlation(left.float(), right.float())
        state, context = self.context(first).split(self.hidden, dim=1)
        state, context = torch.tanh(state), torch.relu(context)
        start = places_of(left)
        where, flows = start.clone(), []
        for _ in range(self.rounds):
            where = where.detach()
            flow = where - start
            motion = torch.cat([self.seen(correlation(where)), self.moved(flow)], dim=1)
            motion = torch.cat([torch.relu(self.joined(motion)), flow], dim=1)
            state = self.gru(state, torch.cat([context, motion], dim=1))
            where = where + self.flow(state)
            flows.append(enlarged(where - start, 0.25 * self.mask(state)))
        return flows


def places_of(value: Tensor) -> Tensor:
    height, width = value.shape[-2:]
    rows, columns = torch.meshgrid(
        torch.arange(height, device=value.device), torch.arange(width, device=value.device), indexing="ij"
    )
    return torch.stack([columns, rows]).float()[None].repeat(len(value), 1, 1, 1)


def enlarged(flow: Tensor, mask: Tensor) -> Tensor:
    """Eight times larger: each fine pixel is a weighted mean of nine coarse ones."""
    batch, _, height, width = flow.shape
    weights = mask.view(batch, 1, 9, 8, 8, height, width).softmax(dim=2)
    near = functional.unfold(8 * flow, (3, 3), padding=1).view(batch, 2, 9, 1, 1, height, width)
    fine = (weights * near).sum(dim=2)
    return fine.permute(0, 1, 4, 2, 5, 3).reshape(batch, 2, 8 * height, 8 * width)


def raft(batch: int) -> Any:
    inputs = (torch.rand(batch, 3, 368, 496), torch.rand(batch, 3, 368, 496))
    truth, valid = 10 * torch.randn(batch, 2, 368, 496), torch.rand(batch, 368, 496) > 0.1

    def loss(flows: list[Tensor]) -> Tensor:
        known = (valid & (truth.square().sum(1).sqrt() < 400))[:, None]
        weights = [0.8 ** (len(flows) - place - 1) for place in range(len(flows))]
        return sum(weight * (known * (flow - truth).abs()).mean() for weight, flow in zip(weights, flows, strict=True))

    return Raft(), inputs, loss


class ConvLSTMCell(nn.Module):
    def __init__(self, inward: int, hidden: int, window: int = 5) -> None:
        super().__init__()
        self.hidden = hidden
        self.gates = nn.Conv2d(inward + hidden, 4 * hidden, window, padding=window // 2)

    def forward(self, value: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        hidden, cell = state
        into, forget, out, new = self.gates(torch.cat([value, hidden], dim=1)).chunk(4, dim=1)
        cell = torch.sigmoid(forget) * cell + torch.sigmoid(into) * torch.tanh(new)
        return torch.sigmoid(out) * torch.tanh(cell), cell

    def empty(self, batch: int, size: tuple[int, int], device: torch.device) -> tuple[Tensor, Tensor]:
        return tuple(torch.zeros(batch, self.hidden, *size, device=device) for _ in range(2))


class Nowcast(nn.Module):
    """Ten pictures of a radar in, the next ten out, each of them read in turn."""

    def __init__(self, widths: tuple[int, ...] = (64, 96, 96), ahead: int = 10) -> None:
        super().__init__()
        self.ahead = ahead
        self.into = nn.Sequential(
            nn.Conv2d(1, 32, 3, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(32, 64, 3, 2, 1), nn.LeakyReLU(0.2)
        )
        self.cells = nn.ModuleList(ConvLSTMCell(i, o) for i, o in zip((64, *widths), widths, strict=False))
        self.out = nn.Sequential(
            nn.ConvTranspose2d(widths[-1], 32, 4, 2, 1), nn.LeakyReLU(0.2), nn.ConvTranspose2d(32, 1, 4, 2, 1)
        )

    def forward(self, radar: Tensor) -> Tensor:
        batch, seen, _, height, width = radar.shape
        states = [cell.empty(batch, (height // 4, width // 4), radar.device) for cell in self.cells]
        frames: list[Tensor] = []
        for step in range(seen + self.ahead - 1):
            value = self.into(radar[:, step] if step < seen else frames[-1])
            for place, cell in enumerate(self.cells):
                states[place] = cell(value, states[place])
                value = states[place][0]
            if step >= seen - 1:
                frames.append(torch.sigmoid(self.out(value)))
        return torch.stack(frames, dim=1)


def nowcast(batch: int) -> Any:
    later = torch.rand(batch, 10, 1, 128, 128)

    def loss(output: Tensor) -> Tensor:
        weights = 1 + 4 * (later > 0.5).float()
        return (weights * (output - later).square()).mean() + (weights * (output - later).abs()).mean()

    return Nowcast(), torch.rand(batch, 10, 1, 128, 128), loss


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)

    def forward(self, value: Tensor) -> Tensor:
        rows, length, width = value.shape
        query, key, content = self.qkv(value).reshape(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weights = ((query @ key.transpose(-2, -1)) * self.scale).softmax(dim=-1)
        return self.proj((weights @ content).transpose(1, 2).reshape(rows, length, width))


class DividedBlock(nn.Module):
    """Attention over time at every place, then over the places of every frame."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.time, self.space = SelfAttention(width, heads), SelfAttention(width, heads)
        self.after = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, value: Tensor, frames: int) -> Tensor:
        batch, _, width = value.shape
        first, rest = value[:, :1], value[:, 1:]
        over_time = rest.reshape(-1, frames, width)
        rest = rest + self.after(self.time(self.norms[0](over_time)).reshape(rest.shape))
        pictures = rest.view(batch, -1, frames, width).transpose(1, 2).reshape(batch * frames, -1, width)
        pictures = torch.cat([first.repeat(1, frames, 1).view(-1, 1, width), pictures], dim=1)
        mixed = self.space(self.norms[1](pictures))
        summed = mixed[:, :1].reshape(batch, frames, width).mean(dim=1, keepdim=True)
        placed = mixed[:, 1:].reshape(batch, frames, -1, width).transpose(1, 2).reshape(rest.shape)
        value = torch.cat([first + summed, rest + placed], dim=1)
        return value + self.mlp(self.norms[2](value))


class TimeSformer(nn.Module):
    def __init__(self, width: int, heads: int, layers: int, frames: int = 8, classes: int = 400) -> None:
        super().__init__()
        self.frames = frames
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places, self.times = (
            nn.Parameter(0.02 * torch.randn(1, 196, 1, width)),
            nn.Parameter(torch.zeros(1, 1, frames, width)),
        )
        self.blocks = nn.ModuleList(DividedBlock(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, film: Tensor) -> Tensor:
        batch = film.shape[0]
        value = self.patches(film.transpose(1, 2).flatten(0, 1)).flatten(2)
        value = value.view(batch, self.frames, -1, 196).permute(0, 3, 1, 2) + self.places + self.times
        value = torch.cat([self.first.expand(batch, -1, -1), value.flatten(1, 2)], dim=1)
        for block in self.blocks:
            value = block(value, self.frames)
        return self.head(self.norm(value)[:, 0])


def timesformer(batch: int) -> Any:
    labels = torch.randint(400, (batch,))
    model = TimeSformer(768, 12, 12)
    return model, torch.randn(batch, 3, 8, 224, 224), lambda output: functional.cross_entropy(output, labels)


def light(inward: int, outward: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inward, outward, 1, bias=False),
        nn.Conv2d(outward, outward, 3, padding=1, groups=outward, bias=False),
        nn.BatchNorm2d(outward), nn.ReLU(inplace=True),
    )  # fmt: skip


def one_by_one(inward: int, outward: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inward, outward, 1, bias=False), nn.BatchNorm2d(outward), nn.ReLU(inplace=True))


class OmniScale(nn.Module):
    """Four paths of growing depth whose channels are weighed by one gate that they share."""

    def __init__(self, inward: int, outward: int) -> None:
        super().__init__()
        middle = outward // 4
        self.into = one_by_one(inward, middle)
        self.paths = nn.ModuleList(
            nn.Sequential(*(light(middle, middle) for _ in range(depth))) for depth in (1, 2, 3, 4)
        )
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(middle, middle // 16, 1), nn.ReLU(inplace=True),
            nn.Conv2d(middle // 16, middle, 1), nn.Sigmoid(),
        )  # fmt: skip
        self.out = nn.Sequential(nn.Conv2d(middle, outward, 1, bias=False), nn.BatchNorm2d(outward))
        self.skip = nn.Identity() if inward == outward else one_by_one(inward, outward)[:2]

    def forward(self, value: Tensor) -> Tensor:
        small, summed = self.into(value), 0
        for path in self.paths:
            found = path(small)
            summed = summed + self.gate(found) * found
        return functional.relu(self.out(summed) + self.skip(value))


class Persons(nn.Module):
    """OSNet: one vector for every person, with classes to tell apart beside it."""

    def __init__(self, persons: int = 751) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
            OmniScale(64, 256), OmniScale(256, 256), one_by_one(256, 256), nn.AvgPool2d(2, 2),
            OmniScale(256, 384), OmniScale(384, 384), one_by_one(384, 384), nn.AvgPool2d(2, 2),
            OmniScale(384, 512), OmniScale(512, 512), one_by_one(512, 512),
        )  # fmt: skip
        self.vector = nn.Sequential(nn.Linear(512, 512), nn.BatchNorm1d(512), nn.ReLU(inplace=True))
        self.person = nn.Linear(512, persons)

    def forward(self, picture: Tensor) -> tuple[Tensor, Tensor]:
        found = self.vector(functional.adaptive_avg_pool2d(self.body(picture), 1).flatten(1))
        return found, self.person(found)


def hardest(found: Tensor, persons: Tensor, margin: float = 0.3) -> Tensor:
    """For every picture the farthest of the same person and the nearest of another one."""
    apart = torch.cdist(found, found)
    same = persons[:, None] == persons[None, :]
    far = apart.masked_fill(~same, float("-inf")).max(dim=1).values
    near = apart.masked_fill(same, float("inf")).min(dim=1).values
    return functional.margin_ranking_loss(near, far, torch.ones_like(near), margin=margin)


def osnet(batch: int) -> Any:
    """Four pictures of every person."""
    persons = torch.arange(batch) // 4

    def loss(output: tuple[Tensor, Tensor]) -> Tensor:
        found, scores = output
        return hardest(found, persons) + functional.cross_entropy(scores, persons, label_smoothing=0.1)

    return Persons(), torch.randn(batch, 3, 256, 128), loss
