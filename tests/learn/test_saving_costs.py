"""How often to save: from what it costs and how often something fails, within bounds, and only once it is known."""

from pathlib import Path

import pytest

from penstock.core import InputError, best_interval_s
from penstock.learn import SavingCosts
from penstock.learn.saving_costs import PRIOR_DEVICE_S


def test_more_devices_and_more_failures_mean_more_checkpoints(tmp_path: Path) -> None:
    costs = SavingCosts(tmp_path / "curves.db")
    assert costs.interval("job", devices=1) is None
    costs.saved("job", 0.02)
    alone, many = costs.interval("job", devices=1), costs.interval("job", devices=4)
    assert alone is not None
    assert many is not None
    assert alone.seconds == pytest.approx(best_interval_s(0.02, PRIOR_DEVICE_S))
    assert many.seconds == pytest.approx(alone.seconds / 2)
    for _ in range(3):
        costs.ran(device_s=0.0, failed=True)
    worse = SavingCosts(tmp_path / "curves.db").interval("job", devices=1)
    assert worse is not None
    assert worse.between_failures_s == pytest.approx(alone.between_failures_s / 4)
    costs.ran(device_s=7 * PRIOR_DEVICE_S, failed=False)
    better = costs.interval("job", devices=1)
    assert better is not None
    assert better.between_failures_s == pytest.approx(2 * PRIOR_DEVICE_S)


def test_the_newest_costs_count_and_the_interval_has_bounds(tmp_path: Path) -> None:
    costs = SavingCosts(tmp_path / "curves.db")
    for seconds in (*[500.0] * 20, *[0.0] * 8):
        costs.saved("job", seconds)
    found = costs.interval("job", devices=1_000_000)
    assert found is not None
    assert (found.seconds, found.cost_s) == (10.0, 0.001)
    costs.saved("slow", 1e4)
    slow = costs.interval("slow", devices=1)
    assert slow is not None
    assert slow.seconds == 3600.0


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), 1e9])
def test_nonsense_is_refused(tmp_path: Path, seconds: float) -> None:
    with pytest.raises(InputError, match="0 or more seconds"):
        SavingCosts(tmp_path / "curves.db").saved("job", seconds)
