"""The command line in this process: the real verbs against a real API whose time the test turns."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.control.build import Platform, platform
from tests.control.serving import Served, serving
from tests.tools import commandline


@dataclass(frozen=True)
class Done:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


Penstock = Callable[..., Done]


@pytest.fixture
def penstock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Penstock:
    """Type ``penstock`` and some words, in an empty folder and with an empty data directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("PENSTOCK_SERVER", raising=False)

    def run(*words: str) -> Done:
        ended = commandline.penstock(*words)
        return Done(ended.returncode, ended.stdout, ended.stderr)

    return run


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with platform(tmp_path) as world, serving(world, requests_per_s=1e6, burst=10**6) as running:
        yield running


@pytest.fixture
def world(served: Served, monkeypatch: pytest.MonkeyPatch, penstock: Penstock) -> Platform:
    """A platform that every command talks to, as its admin."""
    monkeypatch.setenv("PENSTOCK_SERVER", served.url)
    monkeypatch.setenv("PENSTOCK_TOKEN", served.secrets["admin"])
    return served.world


@pytest.fixture
def as_eve(served: Served, world: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same platform, seen by somebody of another tenant."""
    monkeypatch.setenv("PENSTOCK_TOKEN", served.secrets["eve"])
