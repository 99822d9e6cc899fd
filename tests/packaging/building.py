"""The wheel as a release would build it, from this checkout and without the network."""

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def build_wheel(folder: Path) -> Path:
    """Build the wheel into ``folder`` with the build backend that pyproject.toml names."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, timeout=300)
    (wheel,) = folder.glob("penstock-*.whl")
    return wheel
