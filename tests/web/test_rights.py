"""What a page may show and do for whom, without a browser."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.control.state.store import Search
from penstock.core import InputError
from penstock.web.platform_view import Window
from penstock.wire import ForbiddenError, MissingError, UnauthorizedError
from tests.web.world import Seen, seen


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Seen]:
    with seen(tmp_path) as found:
        yield found


ACTIONS: tuple[Callable[[Window, str], object], ...] = (
    lambda window, job: window.job(job),
    lambda window, job: window.cancel(job),
    lambda window, job: window.pause(job),
    lambda window, job: window.resume(job),
    lambda window, job: window.log(job, None),
)


@pytest.mark.parametrize("action", ACTIONS)
def test_somebody_elses_job_does_not_exist(there: Seen, action: Callable[[Window, str], object]) -> None:
    job = there.world.submit(there.people["ada"], name="hers", work=1000)
    there.world.passes(2)
    before = there.world.phase(job)
    with pytest.raises(MissingError):
        action(there.window("eve"), job)
    assert there.world.phase(job) is before


def test_a_list_holds_only_what_one_may_see(there: Seen) -> None:
    there.world.submit(there.people["ada"], name="hers")
    there.world.passes()
    lines, total = there.window("ada").jobs(Search(tenant="blue"))
    assert [line.view.name for line in lines] == ["hers"]
    assert total == 1
    assert there.window("eve").jobs(Search(tenant="red")) == ([], 0)
    for wanted in (Search(), Search(tenant="blue")):
        with pytest.raises(InputError):
            there.window("eve").jobs(wanted)


def test_a_picture_of_the_cluster_says_that_devices_are_held_but_not_by_whom(there: Seen) -> None:
    job = there.world.submit(there.people["ada"], name="hers", work=1000)
    there.world.passes(20)
    mine, theirs = (there.window(who).cluster(600.0) for who in ("ada", "eve"))
    assert {one.job_id for one in mine.stretches} == {job}
    assert {(one.job_id, one.name, one.number) for one in theirs.stretches} == {("", "another tenant", -1)}
    assert theirs.busy[-1][1] == mine.busy[-1][1] == 4
    assert theirs.counts == {}
    assert any(one.planned for one in theirs.stretches)


def test_nodes_show_strangers_without_their_names(there: Seen) -> None:
    there.world.submit(there.people["ada"], work=1000)
    there.world.passes(2)
    (node,) = there.window("eve").nodes()
    assert node.holders == (-1, -1, -1, -1)
    assert node.view.jobs == []


def test_tenants_see_themselves(there: Seen) -> None:
    for who in ("ada", "eve"):
        there.world.submit(there.people[who], work=50)
    there.world.passes(30)
    assert {line.tenant for line in there.window("admin").tenants(600.0)} == {"blue", "red"}
    (line,) = there.window("eve").tenants(600.0)
    assert (line.tenant, line.share) == ("red", 1.0)


@pytest.mark.parametrize("who", ["ada", "eve"])
def test_only_admins_drain_and_replay(there: Seen, who: str) -> None:
    window = there.window(who)
    for action in (
        lambda: window.drain("node-0"),
        lambda: window.undrain("node-0"),
        lambda: window.what_if(["fifo"], lambda _: None),
    ):
        with pytest.raises(ForbiddenError):
            action()
    assert there.world.journal.state.absent == {}


def test_a_job_for_somebody_else_is_refused(there: Seen) -> None:
    with pytest.raises(ForbiddenError):
        there.window("eve").submit({"name": "x", "tenant": "blue"})
    assert there.world.journal.state.jobs == {}


def test_a_revoked_token_ends_every_right_at_once(there: Seen) -> None:
    window = there.window("ada")
    job = window.submit({"name": "x", "work": 1000}).id
    there.world.journal.store.tokens.revoke(there.people["ada"].id, 2.0)
    for action in (lambda: window.job(job), lambda: window.cancel(job), lambda: window.cluster(60.0), window.nodes):
        with pytest.raises(UnauthorizedError):
            action()


def test_quotes_for_several_deadlines_change_nothing(there: Seen) -> None:
    window = there.window("ada")
    before = there.world.journal.seq
    answers = [window.quote({"name": "x", "work": 400, "within": seconds}) for seconds in (10, 10_000)]
    assert [answer.verdict for answer in answers] == ["refused", "promised"]
    assert there.world.journal.seq == before
