"""What holds for all tests: a slow machine is no failure, a background shell neither, and nothing is left running.

Generated examples are the same in every run, so that the same code gets the same verdict; ``make test-search`` looks
for new ones.
"""

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.tools.engines import SharedBrowser, shared_browser

pytest_plugins = ["tests.tools.run_hooks"]
os.environ.setdefault("OMP_NUM_THREADS", "1")
"""Every core has two test processes: threads of a matrix product would only wait for each other, and spin meanwhile."""
sys.dont_write_bytecode = False
"""Rewriting the assertions of all tests takes many seconds, in each worker; the next one finds them on the disk."""
settings.register_profile("penstock", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("penstock")

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.tools.kubernetes import ControlPlane


@pytest.fixture(scope="session")
def browsers() -> Iterator[SharedBrowser]:
    with shared_browser() as found:
        yield found


@pytest.fixture
def browser(browsers: SharedBrowser) -> "Browser":
    return browsers.get()


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> "ControlPlane":
    """A real Kubernetes, without nodes; one for all processes of a test run."""
    from tests.tools.kubernetes import shared_control_plane

    base = tmp_path_factory.getbasetemp()
    return shared_control_plane((base.parent if hasattr(request.config, "workerinput") else base) / "control-plane")
