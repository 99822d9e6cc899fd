"""How many jobs a tenant has that are not over is known without looking at them, and bounded."""

from pathlib import Path

import pytest

from penstock.control.platform.quotas import Quotas
from penstock.control.state.active_jobs import array_of
from penstock.control.state.store import Quota
from penstock.wire import ForbiddenError, QuotaRequest, TooManyError
from tests.control.build import ADMIN, Platform, platform


def counted(world: Platform) -> dict[str, int]:
    """By looking at every job."""
    tenants = [record.job.tenant for record in world.journal.state.jobs.values() if not record.over]
    return {tenant: tenants.count(tenant) for tenant in tenants}


def test_the_index_says_what_looking_at_every_job_says(tmp_path: Path) -> None:
    with platform(tmp_path) as world:
        first = world.submit(work=100)
        world.submit(work=100)
        world.submit(work=100, name="blue one", tenant="blue")
        world.commands.submit_array({"work": 100, "name": "many"}, range(1, 4), ADMIN)
        world.commands.cancel(first, ADMIN)
        active = world.journal.state.active
        assert {tenant: active.count(tenant) for tenant in ("default", "blue")} == counted(world)
        assert [len(members) for members in active.arrays.values()] == [3]
        (array,) = active.arrays
        world.commands.arrays.cancel(array, ADMIN)
        assert not world.journal.state.active.arrays
        world.journal.keep_snapshot()
    with platform(tmp_path) as again:
        assert {tenant: again.journal.state.active.count(tenant) for tenant in ("default", "blue")} == counted(again)


def test_a_tenant_without_a_quota_has_as_many_jobs_as_the_server_allows(world: Platform) -> None:
    quotas = world.commands.quotas = Quotas(world.journal.store.quotas, max_active_jobs=2)
    first = world.submit(work=100)
    world.submit(work=100)
    with pytest.raises(TooManyError, match="has 2 jobs that are not over"):
        world.submit(work=100)
    with pytest.raises(TooManyError):
        world.commands.submit_array({"work": 100, "name": "many"}, range(1, 3), ADMIN)
    assert len(counted(world)) == 1
    world.commands.cancel(first, ADMIN)
    world.submit(work=100)
    quotas.set("default", Quota(active_jobs=3))
    world.submit(work=100)


def test_the_array_of_a_job_is_in_its_id() -> None:
    assert array_of("j-abcd2345-17") == "j-abcd2345"
    assert array_of("j-abcd2345") is None
    assert array_of("something else") is None


def test_a_job_is_kept_within_the_devices_of_its_tenant(world: Platform) -> None:
    quotas = world.commands.quotas
    world.platform.administration.set_quota("default", QuotaRequest(devices=2), ADMIN)
    widest = {job: world.record(job).job.at_most for job in (world.submit(), world.submit(at_most=1))}
    assert list(widest.values()) == [2, 1]
    with pytest.raises(ForbiddenError, match="asks for 3 devices"):
        world.submit(at_most=3)
    with pytest.raises(ForbiddenError, match="asks for 4 devices"):
        world.submit(at_least=4)
    assert world.record(world.submit(at_least=2)).job.at_most == 2
    quotas.set("default", Quota())
    assert world.record(world.submit()).job.at_most is None
