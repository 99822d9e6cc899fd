"""One server for all pages: starting it takes longer than most of what it is asked."""

from collections.abc import Iterator

import pytest

from tests.control.conftest import world
from tests.tools.plain_loops import plain_loops_in_servers
from tests.web.site import WebSite

__all__ = ["plain_loops_in_servers", "world"]


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
