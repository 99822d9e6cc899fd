"""Pages of the dashboard in a real browser, each in a profile of its own, signed in as somebody."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.tools.browser_calls import close
from tests.web.site import WebSite

PATIENCE_MS = 20_000
expect.set_options(timeout=PATIENCE_MS)
_HARMLESS = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "WebSocket is closed", "ERR_EMPTY_RESPONSE")
"""What a browser says of a server that is being restarted."""


@dataclass
class Tab:
    """One page of one person, and everything the browser complained about."""

    site: WebSite
    page: Page
    context: BrowserContext
    complaints: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))
        self.page.set_default_timeout(PATIENCE_MS)

    def go(self, path: str) -> Page:
        self.page.goto(f"{self.site.url}/ui{path}")
        expect(self.page.get_by_role("banner")).to_be_visible()
        expect(self.page.locator("#ps-first")).to_have_count(0)
        return self.page

    def sign_in(self, who: str) -> None:
        """As the form would, without opening it; the form has tests of its own."""
        form = {"token": self.site.people[who], "next": "/ui/"}
        answer = self.context.request.post(f"{self.site.url}/ui/sign-in", form=form, max_redirects=0)
        assert answer.status == 303

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning") and not any(word in message.text for word in _HARMLESS):
            self.complaints.append(message.text)


@contextmanager
def tab(browser: Browser, site: WebSite, who: str | None = "admin", **options: Any) -> Iterator[Tab]:
    """A fresh browser profile, signed in as somebody."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
    opened = Tab(site, context.new_page(), context)
    try:
        if who is not None:
            opened.sign_in(who)
        yield opened
    finally:
        close(context)
