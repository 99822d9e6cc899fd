"""Small trace files, and the public ones where they are at hand."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tools import needs

from penstock.core import Curve
from penstock.simulate.traces import Profiles

WriteFile = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> WriteFile:
    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


@pytest.fixture
def public() -> Callable[[str], Path]:
    """A file or directory of the public data set, skipping the test where it was not downloaded."""
    return needs.public_data


@pytest.fixture
def profiles() -> Profiles:
    """Two models: one runs anywhere up to 8 devices, the other needs between 4 and 16."""
    return Profiles(
        "test",
        {
            ("small", 32): Curve.from_table({1: 10.0, 2: 18.0, 4: 30.0, 8: 40.0}),
            ("small", 64): Curve.from_table({1: 5.0, 2: 9.5, 4: 17.0, 8: 28.0}),
            ("wide", 128): Curve.from_table({4: 2.0, 8: 3.5, 16: 6.0}),
        },
    )
