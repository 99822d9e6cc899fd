"""Rows to pictures: sums, steps, and what is left out."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.control.state.store import Holding, Principal, Role
from penstock.core import Cluster, Node
from penstock.core.cluster import PowerModel
from penstock.simulate import Bar
from penstock.web.pages.tenant_accounts import account_rows
from penstock.web.view_models import (
    DeviceSpan,
    busy_devices,
    forecast_band,
    held_spans,
    largest_spans,
    modelled_power,
    step_function,
    tenant_use,
)
from penstock.wire import TenantAccountView

ADMIN = Principal(id="a", name="a", role=Role.ADMIN, tenant="default")


def held(devices: tuple[int, ...], since: float, until: float | None, tenant: str = "blue") -> Holding:
    return Holding(
        job_id="j-1", name="job", tenant=tenant, number=1, generation=1, devices=devices, since=since, until=until
    )


def test_a_holding_is_cut_to_the_viewer() -> None:
    (one,) = held_spans(held((2, 3), 0.0, None), ADMIN, since=100.0, now=160.0)
    assert (one.bar, one.width) == (Bar("j-1", 2, 2, 100.0, 160.0), 2)


@given(
    st.lists(
        st.tuples(st.floats(0, 100), st.floats(0, 100), st.integers(1, 8)).map(
            lambda t: (min(t[:2]), max(t[:2]), t[2])
        ),
        max_size=30,
    )
)
def test_a_step_function_adds_up_at_every_step(spans: list[tuple[float, float, int]]) -> None:
    steps = step_function(spans, 0.0, 100.0)
    assert [at for at, _ in steps] == sorted(at for at, _ in steps)
    for at, level in steps[:-1]:
        assert level == pytest.approx(sum(amount for a, b, amount in spans if a <= at < b))


def test_a_step_function_stays_small() -> None:
    spans = [(float(i), float(i + 1), 1.0) for i in range(50_000)]
    assert len(step_function(spans, 0.0, 50_000.0)) <= 242


def test_busy_devices_end_at_the_present() -> None:
    steps = busy_devices([held((0, 1), 10.0, 20.0), held((2,), 15.0, None)], 0.0, 30.0)
    assert steps == ((0.0, 0.0), (10.0, 2.0), (15.0, 3.0), (20.0, 1.0), (30.0, 1.0))


def test_the_largest_stretches_stay() -> None:
    small, large = (DeviceSpan(bar=Bar("j-1", 0, 1, 0.0, end), width=1) for end in (1.0, 9.0))
    assert largest_spans([small, large], most=1) == ((large,), 1)
    assert largest_spans([small, large]) == ((small, large), 0)


def test_tenants_share_what_was_used() -> None:
    holdings = [held((0, 1, 2), 0.0, 10.0, "blue"), held((3,), 0.0, None, "red")]
    blue, red = tenant_use(holdings, {"blue": {"finished": 1}, "red": {"running": 1}}, 0.0, 10.0, parts=5)
    assert (blue.tenant, blue.device_seconds, blue.share, blue.devices) == ("blue", 30.0, 0.75, 0)
    assert (red.tenant, red.device_seconds, red.share, red.devices, red.running) == ("red", 10.0, 0.25, 1, 1)
    assert blue.buckets == pytest.approx((3.0,) * 5)


def test_power_counts_idle_devices_and_held_ones() -> None:
    node = Node(name="n", device_count=4, power=PowerModel(50.0, 250.0))
    power = modelled_power(Cluster((node,)), [held((0, 1), 0.0, 5.0), held((2,), 0.0, None)], 0.0, 10.0)
    assert power is not None
    assert power.watts == 4 * 50.0 + 200.0
    assert power.joules == 4 * 50.0 * 10 + 2 * 200.0 * 5 + 200.0 * 10
    assert modelled_power(Cluster((Node(name="n", device_count=1),)), [], 0.0, 1.0) is None


def test_a_band_holds_the_likely_end_and_is_a_point_when_the_speed_is_certain() -> None:
    assert forecast_band(100.0, 200.0, 0.0).early == forecast_band(100.0, 200.0, 0.0).late == 200.0
    band = forecast_band(100.0, 200.0, 0.25)
    assert (band.early, band.likely, band.late) == (180.0, 200.0, 225.0)
    assert math.isfinite(forecast_band(100.0, 200.0, 50.0).late)


def test_a_field_of_a_tenant_without_a_value_is_a_dash() -> None:
    plain = TenantAccountView(
        name="vision", share=1, held=0, wanted=0, borrowed=0, lent=0, entitled=1.0, used_device_seconds=0.0,
        deserved_device_seconds=0.0, fairness=1.0,
    )  # fmt: skip
    (row,) = account_rows([plain])
    assert row[3:6] == ["–", "–", "–"]
