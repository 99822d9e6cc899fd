"""Networks that nobody tuned for: they train for real, and blind ones are never learned from."""

import itertools
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from bench.strangers.calibrate import may_be_learned
from bench.strangers.catalogue import STRANGERS, Stranger
from bench.strangers.measure import wanted
from bench.strangers.measured import MeasuredStranger

from penstock.predict.capture import Setup
from penstock.predict.lab.measuring.training import Training

BLIND = [each for each in STRANGERS if each.blind]
LIGHT = ("pinn", "edsr", "capsules", "neural-ode", "sentence-vae")
ROWS = {"pinn": 50, "word-vectors": 64, "osnet": 8}
"""Points, words and pictures of a person come in more than ones and twos."""


def named(names: tuple[str, ...]) -> list[Stranger]:
    return [each for each in BLIND if each.name in names]


def measured(stranger: Stranger) -> MeasuredStranger:
    return MeasuredStranger(
        stranger=stranger, batch=1, seconds=1.0, passes=(1.0,), issue_s=1.0, busy_s=1.0, peak=1, reserved=1, used=1,
        operations=(), host_s={},
    )  # fmt: skip


def check_one_step(stranger: Stranger) -> None:
    setup = Setup(precision="fp32", optimizer=stranger.setup.optimizer, layout=stranger.setup.layout)
    training = Training(stranger.hook, ROWS.get(stranger.name, 1), setup, "cpu")
    training.work.forward().backward()
    for weight in training.work.weights():
        assert weight.grad is not None
        assert torch.isfinite(weight.grad.coalesce().values() if weight.grad.is_sparse else weight.grad).all()
    training.optimizer.step()


def test_names_are_given_once_and_batches_lie_apart() -> None:
    assert len({each.name for each in STRANGERS}) == len(STRANGERS)
    assert all(3 <= each.batches[1] / each.batches[0] <= 8 for each in BLIND)


def test_blind_kinds_are_kinds_of_their_own() -> None:
    others = {each.kind for each in STRANGERS if not each.blind}
    assert len(BLIND) == 20
    assert not others & {each.kind for each in BLIND}


def test_blind_ones_are_never_learned_from() -> None:
    left = {each.stranger.name for each in may_be_learned([measured(each) for each in STRANGERS])}
    assert left == {each.name for each in STRANGERS if not each.blind}


def test_blind_ones_can_be_measured_alone(tmp_path: Path) -> None:
    given = Namespace(only="", out=tmp_path / "none.jsonl", largest=0, blind=True, zoo=False, profile=False, round=1)
    found = {(stranger.name, batch) for stranger, batch in wanted(given)}
    assert found == set(itertools.chain.from_iterable([(e.name, e.batches[0]), (e.name, e.batches[1])] for e in BLIND))


@pytest.mark.parametrize("stranger", named(LIGHT), ids=lambda each: each.name)
def test_a_light_one_learns(stranger: Stranger) -> None:
    check_one_step(stranger)


@pytest.mark.long
@pytest.mark.parametrize("stranger", [each for each in BLIND if each.name not in LIGHT], ids=lambda each: each.name)
def test_every_other_one_learns(stranger: Stranger) -> None:
    check_one_step(stranger)
