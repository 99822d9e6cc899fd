"""What holds for all tests: a slow machine is no failure, a background shell neither, and nothing is left running.

Generated examples are the same in every run, so that the same code gets the same verdict; ``make test-search`` looks
for new ones.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.tools.engines import SharedBrowser, shared_browser
from tests.tools.processes import Guard, hear_interrupts_again

settings.register_profile("penstock", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("penstock")

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_GUARD = pytest.StashKey[Guard]()


def pytest_configure(config: pytest.Config) -> None:
    hear_interrupts_again()
    if not hasattr(config, "workerinput"):
        config.stash[_GUARD] = Guard()


def pytest_unconfigure(config: pytest.Config) -> None:
    guard = config.stash.get(_GUARD, None)
    if guard is not None:
        guard.end()


@pytest.fixture(scope="session")
def browsers() -> Iterator[SharedBrowser]:
    with shared_browser() as found:
        yield found


@pytest.fixture
def browser(browsers: SharedBrowser) -> "Browser":
    return browsers.get()
