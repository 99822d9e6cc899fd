"""Cookies and links, with a clock to turn."""

import pytest

from penstock.control import SESSION_LIFETIME_S
from penstock.control.state.store import Role
from penstock.web.session import SignInLinks, inside
from tests.control.build import ADMIN, Platform


def test_a_cookie_stands_for_its_session_until_that_ends(world: Platform) -> None:
    store, credentials = world.journal.store, world.platform.credentials
    _, ada = store.tokens.create(name="ada", role=Role.USER, tenant="blue", now=1.0)
    cookie, other = credentials.sign_in(ada, "10.0.0.1"), credentials.sign_in(ada, "10.0.0.2")
    found = credentials.session_holder(cookie)
    assert found is not None
    assert (found.id, found.name, found.tenant) == (ada.id, "ada", "blue")
    for wrong in (None, "", cookie + "x", ada.id, found.session_id):
        assert credentials.session_holder(wrong) is None
    credentials.sign_out(found)
    assert credentials.session_holder(cookie) is None, "the cookie is still good"
    assert not credentials.is_valid(found), "an open page still has its power"
    assert credentials.session_holder(other) is not None, "another browser was signed out as well"


def test_a_session_survives_a_restart_and_ends_with_its_time_or_its_token(world: Platform) -> None:
    _, ada = world.journal.store.tokens.create(name="ada", role=Role.USER, tenant="blue", now=1.0)
    first, second = (world.platform.credentials.sign_in(ada, "") for _ in range(2))
    world.restart()
    credentials = world.platform.credentials
    page = credentials.session_holder(first)
    assert page is not None
    world.clock.time += SESSION_LIFETIME_S
    assert credentials.session_holder(first) is None
    assert not credentials.is_valid(page)
    world.clock.time -= SESSION_LIFETIME_S
    page = credentials.session_holder(second)
    assert page is not None
    credentials.revoke(ada.id)
    assert credentials.session_holder(second) is None
    assert not credentials.is_valid(page)


def test_whoever_listens_hears_of_every_end(world: Platform) -> None:
    credentials, heard = world.platform.credentials, []
    credentials.subscribe(lambda: heard.append(True))
    _, ada = world.journal.store.tokens.create(name="ada", role=Role.USER, tenant="blue", now=1.0)
    page = credentials.session_holder(credentials.sign_in(ada, ""))
    assert page is not None
    credentials.sign_out(page)
    credentials.revoke(ada.id)
    assert len(heard) == 2


def test_a_link_works_once_and_not_for_long() -> None:
    now = [0.0]
    links = SignInLinks(lambda: now[0])
    code = links.make("token-1")
    assert links.use("something else") is None
    assert links.use(code) == "token-1"
    assert links.use(code) is None
    late = links.make("token-2")
    now[0] = 301.0
    assert links.use(late) is None


def test_links_do_not_pile_up() -> None:
    links = SignInLinks(lambda: 0.0)
    codes = [links.make(f"token-{number}") for number in range(1100)]
    assert links.use(codes[0]) is None
    assert links.use(codes[-1]) == "token-1099"


@pytest.mark.parametrize(
    "target",
    ["https://evil.example/", "//evil.example/ui/", "/v1/jobs", "", None, "javascript:alert(1)", "/ui\\..\\", "/uiX"],
)
def test_nobody_is_sent_elsewhere_after_signing_in(target: str | None) -> None:
    assert inside(target) == "/ui/"


def test_the_page_one_came_for_is_kept() -> None:
    assert inside("/ui/jobs/j-1") == "/ui/jobs/j-1"


def test_the_audit_log_has_every_sign_in_and_every_refused_one(world: Platform) -> None:
    _, ada = world.journal.store.tokens.create(name="ada", role=Role.USER, tenant="blue", now=1.0)
    world.platform.credentials.sign_in(ada, "10.0.0.1")
    world.platform.credentials.refuse("eve", "10.0.0.2")
    entries = world.platform.administration.audit(ADMIN, before=None, limit=10, action="sign in").entries
    assert [(each.actor, each.address, each.result) for each in entries] == [
        ("eve", "10.0.0.2", "unauthorized"), ("ada", "10.0.0.1", "done"),
    ]  # fmt: skip
