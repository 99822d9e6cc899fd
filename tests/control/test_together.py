"""Many who submit at once: one commit for all of them, every one of them once."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from penstock.control.platform.commands import Ticket
from penstock.control.state.store import Key, Line
from penstock.wire.problems import ConflictError
from tests.control.build import ADMIN, Platform, platform


def at_once(world: Platform, *actions: Callable[[], Ticket]) -> list[Ticket | Exception]:
    """All of them wait for the lock before the first can write."""
    with ThreadPoolExecutor(len(actions)) as pool:
        with world.journal.lock:
            futures = [pool.submit(action) for action in actions]
            _until(lambda: world.journal.group.waiting == len(actions))
        return [future.exception() or future.result() for future in futures]  # type: ignore[misc]


def _until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("nobody came")


def test_all_are_written_in_one_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with platform(tmp_path) as world:
        log, commits = world.journal.store.log, list[int]()
        append = log.append
        monkeypatch.setattr(log, "append", lambda *lines, **more: commits.append(len(lines)) or append(*lines, **more))
        tickets = at_once(world, *(lambda: world.commands.submit({"work": 100}, ADMIN) for _ in range(6)))
        assert commits == [7], "six submissions and what was decided about them"
        assert {ticket.job_id for ticket in tickets} == set(world.journal.state.jobs)  # type: ignore[union-attr]
        world.restart()
        assert len(world.journal.state.jobs) == 6


def test_the_same_key_at_the_same_time_is_one_job(tmp_path: Path) -> None:
    with platform(tmp_path) as world:
        key = Key(tenant="default", key="k", fingerprint="same")
        tickets = at_once(world, *(lambda: world.commands.submit({"work": 100}, ADMIN, key) for _ in range(4)))
        assert len({ticket.job_id for ticket in tickets}) == 1  # type: ignore[union-attr]
        assert sorted(ticket.again for ticket in tickets) == [False, True, True, True]  # type: ignore[union-attr]
        assert len(world.journal.state.jobs) == 1


def test_one_that_is_refused_does_not_harm_the_others(tmp_path: Path) -> None:
    with platform(tmp_path) as world:
        same, other = (Key(tenant="default", key="k", fingerprint=text) for text in ("same", "other"))
        answers = at_once(
            world,
            lambda: world.commands.submit({"work": 100}, ADMIN, same),
            lambda: world.commands.submit({"work": 200}, ADMIN, other),
            lambda: world.commands.submit({"work": 300}, ADMIN),
        )
        refused = [answer for answer in answers if isinstance(answer, ConflictError)]
        assert len(refused) == 1
        assert len(world.journal.state.jobs) == 2


def test_a_disk_that_fails_is_told_to_everyone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError("no space left on device")

    with platform(tmp_path) as world:
        monkeypatch.setattr(world.journal.store.log, "append", full)
        answers = at_once(world, *(lambda: world.commands.submit({"work": 100}, ADMIN) for _ in range(3)))
        assert [str(answer) for answer in answers] == ["no space left on device"] * 3
        assert world.journal.state.jobs == {}


def test_whoever_is_written_does_not_wait_for_the_next_leader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the second group is being written, the members of the first have their answers."""
    with platform(tmp_path) as world, ThreadPoolExecutor(4) as pool:
        append, second, written = world.journal.store.log.append, threading.Event(), list[int]()

        def slow(*lines: Line, **more: Any) -> int:
            written.append(len(lines))
            if len(written) == 2:
                assert second.wait(60)
            return append(*lines, **more)

        monkeypatch.setattr(world.journal.store.log, "append", slow)
        with world.journal.lock:
            first = [pool.submit(world.commands.submit, {"work": 100}, ADMIN) for _ in range(3)]
            _until(lambda: world.journal.group.waiting == 3)
        for future in first:
            assert future.result(60).job_id
        late = pool.submit(world.commands.submit, {"work": 100}, ADMIN)
        _until(lambda: len(written) == 2)
        assert not late.done()
        second.set()
        assert late.result(60).job_id
