"""A small network that uses every operator a mutant breaks."""

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from penstock.diagnose import TrainingStep


class Everything(nn.Module):
    """Pixels and words to classes: convolution, norms, attention, a mixture by softmax, dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 6, 3, padding=1)
        self.look = nn.Conv2d(6, 8, 3, padding=1, stride=2)
        self.batch_norm = nn.BatchNorm2d(8)
        self.group_norm = nn.GroupNorm(2, 8)
        self.words = nn.Embedding(11, 15)
        self.join = nn.Linear(8, 15)
        self.norm = nn.LayerNorm(15, eps=1e-3)
        self.heads = nn.Linear(15, 3 * 16)
        self.back = nn.Linear(16, 15)
        self.square = nn.Linear(15, 15)
        self.classes = nn.Linear(15, 5)

    def forward(self, image: Tensor, words: Tensor) -> Tensor:
        seen = F.relu(self.group_norm(self.batch_norm(self.look(F.relu(self.first(image)))))).flatten(2).mean(-1)
        x = self.words(words) + self.join(seen)[:, None]
        query, key, value = (
            part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.heads(self.norm(x)).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2).flatten(2)
        x = F.gelu(x + self.back(mixed))
        x = torch.native_dropout(x, 0.2, True)[0]
        x = F.silu(self.square(x)) * torch.softmax(x, -1)
        out: Tensor = self.classes(x)
        return out.transpose(1, 2)


def everything_step(
    optimizer: type[torch.optim.Optimizer] | None = None,
    *,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    device: str = "cpu",
) -> TrainingStep:
    """Two steps with an optimizer; forward and backward once without."""

    def build() -> tuple[nn.Module, Callable[[], Tensor]]:
        with torch.device(device):
            return parts()

    def parts() -> tuple[nn.Module, Callable[[], Tensor]]:
        model = Everything().to(dtype)
        image, words = torch.randn(3, 3, 7, 7).to(dtype), torch.randint(0, 11, (3, 7))
        words[0, 0] = words[1, 1] = words[2, 2] = 10
        target = torch.randint(0, 5, (3, 7))
        target[1, 3] = -100
        return model, lambda: F.cross_entropy(model(image, words), target)

    if optimizer is None:
        return TrainingStep(build=build, seed=seed)
    settings = {"momentum": 0.9} if optimizer is torch.optim.SGD else {"weight_decay": 0.1, "eps": 1e-4}
    return TrainingStep(
        build=build, optimizer=lambda weights: optimizer(weights, lr=0.01, **settings), clip=0.05, steps=2, seed=seed
    )
