"""What one tenant's runs teach changes no answer of another's."""

from pathlib import Path

from penstock.learn import CostStore, CurveStore, Delay, scope_of_tenant, scoped_fingerprint
from penstock.learn.delays import PRIOR

RED, BLUE = (scoped_fingerprint("same", tenant) for tenant in ("red", "blue"))


def test_equal_jobs_of_two_tenants_have_fingerprints_of_their_own() -> None:
    assert RED != BLUE
    assert RED.endswith("same")
    assert scoped_fingerprint("", "red") == "", "a job that nobody knows stays unknown"


def test_one_tenants_speeds_and_delays_are_not_anothers(tmp_path: Path) -> None:
    speeds, delays = CurveStore(tmp_path / "curves.db"), CostStore(tmp_path / "curves.db")
    speeds.observe(RED, "cpu", 1, rate=1000.0, seconds=600)
    for what in Delay:
        for _ in range(8):
            delays.observe(RED, "cpu", what, 5000.0)
    assert speeds.points(BLUE, "cpu") == ()
    assert delays.costs(BLUE, "cpu") == PRIOR
    assert delays.costs(scoped_fingerprint("other", "red"), "cpu").start.likely == 5000.0, "its own jobs learn from it"


def test_starts_of_one_tenant_are_no_trend_for_another(tmp_path: Path) -> None:
    delays = CostStore(tmp_path / "curves.db")
    for _ in range(4):
        delays.observe(BLUE, "cpu", Delay.START, 4.0)
    before = delays.costs(BLUE, "cpu")
    for seconds in (2.0, 2.0, 2.0, 2.0, 2.0, 90.0, 90.0, 90.0):
        delays.observe(RED, "cpu", Delay.START, seconds)
    assert delays.costs(BLUE, "cpu") == before


def test_what_was_learned_before_tenants_counted_is_kept_for_the_only_one(tmp_path: Path) -> None:
    speeds, delays = CurveStore(tmp_path / "curves.db"), CostStore(tmp_path / "curves.db")
    speeds.observe("same", "cpu", 1, rate=7.0, seconds=60)
    speeds.observe("same", "cpu", 2, rate=12.0, seconds=60)
    speeds.observe(RED, "cpu", 2, rate=13.0, seconds=60)
    delays.observe("same", "cpu", Delay.START, 9.0)
    for _ in range(2):
        speeds.adopt(scope_of_tenant("red"))
        delays.adopt(scope_of_tenant("red"))
    assert [point.rate for point in speeds.points(RED, "cpu")] == [7.0, 13.0]
    assert delays.costs(RED, "cpu").start == delays.costs("same", "cpu").start
    assert delays.costs(scoped_fingerprint("new", "red"), "cpu").start.likely == 9.0
    assert speeds.points(BLUE, "cpu") == ()
    assert delays.costs(BLUE, "cpu") == PRIOR
