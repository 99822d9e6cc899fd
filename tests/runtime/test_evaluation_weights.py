"""Weights for an evaluation: from checkpoints of the library and from files of PyTorch, and from nothing else."""

from pathlib import Path

import pytest
import torch
from torch import nn

from penstock.core import InputError
from penstock.elastic import Checkpoints
from penstock.runtime.evaluation.weights import load_weights
from tests.runtime.checkpoints.test_checkpoints import parts_with, save


def test_a_checkpoint_of_the_library_fills_a_fresh_model(tmp_path: Path) -> None:
    saved, model = save(Checkpoints(tmp_path), 5, 1.0), nn.Linear(4, 3)
    load_weights(model, saved)
    for mine, theirs in zip(model.parameters(), parts_with(1.0).models["model"].parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_model_that_does_not_fit_is_left_as_it_was(tmp_path: Path) -> None:
    saved, model = save(Checkpoints(tmp_path), 5, 1.0), nn.Linear(4, 2)
    before = model.weight.clone()
    with pytest.raises(InputError, match=r"does not fit the checkpoint at 'weight'"):
        load_weights(model, saved)
    with pytest.raises(InputError, match="unknown model 'teacher'"):
        load_weights(model, saved, "teacher")
    assert torch.equal(model.weight, before)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_file_of_pytorch_does_too(tmp_path: Path, wrapped: bool) -> None:
    trained, model = nn.Linear(4, 3), nn.Linear(4, 3)
    state = trained.state_dict()
    torch.save({"model": state, "step": 3} if wrapped else state, tmp_path / "3.pt")
    load_weights(model, tmp_path / "3.pt")
    assert torch.equal(model.weight, trained.weight)
