"""Which losses are worth a word: property tests of the rule on made-up curves."""

import math
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import LossFault
from penstock.runtime.checkpoints.state import Parts
from penstock.runtime.watch.loss_watch import NOT_FINITE_STEPS, SPIKE_STEPS, LossVerdict, LossWatch
from penstock.runtime.watch.skipped_steps import SkippedSteps


def verdicts(losses: list[float]) -> list[LossVerdict]:
    watch = LossWatch()
    return [found for step, loss in enumerate(losses) if (found := watch.note(step, loss)) is not None]


def falling(steps: int, seed: int = 0, noise: float = 0.05) -> list[float]:
    draw = random.Random(seed)
    return [4.0 * math.exp(-step / 200) + 1.0 + draw.gauss(0.0, noise) for step in range(steps)]


@given(st.integers(0, 10_000), st.floats(0.0, 0.15))
def test_a_loss_that_falls_with_noise_is_healthy(seed: int, noise: float) -> None:
    assert verdicts(falling(300, seed, noise)) == []


@given(st.integers(20, 200), st.integers(0, 1000))
def test_one_bad_batch_is_told_and_does_not_last(at: int, seed: int) -> None:
    losses = falling(250, seed)
    losses[at] *= 3.0
    (found,) = verdicts(losses)
    assert (found.fault, found.onset, found.lasting) == (LossFault.SPIKE, at, False)


@given(st.integers(20, 200), st.integers(0, 1000), st.floats(2.5, 100.0))
def test_a_spike_that_stays_lasts_from_its_first_step(at: int, seed: int, times: float) -> None:
    losses = falling(250, seed)
    losses[at:] = [loss * times for loss in losses[at:]]
    first, second, *_ = verdicts(losses)
    assert (first.step, first.lasting, second.step, second.lasting) == (at, False, at + SPIKE_STEPS - 1, True)
    assert (second.first_bad, second.last_bad) == (at - 1, at + SPIKE_STEPS - 1)


@given(st.integers(0, 100), st.sampled_from([math.nan, math.inf, -math.inf]))
def test_a_loss_that_is_no_number_lasts_after_a_few_steps_and_is_told_once(at: int, value: float) -> None:
    found = verdicts(falling(at) + [value] * 50)
    assert [(one.step, one.lasting) for one in found] == [(at, False), (at + NOT_FINITE_STEPS - 1, True)]
    assert (found[-1].first_bad, found[-1].last_bad) == (max(at - 1, 0), at)


def test_a_scaler_that_skips_an_update_is_no_reason_to_go_back() -> None:
    losses = falling(60)
    losses[30], losses[32] = math.nan, math.inf
    assert [one.lasting for one in verdicts(losses)] == [False]


def test_a_spike_that_ends_in_infinity_began_as_a_spike() -> None:
    found = verdicts([*falling(50), 20.0, 400.0, math.inf, math.nan, math.nan])
    assert (found[-1].fault, found[-1].onset, found[-1].lasting) == (LossFault.NOT_FINITE, 50, True)
    assert str(found[-1]).startswith("the loss of step 54 is not a number since step 50, 4.")


def test_losses_below_zero_spike_upwards() -> None:
    quiet = [-10.0 + 0.01 * (step % 3) for step in range(40)]
    assert verdicts(quiet) == []
    assert [one.fault for one in verdicts([*quiet, -2.0])] == [LossFault.SPIKE]


def test_a_new_level_that_nobody_goes_back_from_is_got_used_to() -> None:
    watch = LossWatch()
    for step, loss in enumerate([1.0, 1.1] * 20):
        watch.note(step, loss)
    for step in range(40, 40 + SPIKE_STEPS):
        watch.note(step, 9.0)
    watch.forget()
    assert all(watch.note(step, 9.0) is None for step in range(50, 120))
    assert watch.is_healthy


@pytest.mark.parametrize(("step", "expected"), [(0, 0), (4, 6), (5, 6), (6, 6), (9, 13), (11, 13), (13, 13)])
def test_skipped_steps_are_passed_over_at_once(step: int, expected: int) -> None:
    skipped = SkippedSteps()
    for first, last in ((9, 10), (11, 12), (4, 5)):
        skipped.add(first, last)
    assert skipped.next(step) == expected
    later = SkippedSteps()
    later.add(20, 21)
    later.load_state_dict(skipped.state_dict())
    assert (later.next(step), later.next(20), later.rollbacks) == (expected, 22, 4)


def test_skips_are_part_of_the_state_and_older_states_do_without() -> None:
    before, after = Parts(torch.device("cpu")), Parts(torch.device("cpu"))
    before.own["penstock.skipped"], after.own["penstock.skipped"] = SkippedSteps(), SkippedSteps()
    before.own["penstock.skipped"].add(4, 5)
    extras = before.capture(3).extras
    after.restore({}, {**extras, "parts": {}})
    assert after.own["penstock.skipped"].rollbacks == 0
    after.restore({}, extras)
    assert after.own["penstock.skipped"].next(4) == 6
