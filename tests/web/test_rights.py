"""What a page may show and do for whom, without a browser."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.control.state.store import Search
from penstock.core import InputError
from penstock.web.viewer import Viewer
from penstock.wire import ForbiddenError, MissingError, UnauthorizedError, WhatIfRequest
from tests.web.world import Seen, seen


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Seen]:
    with seen(tmp_path) as found:
        yield found


ACTIONS: tuple[Callable[[Viewer, str], object], ...] = (
    lambda viewer, job: viewer.job(job),
    lambda viewer, job: viewer.cancel(job),
    lambda viewer, job: viewer.pause(job),
    lambda viewer, job: viewer.resume(job),
    lambda viewer, job: viewer.log(job, None),
)


@pytest.mark.parametrize("action", ACTIONS)
def test_somebody_elses_job_does_not_exist(there: Seen, action: Callable[[Viewer, str], object]) -> None:
    job = there.world.submit(there.people["ada"], name="hers", work=1000)
    there.world.passes(2)
    before = there.world.phase(job)
    with pytest.raises(MissingError):
        action(there.viewer("eve"), job)
    assert there.world.phase(job) is before


def test_arrays_are_seen_and_steered_by_their_own_tenant(there: Seen) -> None:
    array = there.world.platform.submit_array({"name": "train", "work": 1000}, "1..3", there.people["ada"])
    there.world.passes(2)
    ada, eve = there.viewer("ada"), there.viewer("eve")
    assert [line.id for line in ada.arrays()] == [array.id]
    assert eve.arrays() == []
    for action in (eve.cancel_array, eve.pause_array, eve.resume_array):
        with pytest.raises(MissingError):
            action(array.id)
    ada.pause_array(array.id)
    assert ada.arrays()[0].states == {"paused": 3}
    ada.resume_array(array.id)
    ada.cancel_array(array.id)
    assert ada.arrays() == []


def test_a_list_holds_only_what_one_may_see(there: Seen) -> None:
    there.world.submit(there.people["ada"], name="hers")
    there.world.passes()
    lines, total = there.viewer("ada").jobs(Search(tenant="blue"))
    assert [line.view.name for line in lines] == ["hers"]
    assert total == 1
    assert there.viewer("eve").jobs(Search(tenant="red")) == ([], 0)
    for wanted in (Search(), Search(tenant="blue")):
        with pytest.raises(InputError):
            there.viewer("eve").jobs(wanted)


def test_a_picture_of_the_cluster_says_that_devices_are_held_but_not_by_whom(there: Seen) -> None:
    job = there.world.submit(there.people["ada"], name="hers", work=1000)
    there.world.passes(20)
    mine, theirs = (there.viewer(who).cluster(600.0) for who in ("ada", "eve"))
    assert {one.bar.job_id for one in mine.spans} == {job}
    assert {(one.bar.job_id, one.name, one.number) for one in theirs.spans} == {("", "another tenant", -1)}
    assert theirs.busy[-1][1] == mine.busy[-1][1] == 4
    assert theirs.counts == {}
    assert any(one.planned for one in theirs.spans)


def test_nodes_show_strangers_without_their_names(there: Seen) -> None:
    there.world.submit(there.people["ada"], work=1000)
    there.world.passes(2)
    (node,) = there.viewer("eve").nodes()
    assert node.holders == (-1, -1, -1, -1)
    assert node.view.jobs == []


def test_tenants_see_themselves(there: Seen) -> None:
    for who in ("ada", "eve"):
        there.world.submit(there.people[who], work=50)
    there.world.passes(30)
    assert {line.tenant for line in there.viewer("admin").tenants(600.0)} == {"blue", "red"}
    (line,) = there.viewer("eve").tenants(600.0)
    assert (line.tenant, line.share) == ("red", 1.0)


@pytest.mark.parametrize("who", ["ada", "eve"])
def test_only_admins_drain_and_replay(there: Seen, who: str) -> None:
    viewer = there.viewer(who)
    for action in (
        lambda: viewer.drain("node-0"),
        lambda: viewer.undrain("node-0"),
        lambda: viewer.what_if(WhatIfRequest(policies=["fifo"])),
    ):
        with pytest.raises(ForbiddenError):
            action()
    assert there.world.journal.state.absent == {}


def test_a_job_for_somebody_else_is_refused(there: Seen) -> None:
    with pytest.raises(ForbiddenError):
        there.viewer("eve").submit({"name": "x", "tenant": "blue"})
    assert there.world.journal.state.jobs == {}


def test_a_revoked_token_ends_every_right_at_once(there: Seen) -> None:
    viewer = there.viewer("ada")
    job = viewer.submit({"name": "x", "work": 1000}).id
    there.world.journal.store.tokens.revoke(there.people["ada"].id, 2.0)
    for action in (lambda: viewer.job(job), lambda: viewer.cancel(job), lambda: viewer.cluster(60.0), viewer.nodes):
        with pytest.raises(UnauthorizedError):
            action()


def test_quotes_for_several_deadlines_change_nothing(there: Seen) -> None:
    viewer = there.viewer("ada")
    before = there.world.journal.seq
    answers = [viewer.quote({"name": "x", "work": 400, "within": seconds}) for seconds in (10, 10_000)]
    assert [answer.verdict for answer in answers] == ["refused", "promised"]
    assert there.world.journal.seq == before
