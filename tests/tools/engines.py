"""The browser that some tests drive.

It is Debian's Chromium, driven by Playwright, which brings no browser of its own here. A process can hold one
Playwright at a time, so all tests share the browser of the fixture in ``tests/conftest.py``, until it falls silent.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.tools.needs import engine

if TYPE_CHECKING:
    from playwright.sync_api import Browser

BROWSER_FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip


class SharedBrowser:
    """The browser that tests share; after one that did not answer, the next test gets a new one."""

    def __init__(self, launch: Callable[[], "Browser"], silent: list[str]) -> None:
        self._launch = launch
        self.silent = silent
        self._browser: Browser | None = None

    def get(self) -> "Browser":
        if self.silent or self._browser is None or not self._browser.is_connected():
            self.close()
            self.silent.clear()
            self._browser = self._launch()
        return self._browser

    def close(self) -> None:
        from tests.tools.browser_calls import close

        if self._browser is not None:
            close(self._browser)  # one that is silent here too is ended by the guard of the run
            self._browser = None


@contextmanager
def shared_browser() -> Iterator[SharedBrowser]:
    from playwright.sync_api import sync_playwright

    from tests.tools.browser_calls import limited_calls

    named = os.environ.get("PENSTOCK_CHROMIUM")
    program = engine(*([named] if named else []), "chromium", "chromium-browser", "google-chrome")
    with limited_calls() as silent, sync_playwright() as tool, TemporaryDirectory(ignore_cleanup_errors=True) as home:
        env = {**os.environ, "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home}  # nothing in the user's own home
        launch = partial(tool.chromium.launch, executable_path=program, args=list(BROWSER_FLAGS), env=env)
        shared = SharedBrowser(launch, silent)
        try:
            yield shared
        finally:
            shared.close()
