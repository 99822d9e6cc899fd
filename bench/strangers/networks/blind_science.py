"""Networks of the sciences: equations solved step by step, laws of physics as a loss, proteins by pairs of residues."""

import itertools
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor, nn


class TimedConvolution(nn.Conv2d):
    """The time stands in a channel of its own."""

    def __init__(self, width: int) -> None:
        super().__init__(width + 1, width, 3, padding=1)

    def forward(self, time: float, value: Tensor) -> Tensor:
        return super().forward(torch.cat([torch.full_like(value[:, :1], time), value], dim=1))


class Change(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(32, width) for _ in range(3))
        self.first, self.second = TimedConvolution(width), TimedConvolution(width)

    def forward(self, time: float, value: Tensor) -> Tensor:
        value = self.first(time, functional.relu(self.norms[0](value)))
        return self.norms[2](self.second(time, functional.relu(self.norms[1](value))))


class NeuralOde(nn.Module):
    """Layers as a differential equation, solved by steps of Runge and Kutta that gradients go through."""

    def __init__(self, width: int, steps: int, classes: int = 10) -> None:
        super().__init__()
        self.steps, self.change = steps, Change(width)
        self.into = nn.Sequential(
            nn.Conv2d(1, width, 3), nn.GroupNorm(32, width), nn.ReLU(inplace=True), nn.Conv2d(width, width, 4, 2, 1),
            nn.GroupNorm(32, width), nn.ReLU(inplace=True), nn.Conv2d(width, width, 4, 2, 1),
        )  # fmt: skip
        self.out = nn.Sequential(
            nn.GroupNorm(32, width), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(width, classes),
        )  # fmt: skip

    def forward(self, picture: Tensor) -> Tensor:
        value, step = self.into(picture), 1 / self.steps
        for place in range(self.steps):
            time = place * step
            first = self.change(time, value)
            second = self.change(time + step / 2, value + step / 2 * first)
            third = self.change(time + step / 2, value + step / 2 * second)
            fourth = self.change(time + step, value + step * third)
            value = value + step / 6 * (first + 2 * second + 2 * third + fourth)
        return self.out(value)


def neural_ode(batch: int) -> Any:
    labels = torch.randint(10, (batch,))
    model = NeuralOde(64, 6)
    return model, torch.rand(batch, 1, 28, 28), lambda output: functional.cross_entropy(output, labels)


def slope(value: Tensor, place: Tensor) -> Tensor:
    return torch.autograd.grad(value, place, torch.ones_like(value), create_graph=True)[0]


class Fluid(nn.Module):
    """Velocities and pressure of a fluid at points: what they lack of Navier's and Stokes's equations is the loss."""

    def __init__(self, width: int, layers: int, viscosity: float = 0.01) -> None:
        super().__init__()
        sizes = [3, *[width] * layers]
        hidden = [nn.Sequential(nn.Linear(i, o), nn.Tanh()) for i, o in itertools.pairwise(sizes)]
        self.net, self.viscosity = nn.Sequential(*hidden, nn.Linear(width, 3)), viscosity

    def forward(self, points: Tensor, known: Tensor, velocity: Tensor) -> Tensor:
        x, y, t = (part.clone().requires_grad_(True) for part in points.split(1, dim=1))
        u, v, p = self.net(torch.cat([x, y, t], dim=1)).split(1, dim=1)
        u_x, u_y, v_x, v_y = slope(u, x), slope(u, y), slope(v, x), slope(v, y)
        along = slope(u, t) + u * u_x + v * u_y + slope(p, x) - self.viscosity * (slope(u_x, x) + slope(u_y, y))
        across = slope(v, t) + u * v_x + v * v_y + slope(p, y) - self.viscosity * (slope(v_x, x) + slope(v_y, y))
        lost = along.square().mean() + across.square().mean() + (u_x + v_y).square().mean()
        return lost + functional.mse_loss(self.net(known)[:, :2], velocity)


