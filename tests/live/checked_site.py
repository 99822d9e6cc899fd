"""A server whose configuration a test writes, and jobs that ask for checks of their nodes there."""

import sys
from pathlib import Path
from typing import Any

import penstock
from tests.live.site import OVER, Site, until

PACKAGE = Path(penstock.__file__).parents[1]
TOO_FEW_FILES = ["prlimit", "--nofile=1024:1024"]
"""In front of a command: a real failure of a real check."""
NOT_FIT = "open files: 1024, expected at least 4096"
"""What the check says of that."""


class CheckedSite(Site):
    """``configuration`` is the server's penstock.toml."""

    def __init__(self, folder: Path, configuration: str) -> None:
        super().__init__(folder, slots=0)
        self.data.mkdir(mode=0o700)
        (self.data / "penstock.toml").write_text(configuration)

    def options(self) -> list[str]:
        return []

    def submit(self, **more: Any) -> str:
        spec = {
            "command": [self.python(), "-c", "print('trained')"], "work": "10 steps", "devices": 1, "profile": "never",
            "environment": {"working_dir": str(self.folder)}, **more,
        }  # fmt: skip
        return self.ask(lambda client: client.submit(spec)).job.id

    def python(self, before: str = "") -> str:
        """One that sees the standard library and this package, so that a check takes a moment."""
        return small_python(self.folder / f"job{len(before)}", before)

    def outcome(self, job_id: str) -> str:
        return until(lambda: self.state(job_id) in OVER and self.state(job_id), f"the end of {job_id}")

    def state(self, job_id: str) -> str:
        return self.ask(lambda client: client.job(job_id)).state

    def story(self, job_id: str) -> str:
        return "\n".join(note.text for note in self.ask(lambda client: client.why(job_id)).entries)

    def log(self, job_id: str) -> str:
        """All of its runs, so far."""
        return "".join(piece.text for piece in self.ask(lambda client: [*client.follow_logs(job_id, until_now=True)]))


def small_python(folder: Path, before: str = "") -> str:
    """An interpreter without site-packages that sees this package; ``before`` is done by a shell first."""
    return _python(folder, f"{before}\nPYTHONPATH={PACKAGE} exec {sys.executable} -S")


def whole_python(folder: Path) -> str:
    """One with everything that is installed, PyTorch included, and this package."""
    return _python(folder, f"PYTHONPATH={PACKAGE} exec {sys.executable}")


def _python(folder: Path, words: str) -> str:
    place = folder / "python3"
    folder.mkdir(exist_ok=True)
    place.write_text(f'#!/bin/sh\n{words} "$@"\n')
    place.chmod(0o755)
    return str(place)
