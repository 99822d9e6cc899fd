"""Calls in processes of their own."""

import os
import signal
import time

import pytest

from penstock.predict.lab.measuring import isolated_call as module
from penstock.predict.lab.measuring.isolated_call import isolated_call


def test_a_call_apart_returns_what_it_returns_and_leaves_this_process_alone() -> None:
    kept: list[int] = []

    def work() -> int:
        kept.append(1)
        return os.getpid()

    assert isolated_call(work) != os.getpid()
    assert not kept


def test_what_a_call_apart_raises_is_raised_here() -> None:
    def work() -> None:
        raise ValueError("no such shape")

    with pytest.raises(ValueError, match="no such shape"):
        isolated_call(work)


def test_a_process_that_dies_or_hangs_is_an_error_and_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="without an answer"):
        isolated_call(lambda: os.kill(os.getpid(), signal.SIGKILL))
    monkeypatch.setattr(module, "_PATIENCE_S", 0.1)
    with pytest.raises(RuntimeError, match=r"no answer within 0\.1 s"):
        isolated_call(lambda: time.sleep(60))
