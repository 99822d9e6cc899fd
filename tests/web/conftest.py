"""One server and one browser for all pages: starting them takes longer than most of what they are asked."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.control.conftest import world
from tests.web.browsing import running_browser
from tests.web.site import WebSite

__all__ = ["world"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with running_browser() as found:
        yield found


@pytest.fixture(scope="session")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebSite]:
    site = WebSite(tmp_path_factory.mktemp("web"))
    try:
        site.open()
        yield site
    finally:
        site.close()


@pytest.fixture
def site(shared_site: WebSite) -> Iterator[WebSite]:
    yield shared_site
    shared_site.end_jobs()
