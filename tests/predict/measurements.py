"""Raw measurements of the profiles that ship. They lie beside the benchmarks, not in the package."""

from functools import cache
from pathlib import Path

from penstock.predict.lab.records.measurements import Measurements, read_measurements
from tests.tools import needs

_FOLDER = Path(__file__).parents[2] / "bench" / "measurements"


def measurements_of(device: str) -> Path:
    """The folder of one device; without a checkout a test that asks for it is skipped."""
    folder = _FOLDER / device
    if not folder.is_dir():
        needs.skip(f"there is no {folder}", "make test in a clone of the repository, which holds the measurements")
    return folder


@cache
def recorded(device: str) -> tuple[Measurements, ...]:
    """All runs on one device, read once: that takes longer than most of what is asked of them."""
    return read_measurements(measurements_of(device))
