"""The local backend keeps every promise of a backend."""

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.backends import Backend, LocalBackend, fake_devices
from tests.backends.conformance import BackendConformance


class TestLocalBackend(BackendConformance):
    @pytest.fixture
    def opened(self, state_dir: Path) -> Callable[[], Backend]:
        return lambda: LocalBackend(state_dir, fake_devices(8))
