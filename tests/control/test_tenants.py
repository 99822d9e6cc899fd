"""Tenants as admins set them and everybody sees them: over the API, in the log, in the metrics."""

from collections.abc import Iterator

import pytest

from penstock.cli.platform.tenants import tenant_rows
from penstock.core import InputError
from penstock.wire import ConflictError, ForbiddenError, MissingError
from tests.control.build import ADMIN, Platform
from tests.control.serving import Served, serving


@pytest.fixture
def served(world: Platform) -> Iterator[Served]:
    with serving(world) as running:
        yield running


def test_an_admin_sets_tenants_and_everybody_sees_their_own(served: Served) -> None:
    with served.client() as admin, served.client("ada") as ada:
        admin.set_tenant("blue", share=2.0, quota=2, group="research")
        set_again = admin.set_tenant("blue", lending=False)
        assert (set_again.share, set_again.quota, set_again.group, set_again.lending) == (2.0, 2, "research", False)
        ada.submit({"work": 1000})
        served.world.passes(1)
        assert [(each.name, each.members) for each in admin.tenants()] == [("research", ["blue"]), ("blue", [])]
        mine = ada.tenants()
        assert [each.name for each in mine] == ["blue"]
        assert mine[0].held == 4
        assert mine[0].borrowed == 2
        assert admin.tenants()[0].held == 4, "a group holds what its members do"
        with pytest.raises(ForbiddenError):
            ada.set_tenant("blue", share=9.0)
        rows = tenant_rows(admin.tenants())
        assert [row[0] for row in rows] == ["research", "  blue"]
        assert rows[1][1:6] == ["2", "2", "-", "4", "4"]
        assert admin.set_tenant("blue", group=None, quota=None, lending=True).group == ""


def test_what_does_not_fit_is_refused_and_changes_nothing(served: Served) -> None:
    with served.client() as admin, served.client("ada") as ada:
        admin.set_tenant("green", group="research", quota=3)
        for changes, said in (
            ({"share": 0}, "share"),
            ({"quota": 9}, "at most the 4 devices"),
            ({"quota": 4, "limit": 2}, "within the limit"),
            ({"group": "blue"}, "another tenant"),
            ({"borrowing": False}, "quota"),
            ({"tribe": "x"}, "tribe"),
            ({"share": None}, "a value"),
        ):
            with pytest.raises(InputError, match=said):
                admin.set_tenant("blue", **changes)
        ada.submit({"work": 1000})
        with pytest.raises(ConflictError, match="jobs of its own"):
            admin.set_tenant("green", group="blue")
        with pytest.raises(ConflictError, match="inside it"):
            admin.set_tenant("research", group="green")
        with pytest.raises(ConflictError, match="leave it first"):
            admin.remove_tenant("research")
        with pytest.raises(ConflictError, match="not over"):
            admin.remove_tenant("blue")
        with pytest.raises(MissingError):
            admin.remove_tenant("nobody")
        with pytest.raises(InputError, match="is a group"):
            admin.submit({"work": 1, "tenant": "research"})
        assert [each.name for each in admin.tenants()] == ["blue", "research", "green"]
        admin.set_tenant("green", group=None)
        admin.remove_tenant("research")
        assert [each.name for each in admin.tenants()] == ["blue", "green"]


def test_a_quota_beyond_the_cluster_is_refused_in_a_group_too_and_promisable_is_listed(served: Served) -> None:
    with served.client() as admin:
        for changes in ({"quota": 8}, {"quota": 8, "group": "research"}, {"quota": 5, "group": "new"}):
            with pytest.raises(InputError, match="together at most the 4 devices"):
                admin.set_tenant("vision", **changes)
        assert admin.tenants() == []
        admin.set_tenant("vision", quota=3, group="research")
        admin.set_tenant("nlp", group="research", limit=3)
        with pytest.raises(InputError, match="together at most the 4 devices"):
            admin.set_tenant("nlp", quota=2)
        admin.set_tenant("sales", limit=2)
        found = {each.name: each.promisable for each in admin.tenants()}
        assert found == {"research": 4, "vision": 4, "nlp": 1, "sales": 1}


def test_settings_outlive_the_server_and_hold_under_its_policy(world: Platform) -> None:
    world.platform.tenants.set("green", _request(quota=3), ADMIN)
    for _ in range(4):
        world.submit(tenant="blue", work=1e6, at_most=1)
    world.passes(1)
    world.restart()
    for _ in range(4):
        world.submit(tenant="green", work=1e6, at_most=1)
    world.passes(2)
    held = {each.name: each.held for each in world.platform.tenants.views(ADMIN)}
    assert held == {"green": 3, "blue": 1}
    views = {each.name: (each.borrowed, each.lent) for each in world.platform.tenants.views(ADMIN)}
    assert views == {"green": (0, 0), "blue": (0, 0)}, "all of its quota is its own, and who has none borrows nothing"


def test_who_gives_back_is_told_for_whom_until_it_goes_on(world: Platform) -> None:
    world.platform.tenants.set("green", _request(quota=4), ADMIN)
    victim = world.submit(tenant="blue", work=1e6, at_least=4)
    world.passes(1)
    owner = world.submit(tenant="green", work=400, at_least=4)
    world.passes(1)
    told = world.platform.job(victim, ADMIN).reason
    assert told.startswith("suspended: its 4 devices go to a job of green, whose tenant takes its quota back")
    assert told in [note.text for note in world.platform.why(victim, ADMIN).entries]
    world.restart()
    assert world.platform.job(victim, ADMIN).reason == told
    world.platform.cancel(owner, ADMIN)
    world.passes(2)
    assert world.platform.job(victim, ADMIN).reason == ""


def test_the_metrics_tell_how_fairly_tenants_fare(world: Platform) -> None:
    world.submit(tenant="blue", work=1e6)
    world.passes(1)
    world.clock.time += 98.0
    read = world.metrics.registry.get_sample_value
    assert read("penstock_tenant_held_devices", {"tenant": "blue"}) == 4
    assert read("penstock_tenant_used_device_seconds", {"tenant": "blue"}) == pytest.approx(400.0)
    assert read("penstock_tenant_deserved_device_seconds", {"tenant": "blue"}) == pytest.approx(400.0)
    assert read("penstock_tenant_fairness", {"tenant": "blue"}) == pytest.approx(1.0)


def _request(**changes: object) -> object:
    from penstock.wire import TenantRequest

    return TenantRequest.model_validate(changes)
