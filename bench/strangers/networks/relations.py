"""Graphs, clouds of points, recommendations and mixtures of experts: networks that gather and scatter."""

import itertools

import torch
import torch.nn.functional as functional
from torch import Tensor, nn


class GraphConvolution(nn.Module):
    """What the neighbours say, added up edge by edge."""

    def __init__(self, inward: int, outward: int) -> None:
        super().__init__()
        self.own, self.others = nn.Linear(inward, outward), nn.Linear(inward, outward, bias=False)

    def forward(self, value: Tensor, source: Tensor, target: Tensor, degree: Tensor) -> Tensor:
        sent = self.others(value).index_select(0, source)
        heard = torch.zeros(value.shape[0], sent.shape[1], device=value.device, dtype=sent.dtype)
        return self.own(value) + heard.index_add(0, target, sent) / degree


class GraphNet(nn.Module):
    def __init__(self, inward: int, width: int, layers: int, classes: int) -> None:
        super().__init__()
        sizes = [inward, *[width] * (layers - 1), classes]
        self.layers = nn.ModuleList(GraphConvolution(i, o) for i, o in itertools.pairwise(sizes))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(layers - 1))

    def forward(self, value: Tensor, source: Tensor, target: Tensor) -> Tensor:
        ones = torch.ones(target.shape[0], 1, device=value.device, dtype=value.dtype)
        degree = torch.zeros(value.shape[0], 1, device=value.device, dtype=value.dtype).index_add(0, target, ones)
        degree = degree.clamp(min=1)
        for layer, norm in zip(self.layers, self.norms, strict=False):
            value = functional.dropout(functional.relu(norm(layer(value, source, target, degree))), 0.5, self.training)
        return self.layers[-1](value, source, target, degree)


