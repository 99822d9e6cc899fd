"""Who gets in, what keeps them in, and what throws them out."""

from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, expect

from penstock.control import session_cookie
from penstock.wire import UnauthorizedError
from tests.web.browsing import tab
from tests.web.site import WebSite

pytestmark = pytest.mark.xdist_group("browser")


def test_pages_lead_to_the_sign_in_form_and_back(browser: Browser, site: WebSite) -> None:
    with tab(browser, site, None) as stranger:
        page = stranger.page
        page.goto(f"{site.url}/ui/nodes")
        expect(page).to_have_url(f"{site.url}/ui/sign-in?next=%2Fui%2Fnodes")
        page.get_by_label("Access token").fill("penstock_not-a-token")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("This token is not valid")
        page.get_by_label("Access token").fill(site.people["admin"])
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("Nodes")


def test_the_front_page_is_the_dashboard(browser: Browser, site: WebSite) -> None:
    with tab(browser, site) as admin:
        admin.page.goto(site.url)
        expect(admin.page).to_have_url(f"{site.url}/ui/")


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(browser: Browser, site: WebSite) -> None:
    with tab(browser, site) as admin:
        cookie = next(one for one in admin.context.cookies() if one["name"] == session_cookie(site.url))
        assert cookie["httpOnly"] is True
        assert cookie["sameSite"] == "Lax"
        assert site.people["admin"] not in cookie["value"]
        forged = {**cookie, "value": cookie["value"][:-2] + ("aa" if cookie["value"][-2:] != "aa" else "bb")}
        admin.context.add_cookies([forged])
        admin.page.goto(f"{site.url}/ui/")
        expect(admin.page.get_by_role("button", name="Sign in")).to_be_visible()


def test_a_link_signs_in_once(browser: Browser, site: WebSite) -> None:
    with site.client("ada") as client:
        link = client.sign_in_link()
    with tab(browser, site, None) as ada, tab(browser, site, None) as thief:
        ada.page.goto(link)
        expect(ada.page.get_by_role("heading", level=1)).to_have_text("Cluster")
        expect(ada.page.get_by_text("ada · user · blue")).to_be_visible()
        thief.page.goto(link)
        expect(thief.page.get_by_role("alert")).to_contain_text("used before")


@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:1", "null"])
def test_another_sites_page_signs_nobody_in(site: WebSite, origin: str) -> None:
    with site.client("ada") as client, httpx.Client(base_url=site.url, trust_env=False) as victim:
        path = urlsplit(client.sign_in_link()).path
        form, headers = {"token": site.people["ada"]}, {"origin": origin}
        for answer in (
            victim.post("/ui/sign-in", data=form, headers=headers),
            victim.post(path, headers=headers),
            victim.get(path, headers={"sec-fetch-site": "cross-site"}),
        ):
            assert session_cookie(site.url) not in victim.cookies
            assert answer.status_code in (200, 403)
        assert victim.post("/ui/sign-in", data=form, headers={"origin": site.url}).status_code == 303


def test_a_link_replaces_no_session_without_asking(browser: Browser, site: WebSite) -> None:
    with site.client("eve") as client:
        theirs = client.sign_in_link()
    with site.client("ada") as client:
        own = client.sign_in_link()
    with tab(browser, site, "ada") as ada:
        page = ada.page
        page.goto(theirs)
        expect(page.get_by_text("You are signed in as ada")).to_be_visible()
        page.goto(own)
        expect(page.get_by_text("ada · user · blue")).to_be_visible()
        page.goto(theirs)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_text("eve · user · red")).to_be_visible()
        assert ada.complaints == []


def test_signing_out(browser: Browser, site: WebSite) -> None:
    with tab(browser, site) as admin:
        admin.go("/").get_by_role("button", name="Sign out").click()
        expect(admin.page.get_by_role("button", name="Sign in")).to_be_visible()
        admin.page.goto(f"{site.url}/ui/jobs")
        expect(admin.page.get_by_role("button", name="Sign in")).to_be_visible()


def test_revoking_a_token_ends_an_open_page(browser: Browser, site: WebSite) -> None:
    made = site.ask(lambda client: client.make_token(name="bob", tenant="blue"))
    site.people["bob"] = made.secret or ""
    with tab(browser, site, "bob") as bob:
        bob.go("/jobs")
        site.ask(lambda client: client.revoke_token(made.id))
        expect(bob.page.get_by_role("button", name="Sign in")).to_be_visible()
    with site.client("bob") as client, pytest.raises(UnauthorizedError):
        client.jobs()
