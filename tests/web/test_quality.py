"""What every page owes everybody: names, landmarks, contrast, a phone's width, no errors, nothing from elsewhere."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, expect

from tests.web.browsing import Tab, tab
from tests.web.site import WebSite

pytestmark = pytest.mark.xdist_group("browser")
AUDIT = Path(__file__).with_name("audit.js").read_text()
PAGES = (
    "/",
    "/jobs",
    "/jobs/{job}",
    "/submit",
    "/tenants",
    "/tokens",
    "/nodes",
    "/what-if",
    "/compare?jobs={job}",
    "/jobs/j-nobody",
)


@pytest.fixture(scope="module")
def job(shared_site: WebSite) -> Iterator[str]:
    """A running job, so that there is something to see on every page."""
    yield shared_site.submit("admin", steps=4000, name="shown", deadline="5h")
    shared_site.end_jobs()


def settled(visitor: Tab, path: str) -> None:
    """On a page, with its connection open and its charts drawn."""
    page = visitor.go(path)
    page.wait_for_function("() => window.socket?.connected ?? true")
    expect(page.locator("figure .nicegui-echart:visible:not(:has(svg))")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_readable_and_quiet(
    browser: Browser, shared_site: WebSite, job: str, scheme: Literal["light", "dark"]
) -> None:
    found: dict[str, list[str]] = {}
    with tab(browser, shared_site, color_scheme=scheme) as admin:
        for path in PAGES:
            settled(admin, path.format(job=job))
            found[path] = admin.page.evaluate(AUDIT)
        assert {path: complaints for path, complaints in found.items() if complaints} == {}
        assert [one for one in admin.complaints if "404" not in one] == []
        assert admin.hosts == {shared_site.url.removeprefix("http://")}, "nothing may come from elsewhere"


def test_the_sign_in_form_is_readable(browser: Browser, shared_site: WebSite) -> None:
    for scheme in ("light", "dark"):
        with tab(browser, shared_site, None, color_scheme=scheme) as stranger:
            stranger.page.goto(f"{shared_site.url}/ui/sign-in")
            complaints = stranger.page.evaluate(AUDIT)
            assert [one for one in complaints if one not in ("no header", "no nav")] == []


def test_no_page_is_wider_than_a_phone(browser: Browser, shared_site: WebSite, job: str) -> None:
    with tab(browser, shared_site) as phone:
        phone.page.set_viewport_size({"width": 360, "height": 740})
        for path in PAGES:
            settled(phone, path.format(job=job))
            wider = phone.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wider <= 0, f"{path} is {wider} pixels too wide"


def test_a_phone_finds_its_way(browser: Browser, shared_site: WebSite) -> None:
    with tab(browser, shared_site) as phone:
        phone.page.set_viewport_size({"width": 360, "height": 740})
        phone.go("/")
        phone.page.get_by_role("button", name="Navigation").click()
        phone.page.get_by_role("link", name="Nodes").click()
        expect(phone.page.get_by_role("heading", level=1)).to_have_text("Nodes")


def test_the_keyboard_is_enough(browser: Browser, shared_site: WebSite) -> None:
    with tab(browser, shared_site) as admin:
        page = admin.go("/")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        for _ in range(12):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.textContent").strip().endswith("Jobs"):
                break
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")


NAME_OF = """const nameOf = e => [e.tagName, e.getAttribute("href") ?? "", e.getAttribute("aria-label") ?? "",
  e.tagName === "PRE" ? "" : e.textContent.trim().slice(0, 40)].join(" ");"""
"""What a control is called; output that goes on meanwhile is no part of it."""
CONTROLS = f"""() => {{ {NAME_OF}
  return [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")]
    .filter(e => !e.disabled && e.tabIndex >= 0 && e.checkVisibility({{visibilityProperty: true}}) && !e.closest("svg"))
    .map(nameOf); }}"""
FOCUSED = f"""() => {{ {NAME_OF}
  const e = document.activeElement;
  const seen = getComputedStyle(e).outlineStyle !== "none" || e.closest(".q-btn, .q-field, .q-checkbox, .q-toggle");
  return [nameOf(e), Boolean(seen) || e === document.body]; }}"""


def test_every_control_is_reached_with_the_keyboard_and_shows_it(
    browser: Browser, shared_site: WebSite, job: str
) -> None:
    """By name, because what is listed is drawn anew while one goes through it."""
    with tab(browser, shared_site) as admin:
        for path in PAGES:
            settled(admin, path.format(job=job))
            controls, reached = admin.page.evaluate(CONTROLS), set[str]()
            for _ in range(len(controls) + 4):
                admin.page.keyboard.press("Tab")
                name, shown = admin.page.evaluate(FOCUSED)
                reached.add(name)
                assert shown, f"{path}: nothing shows the focus on {name}"
            assert [name for name in controls if name not in reached] == [], f"{path}: not reached with the keyboard"


def test_dark_is_remembered(browser: Browser, shared_site: WebSite) -> None:
    with tab(browser, shared_site) as admin:
        page = admin.go("/")
        page.get_by_role("button", name="Light or dark").click()
        page.get_by_text("Dark", exact=True).click()
        expect(page.locator("body.body--dark")).to_be_attached()
        admin.go("/jobs")
        expect(page.locator("body.body--dark")).to_be_attached()