class GraphAttention(nn.Module):
    """GATv2: a soft-max over the edges of every node, by scattered maxima and sums."""

    def __init__(self, inward: int, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.left, self.right = nn.Linear(inward, heads * width), nn.Linear(inward, heads * width)
        self.score = nn.Parameter(torch.randn(heads, width))

    def forward(self, value: Tensor, source: Tensor, target: Tensor) -> Tensor:
        nodes = value.shape[0]
        left = self.left(value).view(nodes, self.heads, self.width)[source]
        right = self.right(value).view(nodes, self.heads, self.width)[target]
        scores = (functional.leaky_relu(left + right, 0.2) * self.score).sum(-1)
        places = target[:, None].expand(-1, self.heads)
        most = torch.full((nodes, self.heads), -1e9, device=value.device, dtype=scores.dtype)
        most = most.scatter_reduce(0, places, scores.detach(), "amax")
        weights = torch.exp(scores - most.gather(0, places))
        sums = torch.zeros_like(most).scatter_add(0, places, weights)
        weights = weights / (sums.gather(0, places) + 1e-9)
        out = torch.zeros(nodes, self.heads, self.width, device=value.device, dtype=value.dtype)
        return functional.elu(out.index_add(0, target, left * weights[..., None]).flatten(1))


class GraphAttentionNet(nn.Module):
    def __init__(self, inward: int, width: int, heads: int, classes: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([GraphAttention(inward, width, heads), GraphAttention(heads * width, width, heads)])
        self.out = nn.Linear(heads * width, classes)

    def forward(self, value: Tensor, source: Tensor, target: Tensor) -> Tensor:
        for layer in self.layers:
            value = layer(value, source, target)
        return self.out(value)


class Molecules(nn.Module):
    """Messages along bonds of many small graphs, summed up into one number each."""

    def __init__(self, width: int, rounds: int) -> None:
        super().__init__()
        self.atoms, self.bonds = nn.Embedding(100, width), nn.Embedding(8, width)
        self.messages = nn.ModuleList(
            nn.Sequential(
                nn.Linear(width, 2 * width), nn.BatchNorm1d(2 * width), nn.ReLU(), nn.Linear(2 * width, width)
            )
            for _ in range(rounds)
        )
        self.out = nn.Linear(width, 1)

    def forward(self, atoms: Tensor, bonds: Tensor, source: Tensor, target: Tensor, graph: Tensor) -> Tensor:
        value, along = self.atoms(atoms), self.bonds(bonds)
        for message in self.messages:
            heard = torch.zeros_like(value).index_add_(0, target, functional.relu(value[source] + along))
            value = value + message(value + heard)
        graphs = atoms.shape[0] // 24
        pooled = torch.zeros(graphs, value.shape[1], device=value.device, dtype=value.dtype)
        return self.out(pooled.scatter_add(0, graph[:, None].expand_as(value), value))


def nearest(points: Tensor, near: Tensor, count: int) -> Tensor:
    return torch.cdist(near, points).topk(count, dim=-1, largest=False).indices


def picked(values: Tensor, places: Tensor) -> Tensor:
    """values[b, places[b, ...]] by gathering."""
    batch, width = values.shape[0], values.shape[-1]
    flat = places.reshape(batch, -1, 1).expand(-1, -1, width)
    return values.gather(1, flat).view(*places.shape, width)


class PointLayer(nn.Module):
    """PointNet++: neighbourhoods found by distance, a small network over each, their maximum."""

    def __init__(self, inward: int, outward: int, centres: int, near: int) -> None:
        super().__init__()
        self.centres, self.near = centres, near
        self.mlp = nn.Sequential(
            nn.Conv2d(inward + 3, outward, 1), nn.BatchNorm2d(outward), nn.ReLU(), nn.Conv2d(outward, outward, 1),
            nn.BatchNorm2d(outward), nn.ReLU(),
        )  # fmt: skip

    def forward(self, points: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        centres = points[:, : self.centres]
        places = nearest(points, centres, self.near)
        grouped = torch.cat([picked(points, places) - centres[:, :, None], picked(values, places)], dim=-1)
        return centres, self.mlp(grouped.permute(0, 3, 1, 2)).amax(dim=-1).transpose(1, 2)


class PointNet(nn.Module):
    def __init__(self, classes: int = 40) -> None:
        super().__init__()
        self.layers = nn.ModuleList([PointLayer(3, 128, 512, 32), PointLayer(128, 256, 128, 32)])
        self.out = nn.Sequential(nn.Linear(256, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, classes))

    def forward(self, points: Tensor) -> Tensor:
        values = points
        for layer in self.layers:
            points, values = layer(points, values)
        return self.out(values.amax(dim=1))


class DynamicGraph(nn.Module):
    """DGCNN: neighbours in the space of features, found anew in every layer."""

    def __init__(self, classes: int = 40, near: int = 20) -> None:
        super().__init__()
        self.near = near
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv2d(2 * i, o, 1, bias=False), nn.BatchNorm2d(o), nn.LeakyReLU(0.2))
            for i, o in ((3, 64), (64, 64), (64, 128), (128, 256))
        )
        self.out = nn.Linear(512, classes)

    def forward(self, points: Tensor) -> Tensor:
        value, found = points, []
        for layer in self.layers:
            around = picked(value, nearest(value.detach(), value.detach(), self.near))
            own = value[:, :, None].expand_as(around)
            value = layer(torch.cat([around - own, own], dim=-1).permute(0, 3, 1, 2)).amax(dim=-1).transpose(1, 2)
            found.append(value)
        return self.out(torch.cat(found, dim=-1).amax(dim=1))


class Recommender(nn.Module):
    """DLRM: bags of categories, products of all pairs of them, a small network on top."""

    def __init__(self, tables: int, rows: int, width: int) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.dense = nn.Sequential(
            nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU()
        )
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(
            nn.Linear(pairs + width, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 1)
        )
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, offset=-1), persistent=False)

    def forward(self, dense: Tensor, categories: Tensor) -> Tensor:
        bottom = self.dense(dense)
        looked = [bag(found) for bag, found in zip(self.bags, categories.unbind(1), strict=True)]
        stacked = torch.stack([bottom, *looked], dim=1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        return self.top(torch.cat([bottom, products[:, self.pairs[0], self.pairs[1]]], dim=1))


class Factorised(nn.Module):
    """DeepFM: one large table for all fields, factors of their pairs, and a deep part."""

    def __init__(self, fields: int, rows: int, width: int) -> None:
        super().__init__()
        self.table, self.linear = nn.Embedding(rows, width), nn.Embedding(rows, 1)
        self.deep = nn.Sequential(
            nn.Linear(fields * width, 400), nn.BatchNorm1d(400), nn.ReLU(), nn.Dropout(0.2), nn.Linear(400, 400),
            nn.BatchNorm1d(400), nn.ReLU(), nn.Dropout(0.2), nn.Linear(400, 1),
        )  # fmt: skip

    def forward(self, fields: Tensor) -> Tensor:
        value = self.table(fields)
        pairs = 0.5 * (value.sum(1).square() - value.square().sum(1)).sum(1, keepdim=True)
        return self.linear(fields).sum(1) + pairs + self.deep(value.flatten(1))


class NextItem(nn.Module):
    """SASRec: a causal transformer over what somebody bought, scored against a few wrong items."""

    def __init__(self, items: int, width: int, layers: int) -> None:
        super().__init__()
        self.items, self.places = nn.Embedding(items, width, padding_idx=0), nn.Embedding(200, width)
        layer = nn.TransformerEncoderLayer(width, 2, 4 * width, 0.2, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, bought: Tensor, wrong: Tensor) -> Tensor:
        length = bought.shape[1]
        value = self.items(bought) + self.places(torch.arange(length, device=bought.device))
        ahead = torch.ones(length, length, dtype=torch.bool, device=bought.device).triu(1)
        state = self.encoder(value, mask=ahead)
        return (state[:, :, None] * self.items(wrong)).sum(-1)


class MaskedExperts(nn.Module):
    """Mixtral's block: for every expert the tokens that chose it, by a boolean mask."""

    def __init__(self, width: int, hidden: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, hidden), nn.SiLU(), nn.Linear(hidden, width)) for _ in range(experts)
        )

    def forward(self, value: Tensor) -> Tensor:
        flat = value.reshape(-1, value.shape[-1])
        weights, picked_experts = torch.softmax(self.router(flat), dim=-1).topk(self.chosen, dim=-1)
        weights = (weights / weights.sum(-1, keepdim=True)).to(flat.dtype)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            rows, place = torch.where(picked_experts == number)
            out.index_add_(0, rows, expert(flat[rows]).to(out.dtype) * weights[rows, place, None])
        return out.view_as(value)


