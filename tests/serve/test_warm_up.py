"""Planning loops are ready before the first request, and a log that waits for a compiler says so."""

import logging

import pytest

from penstock.serve import warm_up
from tests.control.serving import until


def test_a_long_compilation_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, warm_up.__name__)
    monkeypatch.setattr(warm_up, "_READ_WITHIN_S", 0.0)
    monkeypatch.setattr(warm_up, "simulate", lambda *_, **__: until(lambda: caplog.messages, "a line in the log"))
    warm_up.load_loops("deadline")
    assert caplog.messages == ["compiling planning loops; later starts find them on the disk"]


def test_loops_that_are_there_are_no_news(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, warm_up.__name__)
    monkeypatch.setattr(warm_up, "_READ_WITHIN_S", 600.0)
    warm_up.load_loops("deadline")
    assert caplog.messages == []
