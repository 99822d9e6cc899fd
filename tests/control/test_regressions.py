"""Results that got worse: told when it is clear, and not when it is noise."""

import math

import numpy as np
import pytest

from penstock.control.evaluation.regressions import EvaluatedStep, Regression, regressions

SIZES = {"arc": 1000, "unknown": None}


def rises(metric: str) -> bool | None:
    return {"accuracy": True, "loss": False}.get(metric.partition("/")[2])


def history(metric: str, *values: float) -> list[EvaluatedStep]:
    return [EvaluatedStep(10 * (number + 1), {metric: value}) for number, value in enumerate(values)]


def judged(metric: str, values: list[float], now: float) -> list[Regression]:
    return regressions(history(metric, *values), EvaluatedStep(999, {metric: now}), rises, SIZES)


def test_a_fall_beyond_what_a_sample_of_that_size_scatters_is_a_regression_at_once() -> None:
    assert judged("arc/accuracy", [0.70], 0.66) == []
    [found] = judged("arc/accuracy", [0.60, 0.70], 0.60)
    assert str(found) == "arc/accuracy 0.6, was 0.7 at step 20"


def test_without_a_size_it_takes_some_checkpoints_to_know_what_is_usual() -> None:
    assert judged("unknown/loss", [2.0, 1.8, 1.7], 5.0) == []
    steady = [2.0, 1.8, 1.7, 1.62, 1.55]
    [found] = judged("unknown/loss", steady, 1.9)
    assert (found.best, found.best_step) == (1.55, 50)
    assert judged("unknown/loss", steady, 1.56) == []
    assert judged("unknown/loss", [2.0, 1.2, 2.1, 1.1, 1.9, 1.3], 2.2) == [], "it always jumped like that"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_result_that_is_no_number_any_more_is_a_regression(value: float) -> None:
    assert [found.metric for found in judged("arc/accuracy", [0.7], value)] == ["arc/accuracy"]


def test_nothing_is_said_of_metrics_that_nobody_can_judge() -> None:
    assert judged("arc/tokens", [100.0], 1.0) == []
    assert judged("arc/accuracy", [], 0.1) == []
    assert judged("arc/accuracy", [math.nan], 0.1) == []


def test_noise_is_seldom_called_a_regression_and_a_real_fall_nearly_always() -> None:
    """Shares of right answers among a thousand, drawn anew for each of forty checkpoints of a hundred trainings."""
    draw = np.random.default_rng(7)
    alarms = missed = 0
    for _ in range(100):
        skill = np.linspace(0.5, 0.7, 40)
        values = (draw.binomial(1000, skill) / 1000).tolist()
        alarms += sum(bool(judged("arc/accuracy", values[:at], values[at])) for at in range(1, 40))
        missed += not judged("arc/accuracy", values, float(draw.binomial(1000, 0.6) / 1000))
    assert alarms <= 0.01 * 100 * 39
    assert missed <= 5
