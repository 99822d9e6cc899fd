"""One server for all pages: starting it takes longer than most of what it is asked."""

import signal
from collections.abc import Iterator
from types import FrameType

import pytest

from tests.control.conftest import world
from tests.web.site import WebSite

__all__ = ["world"]


@pytest.fixture(scope="session")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebSite]:
    site = WebSite(tmp_path_factory.mktemp("web"))
    try:
        site.open()
        yield site
    finally:
        site.close()


LONGEST_S = 240
"""Some questions to a browser have no time limit of their own; a test that waits longer fails and says where."""


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"the test has waited for {LONGEST_S} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(LONGEST_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def site(shared_site: WebSite) -> Iterator[WebSite]:
    yield shared_site
    shared_site.end_jobs()