def pinn(batch: int) -> Any:
    """A batch of points inside, a tenth as many on the walls and at the beginning."""
    walls = max(1, batch // 10)
    return Fluid(64, 6), (torch.rand(batch, 3), torch.rand(walls, 3), torch.rand(walls, 2))


class BiasedAttention(nn.Module):
    """Gated attention along one axis, with a bias from the pairs."""

    def __init__(self, width: int, heads: int, pairs: int | None) -> None:
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.gate, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.bias = nn.Sequential(nn.LayerNorm(pairs), nn.Linear(pairs, heads, bias=False)) if pairs else None

    def forward(self, value: Tensor, pairs: Tensor | None = None) -> Tensor:
        """Of shape (batch, rows, length, width): attention within each row."""
        normed = self.norm(value)
        query, key, content = (
            part(normed).unflatten(-1, (self.heads, -1)).transpose(2, 3) for part in (self.query, self.key, self.value)
        )
        scores = torch.einsum("brhqc,brhkc->brhqk", query * query.shape[-1] ** -0.5, key)
        if self.bias is not None:
            scores = scores + self.bias(pairs).permute(0, 3, 1, 2)[:, None]
        mixed = torch.einsum("brhqk,brhkc->brqhc", scores.softmax(dim=-1), content).flatten(-2)
        return self.out(torch.sigmoid(self.gate(normed)) * mixed)


class TriangleProduct(nn.Module):
    """A pair learns from the two other sides of every triangle that it is a side of."""

    def __init__(self, width: int, *, outgoing: bool) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.left, self.right = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.gate, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.equation = "bikc,bjkc->bijc" if outgoing else "bkic,bkjc->bijc"

    def forward(self, pairs: Tensor) -> Tensor:
        normed = self.first(pairs)
        left, right = functional.glu(self.left(normed)), functional.glu(self.right(normed))
        product = torch.einsum(self.equation, left, right)
        return torch.sigmoid(self.gate(normed)) * self.out(self.second(product))


class OuterMean(nn.Module):
    def __init__(self, width: int, pairs: int, hidden: int = 32) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.left, self.right = nn.Linear(width, hidden), nn.Linear(width, hidden)
        self.out = nn.Linear(hidden * hidden, pairs)

    def forward(self, value: Tensor) -> Tensor:
        normed = self.norm(value)
        outer = torch.einsum("bsic,bsjd->bijcd", self.left(normed), self.right(normed))
        return self.out(outer.flatten(-2) / value.shape[1])


def transition(width: int) -> nn.Sequential:
    return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))


def dropped(value: Tensor, chance: float, dim: int, training: bool) -> Tensor:
    """Whole rows or columns at a time."""
    shape = [1 if place == dim else size for place, size in enumerate(value.shape)]
    return value * functional.dropout(torch.ones(shape, device=value.device, dtype=value.dtype), chance, training)


class EvoBlock(nn.Module):
    def __init__(self, width: int, pairs: int) -> None:
        super().__init__()
        self.rows, self.columns = BiasedAttention(width, 8, pairs), BiasedAttention(width, 8, None)
        self.wide, self.outer = transition(width), OuterMean(width, pairs)
        self.out, self.into = TriangleProduct(pairs, outgoing=True), TriangleProduct(pairs, outgoing=False)
        self.start, self.end = BiasedAttention(pairs, 4, pairs), BiasedAttention(pairs, 4, pairs)
        self.pair_wide = transition(pairs)

    def forward(self, aligned: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
        aligned = aligned + dropped(self.rows(aligned, pairs), 0.15, 1, self.training)
        aligned = aligned + self.columns(aligned.transpose(1, 2)).transpose(1, 2)
        aligned = aligned + self.wide(aligned)
        pairs = pairs + self.outer(aligned)
        pairs = pairs + dropped(self.out(pairs), 0.25, 1, self.training)
        pairs = pairs + dropped(self.into(pairs), 0.25, 1, self.training)
        pairs = pairs + dropped(self.start(pairs, pairs), 0.25, 1, self.training)
        turned = pairs.transpose(1, 2)
        pairs = pairs + dropped(self.end(turned, turned).transpose(1, 2), 0.25, 2, self.training)
        return aligned, pairs + self.pair_wide(pairs)


class Evoformer(nn.Module):
    """The trunk of AlphaFold 2: aligned sequences and pairs of residues; distances and hidden residues come out."""

    def __init__(self, width: int, pairs: int, blocks: int, bins: int = 64) -> None:
        super().__init__()
        self.aligned, self.left, self.right = nn.Linear(49, width), nn.Linear(21, pairs), nn.Linear(21, pairs)
        self.apart = nn.Embedding(65, pairs)
        self.blocks = nn.ModuleList(EvoBlock(width, pairs) for _ in range(blocks))
        self.hidden, self.distance = nn.Linear(width, 23), nn.Linear(pairs, bins)

    def forward(self, aligned: Tensor, sequence: Tensor) -> tuple[Tensor, Tensor]:
        places = torch.arange(sequence.shape[1], device=sequence.device)
        apart = (places[:, None] - places[None, :]).clamp(-32, 32) + 32
        told = functional.one_hot(sequence, 21).to(aligned.dtype)
        pairs = self.left(told)[:, :, None] + self.right(told)[:, None] + self.apart(apart)
        value = self.aligned(aligned)
        for block in self.blocks:
            value, pairs = block(value, pairs)
        return self.hidden(value), self.distance(pairs + pairs.transpose(1, 2))


def evoformer(batch: int) -> Any:
    """64 aligned sequences of 192 residues."""
    residues, distances = torch.randint(23, (batch, 64, 192)), torch.randint(64, (batch, 192, 192))
    known = torch.rand(batch, 64, 192) < 0.15

    def loss(output: tuple[Tensor, Tensor]) -> Tensor:
        hidden, distance = output
        guessed = functional.cross_entropy(hidden.flatten(0, 2), residues.flatten(), reduction="none")
        masked = (guessed * known.flatten()).sum() / (known.sum() + 1e-8)
        return 2 * masked + 0.3 * functional.cross_entropy(distance.flatten(0, 2), distances.flatten())

    inputs = (torch.randn(batch, 64, 192, 49), torch.randint(21, (batch, 192)))
    return Evoformer(128, 128, 4), inputs, loss
