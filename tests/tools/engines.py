"""Real programs that some tests drive. Without them such a test is skipped, or fails where they are required.

The browser is Debian's Chromium, driven by Playwright, which brings no browser of its own here. A process can hold one
Playwright at a time, so all tests share the browser of the fixture in ``tests/conftest.py``.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

REQUIRED = "PENSTOCK_REQUIRE_ENGINES"
BROWSER_FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip


def engine(*names: str) -> str:
    """The path of the first of these programs that is installed."""
    for name in names:
        if (found := shutil.which(name)) is not None:
            return found
    complaint = f"{' or '.join(names)} is not installed; tests/tools/install-engines installs it"
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(complaint)
    pytest.skip(complaint)


@contextmanager
def running_browser() -> Iterator["Browser"]:
    from playwright.sync_api import sync_playwright

    named = os.environ.get("PENSTOCK_CHROMIUM")
    program = engine(*([named] if named else []), "chromium", "chromium-browser", "google-chrome")
    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=program, args=list(BROWSER_FLAGS))
        try:
            yield browser
        finally:
            browser.close()
