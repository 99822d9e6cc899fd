"""Clusters for tests: the control plane that a test run shares, and nodes of each test's own in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.kubernetes import ControlPlane, Testbed, opened_testbed


@pytest.fixture
def testbed(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Testbed]:
    """Two nodes with two devices each."""
    with opened_testbed(control_plane, tmp_path, [{"nvidia.com/gpu": "2"}] * 2) as found:
        yield found
