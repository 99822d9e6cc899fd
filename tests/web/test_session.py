"""Cookies and links, with a clock to turn."""

from pathlib import Path

import pytest

from penstock.control.state.store import Role
from penstock.web.session import Sessions, SignInLinks, _inside, signing_secret
from tests.control.build import Platform


def test_a_cookie_stands_for_its_token_until_that_is_revoked(world: Platform) -> None:
    tokens, sessions = world.journal.store.tokens, Sessions("secret", world.platform)
    _, ada = tokens.create(name="ada", role=Role.USER, tenant="blue", now=1.0)
    cookie = sessions.cookie_for(ada.id)
    assert sessions.holder(cookie) == ada
    assert sessions.holder(None) is None
    assert sessions.holder(cookie + "x") is None
    assert Sessions("another secret", world.platform).holder(cookie) is None
    tokens.revoke(ada.id, 2.0)
    assert sessions.holder(cookie) is None


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


def test_the_secret_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "web.secret"
    first = signing_secret(path)
    assert len(first) >= 32
    assert signing_secret(path) == first
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "target",
    ["https://evil.example/", "//evil.example/ui/", "/v1/jobs", "", None, "javascript:alert(1)", "/ui\\..\\", "/uiX"],
)
def test_nobody_is_sent_elsewhere_after_signing_in(target: str | None) -> None:
    assert _inside(target) == "/ui/"


def test_the_page_one_came_for_is_kept() -> None:
    assert _inside("/ui/jobs/j-1") == "/ui/jobs/j-1"
