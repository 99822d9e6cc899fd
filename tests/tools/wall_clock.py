"""A wall clock that a test sets, for every interpreter that is started while it exists."""

import os
from pathlib import Path

import pytest

FAKE_CLOCK = """
import os, time
_real = time.time
def _jumped():
    try:
        with open(os.environ.get("FAKE_CLOCK", "")) as file:
            return _real() + float(file.read() or 0)
    except OSError:
        return _real()
time.time = _jumped
"""
"""Runs before anything else in every interpreter that finds it on its path: agents and workers alike."""


class WallClock:
    """The clock on the wall of everything that is started while it exists."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._file = directory / "offset"
        (directory / "sitecustomize.py").write_text(FAKE_CLOCK)
        inherited = os.environ.get("PYTHONPATH", "")
        monkeypatch.setenv("PYTHONPATH", f"{directory}:{inherited}".rstrip(":"))
        monkeypatch.setenv("FAKE_CLOCK", str(self._file))

    def jump(self, seconds: float) -> None:
        draft = self._file.with_suffix(".new")
        draft.write_text(str(seconds))
        draft.rename(self._file)
