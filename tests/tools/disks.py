"""A small file system of its own, to be filled, emptied and made read-only."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest

from tests.tools import needs


class Disk:
    """A real file system of half a megabyte."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        with self._ballast.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(1024))

    def use_up_inodes(self) -> None:
        with suppress(OSError):
            for number in count():
                (self.path / f"ballast.{number}").touch()

    def free(self) -> None:
        for ballast in self.path.glob("ballast*"):
            ballast.unlink()

    def remount(self, option: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{option}", str(self.path)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with mounted(tmp_path / "disk", "512k") as small:
        yield small


@contextmanager
def mounted(place: Path, size: str) -> Iterator[Disk]:
    """A file system in memory, at a place that is not there yet."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},nr_inodes=100", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        needs.skip("no file system may be mounted here", f"{needs.ROOT}, with the capability to mount")
    try:
        yield Disk(place)
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
