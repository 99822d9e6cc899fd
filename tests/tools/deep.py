"""What a job may leave behind to be a nuisance."""

import os
from pathlib import Path


def nested(place: Path, levels: int) -> None:
    """Make directories in each other, deeper than any path can say."""
    place.mkdir(parents=True, exist_ok=True)
    here = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
