"""A small GPT that learns to add up, elastic: run it alone, or as a job whose width changes while it trains.

    python gpt.py
    penstock run --work "300 steps" --deadline 5m -- gpt.py --steps 300

The text is made here: lines like ``27+5=32``. In a few seconds on a laptop's CPU the model learns the form of a sum;
how to add takes it longer.
"""

import argparse
import random

import torch
from torch import nn

import penstock.elastic as elastic

ALPHABET = "0123456789+=\n"
LENGTH = 32


def sums(count: int, seed: int = 1) -> torch.Tensor:
    """Text as a row of numbers, one per character."""
    draw = random.Random(seed)
    pairs = [(draw.randrange(50), draw.randrange(50)) for _ in range(count)]
    text = "".join(f"{a}+{b}={a + b}\n" for a, b in pairs)
    return torch.tensor([ALPHABET.index(character) for character in text])


class Windows(torch.utils.data.Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Sample i is the text from place i on, and the same shifted by one."""

    def __init__(self, text: torch.Tensor) -> None:
        self.text = text

    def __len__(self) -> int:
        return len(self.text) - LENGTH

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.text[index : index + LENGTH], self.text[index + 1 : index + LENGTH + 1]


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        )  # (B, nh, T, hs)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        grown: torch.Tensor = x + self.mlp(self.norm2(x))
        return grown


class GPT(nn.Module):
    def __init__(self, width: int = 48, depth: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.token = nn.Embedding(len(ALPHABET), width)
        self.place = nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.head = nn.Linear(width, len(ALPHABET))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h: torch.Tensor = self.token(x) + self.place.weight
        for block in self.blocks:
            h = block(h)
        logits: torch.Tensor = self.head(h)
        return logits


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--batch", type=int, default=32, help="samples per step, all workers together")
    parser.add_argument("--strategy", choices=["ddp", "fsdp2"], default="ddp")
    args = parser.parse_args()

    torch.set_num_threads(1)  # with layers this small more threads cost more than they bring
    run = elastic.init()
    torch.manual_seed(0)
    model = run.wrap(GPT(), strategy=args.strategy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    run.attach(optimizer=optimizer, scheduler=scheduler)

    for step in run.steps(Windows(sums(2000)), global_batch=args.batch, steps=args.steps):
        with step as (x, y):
            loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
            step.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
            if run.is_main and step.number % 50 == 0:
                print(f"step {step.number:4d}  workers {run.size}  loss {step.loss:.4f}", flush=True)
    if run.is_main:
        print(f"done after {run.completed} steps, loss {step.loss:.4f}")


if __name__ == "__main__":
    main()
