"""Small states for tests: a model and its optimizer after one step, everything of it drawn from a seed."""

import torch

from penstock.runtime.checkpoints.state import Parts


def parts_of(seed: float, width: int = 64) -> Parts:
    torch.manual_seed(int(seed))
    parts = Parts(torch.device("cpu"))
    model = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width))
    optimizer = torch.optim.AdamW(model.parameters())
    parts.add("model", model)
    parts.add("optimizer", optimizer)
    model(torch.randn(4, width)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    return parts


def assert_equal_states(one: Parts, other: Parts) -> None:
    """Bit for bit: weights, optimizer state, and what is no tensor."""
    mine, theirs = one.capture(0), other.capture(0)
    assert mine.tensors.keys() == theirs.tensors.keys()
    for key, tensor in mine.tensors.items():
        assert torch.equal(tensor, theirs.tensors[key]), key
    assert mine.extras == theirs.extras
