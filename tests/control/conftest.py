"""Fixtures of the live platform's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control.build import Platform, platform
from tests.tools.plain_loops import plain_loops_in_servers

__all__ = ["plain_loops_in_servers", "world"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Platform]:
    with platform(tmp_path) as built:
        yield built
