"""When a metric will end its training, from its first values: on curves whose future is known."""

import numpy as np
import pytest

from penstock.core import StopRule
from penstock.learn import forecast_metric
from penstock.simulate import CurveFamily, draw_curve, target_at

RISING = StopRule(metric="val_acc", rising=True, target=0.8)


def exponential(*, until: int, noise: float = 0.003, start: float = 0.2) -> list[tuple[int, float]]:
    """Rises from 0.2 towards 0.9; it passes 0.8 at step 1946."""
    rng = np.random.default_rng(3)
    steps = range(50, until + 1, 50)
    return [(step, 0.9 - (0.9 - start) * float(np.exp(-step / 1000)) + noise * rng.standard_normal()) for step in steps]


def test_a_clear_curve_is_foretold() -> None:
    forecast = forecast_metric(RISING, exponential(until=1300), 5000)
    assert forecast is not None
    outlook = forecast.outlook
    assert outlook.median == pytest.approx(1946, rel=0.15)
    assert 1300 < outlook.median <= outlook.safe <= 5000
    assert outlook.reach > 0.9
    assert forecast_metric(RISING, exponential(until=1300), 5000).outlook == outlook  # type: ignore[union-attr]


def test_more_values_make_it_surer() -> None:
    widths = []
    for until in (1000, 1500, 1850):
        outlook = forecast_metric(RISING, exponential(until=until), 5000).outlook  # type: ignore[union-attr]
        widths.append(outlook.safe - outlook.median)
    assert widths == sorted(widths, reverse=True)


def test_a_target_above_the_ceiling_is_called_unlikely() -> None:
    high = StopRule(metric="val_acc", rising=True, target=1.2)
    outlook = forecast_metric(high, exponential(until=3500), 5000).outlook  # type: ignore[union-attr]
    assert outlook.is_unlikely
    assert outlook.safe == 5000


def test_falling_metrics_and_patience_are_foretold_too() -> None:
    falling = [(step, 1.0 - value) for step, value in exponential(until=1300)]
    low = StopRule(metric="loss", rising=False, target=0.2)
    stall = StopRule(metric="loss", rising=False, patience=300, least_gain=0.002)
    assert forecast_metric(low, falling, 5000).outlook.median == pytest.approx(1946, rel=0.15)  # type: ignore[union-attr]
    assert 1600 < forecast_metric(stall, falling, 9000).outlook.median < 9000  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "values", [[], [(1, 0.1)], [(step, 0.5) for step in range(1, 5)], [(n, 0.1) for n in range(200)]]
)
def test_too_little_and_too_late_tell_nothing(values: list[tuple[int, float]]) -> None:
    assert forecast_metric(RISING, values, 199) is None
    assert forecast_metric(RISING, [(step, 1e300) for step in range(1, 30)], 100) is None


@pytest.mark.parametrize("level", [0.0, 0.5, -1e12, 1e90])
def test_flat_and_odd_values_do_no_harm(level: float) -> None:
    forecast = forecast_metric(RISING, [(step, level) for step in range(1, 30)], 100)
    assert forecast is not None
    assert 29 < forecast.outlook.safe <= 100


@pytest.mark.parametrize("family", list(CurveFamily))
def test_generated_curves_rise_to_their_ceiling_and_end_by_the_rule(family: CurveFamily) -> None:
    curve = draw_curve(family, 10_000, np.random.default_rng(1))
    levels = [curve.level(step) for step in range(0, 10_001, 500)]
    assert levels == sorted(levels)
    assert levels[0] == pytest.approx(curve.start)
    assert levels[-1] <= curve.ceiling
    end = curve.end(target_at(curve, 0.5))
    assert 0 < end <= 10_000
    assert curve.points() == curve.points()