class CapacityExperts(nn.Module):
    """Switch's block: places in every expert's buffer by a cumulative sum of one-hot choices, tokens by einsum."""

    def __init__(self, width: int, hidden: int, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, hidden) * 0.02)
        self.down = nn.Parameter(torch.randn(experts, hidden, width) * 0.02)
        self.experts = experts

    def forward(self, value: Tensor) -> Tensor:
        flat = value.reshape(-1, value.shape[-1])
        room = 2 * flat.shape[0] // self.experts
        chances = torch.softmax(self.router(flat).float(), dim=-1)
        best, chosen = chances.max(dim=-1)
        places = functional.one_hot(chosen, self.experts)
        order = (places.cumsum(0) * places).sum(-1) - 1
        kept = order < room
        slot = torch.where(kept, chosen * room + order, self.experts * room)
        buffer = torch.zeros(self.experts * room + 1, flat.shape[1], device=flat.device, dtype=flat.dtype)
        buffer = buffer.index_copy(0, slot, flat)[:-1].view(self.experts, room, -1)
        worked = torch.bmm(functional.gelu(torch.bmm(buffer, self.up)), self.down).flatten(0, 1)
        back = worked[slot.clamp(max=self.experts * room - 1)]
        return (back * (best * kept)[:, None].to(back.dtype)).view_as(value)


class ExpertModel(nn.Module):
    def __init__(self, width: int, heads: int, layers: int, words: int, block: nn.Module) -> None:
        super().__init__()
        import copy

        self.words = nn.Embedding(words, width)
        self.heads = heads
        self.parts = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(layers))
        self.outs = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.blocks = nn.ModuleList(copy.deepcopy(block) for _ in range(layers))
        self.out = nn.Linear(width, words, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        value = self.words(tokens)
        batch, length, _width = value.shape
        for place, block in enumerate(self.blocks):
            parts = self.parts[place](self.norms[2 * place](value)).view(batch, length, 3, self.heads, -1)
            query, key, content = parts.permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(query, key, content, is_causal=True)
            value = value + self.outs[place](mixed.transpose(1, 2).reshape(value.shape))
            value = value + block(self.norms[2 * place + 1](value))
        return self.out(value)
