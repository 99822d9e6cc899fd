"""What a person reads while the local server starts: one line at once, and one more where it takes long."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.client import local_server

Say = list[str]


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[int], Say]:
    """Start a server that answers after so many looks, and give back what was said."""

    def start(looks: int) -> Say:
        said: Say = []
        answers = iter([*[None] * looks, SimpleNamespace(url="here")])
        monkeypatch.setattr(local_server, "_start", lambda *_: SimpleNamespace(poll=lambda: None))
        monkeypatch.setattr(local_server, "_reachable", lambda _: next(answers))
        local_server.ensure_server(tmp_path, say=said.append, within_s=60.0)
        return said

    return start


def test_a_quick_start_is_one_line(starts: Callable[[int], Say], tmp_path: Path) -> None:
    (only,) = starts(2)
    assert str(tmp_path) in only


def test_a_slow_start_is_explained_once(starts: Callable[[int], Say], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_server, "_QUICK_START_S", 0.0)
    _, *more = starts(6)
    assert len(more) == 1
    assert "compiles its planning loops" in more[0]


def test_a_server_that_runs_is_found_in_silence(starts: Callable[[int], Say]) -> None:
    assert starts(0) == []
