"""Raw measurements of the profiles that ship. They lie beside the benchmarks, not in the package."""

from pathlib import Path

import pytest

_FOLDER = Path(__file__).parents[2] / "bench" / "measurements"


def measurements_of(device: str) -> Path:
    """The folder of one device; without a checkout a test that asks for it is skipped."""
    folder = _FOLDER / device
    if not folder.is_dir():
        pytest.skip(f"no {folder}: the raw measurements come with the repository only")
    return folder
