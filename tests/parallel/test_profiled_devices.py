"""Families on a device whose kernels were measured: the profile that ships with us instead of a roofline."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from penstock.core import ParallelPlan
from penstock.network import fabric_of
from penstock.parallel import family_named, mesh_named, plan_for
from penstock.parallel.operator_costs import DeviceModel, ProfiledDevice, TableMaker, device_model
from penstock.parallel.operators import CostTables
from penstock.predict import profile_named
from penstock.predict.hardware import Precision, device_named

H200 = device_named("h200")


def tables(device: DeviceModel, model: str = "gpt-1.3b") -> CostTables:
    return TableMaker(family=family_named(model), device=device, fabric=fabric_of("nvlink4"), per_node=8).tables(
        (1, 4), (1, 2, 8)
    )


def test_only_devices_with_a_profile_have_one() -> None:
    assert isinstance(device_model(H200, Precision.BF16), ProfiledDevice)
    assert not isinstance(device_model(device_named("a100"), Precision.BF16), ProfiledDevice)


def test_predictions_lie_around_the_roofline() -> None:
    """Two independent ways to the time of a layer: within a factor of two, and not the same."""
    profiled, roofline = tables(device_model(H200, Precision.BF16)), tables(DeviceModel.of(H200, Precision.BF16))
    layer = slice(1, 14)
    for costs in ("fwd_us", "bwd_us"):
        ratio = getattr(profiled, costs)[layer].sum(axis=0) / getattr(roofline, costs)[layer].sum(axis=0)
        assert (ratio > 0.5).all()
        assert (ratio < 2.0).all()
        assert abs(ratio - 1).max() > 0.01


def test_more_samples_take_longer_and_more_devices_shorter() -> None:
    total = tables(device_model(H200, Precision.BF16)).fwd_us.sum(axis=(0, 3))
    assert (total[1] > total[0]).all()
    assert total[1, 0] > total[1, 1] > total[1, 2]


def test_asking_at_once_and_one_by_one_is_the_same() -> None:
    work = family_named("gpt-1.3b").works[2]
    together, alone = device_model(H200, Precision.BF16), device_model(H200, Precision.BF16)
    together.foresee([work], 4, 2, 2, sequence_parallel=False)
    for name in ("forward_s", "backward_s"):
        found = [getattr(device, name)(work, 4, 2, 2, sequence_parallel=False) for device in (together, alone)]
        assert found[0] == pytest.approx(found[1], rel=1e-9)
        assert found[0] > 0


def test_a_plan_says_where_its_costs_are_from() -> None:
    answer = plan_for("gpt-1.3b", "8xH200", batch=64, seconds=1)
    assert isinstance(answer.plan, ParallelPlan)
    assert answer.costs_from == "computed for h200: kernels predicted by the profile measured on h200"
    assert isinstance(mesh_named("8xH200").priced(Precision.FP16).device, ProfiledDevice)


def test_a_profile_measured_here_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``penstock profile device`` wrote is used before anything that ships, as predictions of scripts use it."""
    a100, measured = device_named("a100"), profile_named("h200")
    slower = replace(measured, name=a100.name, iteration=replace(measured.iteration, device_factor=7.0))
    slower.save(tmp_path / "profiles" / a100.name)
    assert not isinstance(device_model(a100, Precision.BF16), ProfiledDevice)
    monkeypatch.setenv("PENSTOCK_DATA_DIR", str(tmp_path))
    found = device_model(a100, Precision.BF16)
    assert isinstance(found, ProfiledDevice)
    assert found.factor == 7.0
    assert f"measured on {a100.name}" in found.source
