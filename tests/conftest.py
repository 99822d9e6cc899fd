"""What holds for all tests: a slow machine is no failure, a background shell neither, and nothing is left running.

Generated examples are the same in every run, so that the same code gets the same verdict; ``make test-search`` looks
for new ones.
"""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.tools.engines import SharedBrowser, shared_browser

pytest_plugins = ["tests.tools.run_hooks"]
sys.dont_write_bytecode = False
"""Rewriting the assertions of all tests takes many seconds, in each worker; the next one finds them on the disk."""
settings.register_profile("penstock", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("penstock")

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def browsers() -> Iterator[SharedBrowser]:
    with shared_browser() as found:
        yield found


@pytest.fixture
def browser(browsers: SharedBrowser) -> "Browser":
    return browsers.get()
