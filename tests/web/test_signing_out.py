"""Signing out ends everything at once: other tabs, their sockets, and the cookie, whoever kept a copy."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from penstock.control import session_cookie
from tests.web.browsing import Tab, tab
from tests.web.site import WebSite

pytestmark = pytest.mark.xdist_group("browser")


def _cookie(tab: Tab) -> str:
    return next(one["value"] for one in tab.context.cookies() if one["name"] == session_cookie(tab.site.url))


def _page_id(page: Page) -> str:
    return str(page.evaluate("window.clientId"))


@contextmanager
def socket(site: WebSite, page_id: str, *, cookie: str = "", origin: str | None = None) -> Iterator[ClientConnection]:
    """What a page's script does to connect, done by hand."""
    query = f"client_id={page_id}&document_id=d&tab_id=t&next_message_id=0&EIO=4&transport=websocket"
    address = f"{site.url.replace('http', 'ws')}/ui/_nicegui_ws/socket.io/?{query}"
    headers = {"Cookie": f"{session_cookie(site.url)}={cookie}"} if cookie else {}
    with connect(address, origin=origin, additional_headers=headers, proxy=None) as opened:  # type: ignore[arg-type]
        yield opened


def _read_to_the_end(opened: ClientConnection) -> None:
    last = time.monotonic() + 20
    while time.monotonic() < last:
        opened.recv(timeout=10)
    raise AssertionError("the socket is still fed 20 s after its session was over")


def test_a_page_left_open_has_no_power_after_signing_out(browser: Browser, site: WebSite) -> None:
    job = site.submit("ada", steps=1000, resumable=True)
    with tab(browser, site, "ada") as ada:
        page = ada.go(f"/jobs/{job}")
        expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
        page.evaluate("() => { window.fetch = () => new Promise(() => {}); }")  # it never learns, and stays as it is
        answer = ada.context.request.post(f"{site.url}/ui/sign-out", max_redirects=0)
        assert answer.status == 303
        page.get_by_role("button", name="Pause", exact=True).click()
        expect(page.get_by_text("Connection lost")).to_be_visible()
        with site.client("ada") as client:
            assert client.job(job).state == "running", "a page of somebody who signed out paused a job"


def test_a_page_left_open_says_that_one_is_signed_out(browser: Browser, site: WebSite) -> None:
    with tab(browser, site, "ada") as ada:
        left_open = ada.go("/jobs")
        other = ada.context.new_page()
        other.goto(f"{site.url}/ui/")
        other.get_by_role("button", name="Sign out").click()
        expect(left_open.get_by_role("alert")).to_contain_text("You are signed out")
        expect(left_open).to_have_url(re.compile(r"/ui/sign-in\?ended=1&next=%2Fui%2Fjobs"))
        left_open.get_by_label("Access token").fill(site.people["ada"])
        left_open.keyboard.press("Enter")
        expect(left_open).to_have_url(f"{site.url}/ui/jobs")


def test_a_copied_cookie_is_dead_after_signing_out(browser: Browser, site: WebSite) -> None:
    with tab(browser, site, "ada") as ada:
        cookie = _cookie(ada)
        with httpx.Client(base_url=site.url, cookies={session_cookie(site.url): cookie}, trust_env=False) as thief:
            assert thief.get("/ui/jobs").status_code == 200
            ada.context.request.post(f"{site.url}/ui/sign-out", max_redirects=0)
            assert thief.get("/ui/jobs").status_code == 303
            assert thief.get("/ui/session").status_code == 401


def test_a_socket_comes_from_our_own_page_in_a_browser_that_is_signed_in(browser: Browser, site: WebSite) -> None:
    with tab(browser, site, "ada") as ada, tab(browser, site, "eve") as eve:
        page_id = _page_id(ada.go("/jobs"))
        eve.go("/jobs")
        mine, hers = _cookie(ada), _cookie(eve)
        refused: tuple[dict[str, str | None], ...] = (
            {"origin": site.url}, {"cookie": mine}, {"cookie": mine, "origin": "https://evil.example"},
            {"cookie": "made-up", "origin": site.url}, {"cookie": hers, "origin": site.url},
        )  # fmt: skip
        for shown in refused:
            with pytest.raises(InvalidStatus), socket(site, page_id, **shown):  # type: ignore[arg-type]
                pass
        with socket(site, page_id, cookie=mine, origin=site.url) as accepted:
            assert accepted.recv(timeout=10)


def test_a_socket_is_closed_by_signing_out_and_by_revoking(browser: Browser, site: WebSite) -> None:
    for ending in ("sign-out", "revoke"):
        made = site.ask(lambda client: client.make_token(name="bob", tenant="blue"))
        site.people["bob"] = made.secret or ""
        with tab(browser, site, "bob") as bob:
            page_id = _page_id(bob.go("/jobs"))
            with socket(site, page_id, cookie=_cookie(bob), origin=site.url) as opened:
                opened.recv(timeout=10)
                if ending == "sign-out":
                    bob.context.request.post(f"{site.url}/ui/sign-out", max_redirects=0)
                else:
                    site.ask(lambda client, token=made.id: client.revoke_token(token))
                with pytest.raises(ConnectionClosed):
                    _read_to_the_end(opened)


def test_a_socket_speaks_for_its_own_page_only(browser: Browser, site: WebSite) -> None:
    """Whoever is signed in and knows the id of somebody else's page cannot press its buttons."""
    job = site.submit("ada", steps=1000, resumable=True)
    with tab(browser, site, "ada") as ada, tab(browser, site, "eve") as eve:
        victim = ada.go(f"/jobs/{job}")
        expect(victim.get_by_role("button", name="Pause", exact=True)).to_be_visible()
        victim.evaluate("() => { window.sent = []; window.socket.emit = (...words) => { window.sent.push(words); }; }")
        victim.get_by_role("button", name="Pause", exact=True).click()
        message = victim.evaluate("window.sent.find(([name]) => name === 'event')[1]")
        assert message["client_id"] == _page_id(victim)
        eve.go("/jobs").evaluate("message => window.socket.emit('event', message)", message)
        eve.go("/nodes")
        with site.client("ada") as client:
            assert client.job(job).state == "running"


def test_sockets_of_strangers_do_not_pile_up(site: WebSite) -> None:
    refusals = 0
    for _ in range(100):
        try:
            with socket(site, "00000000-0000-0000-0000-000000000000", origin=site.url):
                pytest.fail("a stranger was let in")
        except InvalidStatus:
            refusals += 1
    assert refusals == 100


def test_the_sign_in_form_is_framed_by_nobody(site: WebSite) -> None:
    answer = httpx.get(f"{site.url}/ui/sign-in", trust_env=False)
    assert answer.headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
