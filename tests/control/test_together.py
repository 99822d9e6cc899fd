"""Many who submit at once: one commit for all of them, every one of them once."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from penstock.control.platform.commands import Ticket
from penstock.control.state.entries import Ticked
from penstock.control.state.group_commit import RUSH_S, GroupCommit, Request
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


class _Turns:
    """A lock that counts how often somebody leads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.taken = 0

    def __enter__(self) -> None:
        self._lock.acquire()
        self.taken += 1

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_in_a_rush_commits_are_a_moment_apart_and_nobody_alone_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, batches, pauses = _Turns(), list[int](), list[float]()
    group = GroupCommit(turns, lambda requests: batches.append(len(requests)))
    monkeypatch.setattr("penstock.control.state.group_commit.time.sleep", pauses.append)
    request = Request(Ticked(at=0.0))
    group.record(lambda: request)
    group.record(lambda: request)
    assert batches == [1, 1]
    assert pauses == [0.0, 0.0]
    with ThreadPoolExecutor(3) as pool:
        with turns:
            futures = [pool.submit(group.record, lambda: request) for _ in range(3)]
            _until(lambda: group.waiting == 3)
        for future in futures:
            future.result()
    group.record(lambda: request)
    assert batches == [1, 1, 3, 1]
    assert 0.0 < pauses[-1] <= RUSH_S
    group.record(lambda: request)
    assert pauses[-1] == 0.0
