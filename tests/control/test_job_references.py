"""Jobs are found by what people call them, and never by what could mean two."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.wire import ConflictError, MissingError
from tests.control.build import ADMIN, Platform, platform
from tests.control.serving import Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with platform(tmp_path) as world, serving(world) as running:
        yield running


def meant(world: Platform, reference: str) -> str:
    return world.platform.resolve(reference, ADMIN)


def test_a_name_means_the_job_that_is_not_over_else_the_newest(served: Served) -> None:
    world = served.world
    first = world.submit(name="night", work=1e6)
    assert meant(world, "night") == first
    world.platform.cancel(first, ADMIN)
    second = world.submit(name="night", work=1e6)
    assert meant(world, "night") == second
    world.platform.cancel(second, ADMIN)
    assert meant(world, "night") == second
    world.submit(name="night", work=1e6)
    world.submit(name="night", work=1e6)
    with pytest.raises(ConflictError, match=r"2 jobs are called 'night'\. Allowed: one of j-"):
        meant(world, "night")


def test_the_beginning_of_an_id_is_enough_also_of_a_job_that_is_over(served: Served) -> None:
    world = served.world
    job = world.submit(work=1e6)
    assert {meant(world, job[:5]), meant(world, job[2:6]), meant(world, job)} == {job}
    world.platform.cancel(job, ADMIN)
    world.passes(3)
    assert meant(world, job[:5]) == job
    for unknown in ("zz", "j-zz", "nobody", "x" * 80, "j-%", "'"):
        assert meant(world, unknown) == unknown


def test_ids_that_begin_alike_are_listed(served: Served) -> None:
    array = served.world.platform.submit_array({"name": "many", "work": 1e6}, "1..3", ADMIN).id
    with pytest.raises(ConflictError, match=f"3 jobs have ids that begin with .*{array}-1, {array}-2, {array}-3"):
        meant(served.world, array[2:6])
    assert meant(served.world, f"{array}-2") == f"{array}-2"


def test_the_api_takes_names_and_somebody_elses_do_not_exist(served: Served) -> None:
    job = served.world.submit(name="night", work=1e6)
    with served.client("admin") as admin, served.client("eve") as eve:
        assert admin.job("night").id == job
        assert admin.why("night").job_id == job
        assert admin.pause("night").state == "paused"
        for reference in ("night", job[:6], job):
            with pytest.raises(MissingError, match="There is no job"):
                eve.job(reference)
        assert admin.cancel(job[2:]).id == job
