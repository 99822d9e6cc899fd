"""A decoder-only transformer as Llama has it: RMS norms ahead of each part, rotary positions, gated MLPs, shared keys.

Small enough to read in one go; plain PyTorch, so that DDP, FSDP2, compilation and activation checkpointing apply to it
as to any other model.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True)
class Shape:
    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    vocabulary: int = 257
    sequence: int = 2048


SIZES = {
    "tiny": Shape(layers=2, width=64, heads=4, kv_heads=2, hidden=176),
    "125m": Shape(layers=12, width=768, heads=12, kv_heads=12, hidden=2048),
    "350m": Shape(layers=24, width=1024, heads=16, kv_heads=16, hidden=2816),
    "1b": Shape(layers=16, width=2048, heads=32, kv_heads=8, hidden=8192),
    "7b": Shape(layers=32, width=4096, heads=32, kv_heads=32, hidden=11008),
}


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.kv_heads = shape.heads, shape.kv_heads
        self.size = shape.width // shape.heads
        self.query = nn.Linear(shape.width, shape.heads * self.size, bias=False)
        self.key_value = nn.Linear(shape.width, 2 * shape.kv_heads * self.size, bias=False)
        self.out = nn.Linear(shape.heads * self.size, shape.width, bias=False)

    def forward(self, x: Tensor, rotation: Tensor, mask: Tensor | None) -> Tensor:
        batch, length, _ = x.shape
        q = self.query(x).view(batch, length, self.heads, self.size).transpose(1, 2)  # (B, nh, T, hs)
        k, v = self.key_value(x).view(batch, length, 2, self.kv_heads, self.size).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(
            rotated(q, rotation), rotated(k, rotation), v, attn_mask=mask, is_causal=mask is None,
            enable_gqa=self.heads != self.kv_heads,
        )  # fmt: skip
        return self.out(seen.transpose(1, 2).reshape(batch, length, -1))


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(shape.width, eps=1e-5), nn.RMSNorm(shape.width, eps=1e-5)
        self.attention = Attention(shape)
        self.gate_up = nn.Linear(shape.width, 2 * shape.hidden, bias=False)
        self.down = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, x: Tensor, rotation: Tensor, mask: Tensor | None) -> Tensor:
        x = x + self.attention(self.norm1(x), rotation, mask)
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(functional.silu(gate) * up)


class Llama(nn.Module):
    """Logits of the next token. With ``positions`` documents in a row do not see each other."""

    def __init__(self, shape: Shape, *, recompute: bool = False) -> None:
        super().__init__()
        self.shape, self.recompute = shape, recompute
        self.token = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList([Block(shape) for _ in range(shape.layers)])
        self.norm = nn.RMSNorm(shape.width, eps=1e-5)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.register_buffer("rotation", rotation_table(shape.sequence, shape.width // shape.heads), persistent=False)
        self.apply(self._draw)

    def forward(self, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        x = self.token(tokens)
        mask = None if positions is None else document_mask(positions)
        rotation = self.rotation[: tokens.shape[1]]
        for block in self.blocks:
            if self.recompute and torch.is_grad_enabled():
                x = checkpoint(block, x, rotation, mask, use_reentrant=False)
            else:
                x = block(x, rotation, mask)
        return self.head(self.norm(x))

    def flops_per_token(self) -> float:
        """Of a forward and a backward pass: six for each weight that multiplies, and attention (PaLM, appendix B)."""
        weights = sum(weight.numel() for weight in self.parameters()) - self.token.weight.numel()
        return 6 * weights + 12 * self.shape.layers * self.shape.width * self.shape.sequence

    def _draw(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)


def rotation_table(length: int, size: int, base: float = 10_000.0) -> Tensor:
    """Cosines and sines by which pairs of channels are turned at each place: (T, 2, hs / 2)."""
    angles = torch.outer(torch.arange(length).float(), base ** (-torch.arange(0, size, 2).float() / size))
    return torch.stack((angles.cos(), angles.sin()), dim=1)


def rotated(x: Tensor, rotation: Tensor) -> Tensor:
    """Turn the two halves of each head against each other. Attention sees differences of angles, so where a document
    begins in its row does not matter."""
    cosine, sine = rotation[:, 0].to(x.dtype), rotation[:, 1].to(x.dtype)  # (T, hs / 2)
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cosine - right * sine, left * sine + right * cosine), dim=-1)


def document_mask(positions: Tensor) -> Tensor:
    """Who sees whom: what came before in the same document, (B, 1, T, T). Documents begin where positions are 0."""
    document = (positions == 0).cumsum(dim=1)
    length = positions.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool, device=positions.device).tril()
    return (document[:, None, :, None] == document[:, None, None, :]) & causal
