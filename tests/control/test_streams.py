"""Server-sent events: nothing is missed, nothing comes twice, and a broken connection goes on where it was."""

import asyncio
import threading
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any, cast

import pytest

from penstock.control.api.streams import SharedReads, StreamWakeups
from penstock.control.platform.job_logs import JobOutput, LogCursor
from penstock.core import InputError
from penstock.wire import MissingError
from penstock.wire.views import EventView
from tests.control.build import Platform
from tests.control.serving import Served, serving, until
from tests.tools import coroutines


@pytest.fixture
def served(world: Platform) -> Iterator[Served]:
    with serving(world) as running:
        yield running


def test_events_come_as_they_happen_and_resume_where_they_broke_off(served: Served) -> None:
    with served.client() as client:
        before = served.world.journal.seq
        heard: list[EventView] = []
        done = threading.Event()

        def listen() -> None:
            with served.client() as listener:
                heard.extend(islice(listener.follow_events(after=before), 3))
            done.set()

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        job_id = client.submit({"work": 100}).job.id
        served.world.passes(2)
        served.world.passes(30)
        until(done.is_set, "three events")
        thread.join()
        assert [event.kind for event in heard] == ["Submitted", "Decided", "Launched"]
        assert [event.seq for event in heard] == [before + 1, before + 2, before + 3]
        with served.http() as http:
            header = {"Last-Event-ID": str(before + 1)}
            with http.stream("GET", "/v1/events/stream", headers=header) as response:
                first = next(line for line in response.iter_lines() if line.startswith("id:"))
        assert first == f"id: {before + 2}"
        assert {event.job_id for event in heard if event.kind != "Decided"} == {job_id}


def test_a_user_hears_only_of_its_own_jobs(served: Served) -> None:
    with served.client("ada") as ada, served.client("eve") as eve:
        start = served.world.journal.seq
        eve.submit({"work": 100})
        mine = ada.submit({"work": 100}).job.id
        event = next(iter(ada.follow_events(after=start)))
        assert event.job_id == mine


def test_logs_are_paged_across_runs(served: Served) -> None:
    world = served.world
    with served.client() as client:
        job_id = client.submit({"work": 100}).job.id
        world.passes(3)
        world.backend.output[f"{job_id}.1"] = b"one\ntwo\n"
        world.backend.fail(f"{job_id}.1")
        world.passes(5)
        world.backend.output[f"{job_id}.2"] = "drei ü\n".encode()
        page = client.logs(job_id, limit=4)
        assert (page.text, page.complete) == ("one\n", False)
        rest = [page := client.logs(job_id, cursor=page.next), client.logs(job_id, cursor=page.next)]
        assert [part.text for part in rest] == ["two\n", "[run 2 of this job]\ndrei ü\n"]
        last = client.logs(job_id, cursor=rest[-1].next)
        assert (last.text, last.next, last.complete) == ("", rest[-1].next, False)
        client.cancel(job_id)
        assert client.logs(job_id, cursor=last.next).complete
        with served.http() as http:
            assert http.get(f"/v1/jobs/{job_id}/logs?cursor=x").status_code == 422
            assert http.get(f"/v1/jobs/{job_id}/logs?cursor=-1:0").status_code == 422


def test_logs_are_followed_to_the_end_and_resumed_from_any_piece(served: Served) -> None:
    world = served.world
    with served.client() as client:
        job_id = client.submit({"work": 100}).job.id
        world.passes(3)
        world.backend.output[f"{job_id}.1"] = b"first\n"
        pieces: list[Any] = []

        def listen() -> None:
            with served.client() as listener:
                pieces.extend(listener.follow_logs(job_id))

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        world.backend.output[f"{job_id}.1"] += b"second\n"
        world.passes(40)
        thread.join(20)
        assert not thread.is_alive(), "the stream of a finished job does not end"
        assert "".join(piece.text for piece in pieces) == "first\nsecond\n"
        again = list(client.follow_logs(job_id, cursor="0:6"))
        assert [piece.text for piece in again] == ["second\n"]
        with pytest.raises(MissingError):
            list(client.follow_logs("j-nothing"))


def test_a_long_log_comes_in_one_answer_as_far_as_it_goes_now(served: Served) -> None:
    world = served.world
    with served.client() as client:
        job_id = client.submit({"work": 100}).job.id
        world.passes(3)
        text = "".join(f"line {k} of a long log\n" for k in range(100_000))
        world.backend.output[f"{job_id}.1"] = text.encode()
        pieces = list(client.follow_logs(job_id, until_now=True))
        assert "".join(piece.text for piece in pieces) == text
        assert len(pieces) < 20
        world.backend.output[f"{job_id}.1"] += b"more\n"
        later = client.follow_logs(job_id, cursor=pieces[-1].cursor, until_now=True)
        assert "".join(piece.text for piece in later) == "more\n"


def test_open_streams_end_when_the_server_stops(world: Platform) -> None:
    ended = threading.Event()
    with serving(world) as served:
        opened = threading.Event()

        def listen() -> None:
            with served.http() as http, http.stream("GET", "/v1/events/stream") as response:
                for _ in response.iter_lines():
                    opened.set()
            ended.set()

        threading.Thread(target=listen, daemon=True).start()
        until(opened.is_set, "the stream")
    until(ended.is_set, "the end of the stream")


def test_what_many_streams_want_at_once_is_read_once() -> None:
    calls: list[str] = []

    def slow() -> str:
        calls.append("read")
        time.sleep(0.05)
        return "page"

    def broken() -> str:
        raise InputError("no worker w9", "w0")

    async def everybody() -> None:
        reads = SharedReads()
        assert await asyncio.gather(*(reads.read("end", slow) for _ in range(50))) == ["page"] * 50
        assert await reads.read("elsewhere", slow) == "page"
        refused = await asyncio.gather(*(reads.read("broken", broken) for _ in range(3)), return_exceptions=True)
        assert [type(error) for error in refused] == [InputError] * 3
        await asyncio.sleep(0.3)
        assert not reads._reads, "what was read is kept for ever"

    coroutines.run(everybody())
    assert calls == ["read", "read"]


def test_many_wait_for_news_and_one_of_them_looks() -> None:
    pages = iter(["", "", "", "news"])
    calls: list[str] = []

    def page() -> str:
        calls.append(next(pages))
        return calls[-1]

    async def follow() -> None:
        reads = SharedReads()
        assert await asyncio.gather(*(reads.read("end", page, bool) for _ in range(50))) == ["news"] * 50
        assert calls == ["", "", "", "news"]

    coroutines.run(follow())


def test_who_waits_for_news_is_woken_when_somebody_rings() -> None:
    wakeups = StreamWakeups()

    async def follow() -> None:
        waiting = asyncio.ensure_future(SharedReads(wakeups).read("end", str, bool, patient=True))
        while not wakeups._sleeping:
            await asyncio.sleep(0)
        wakeups.ring()
        assert await waiting == ""

    coroutines.run(follow())


def test_another_run_and_output_that_was_dropped_are_lines_of_their_own() -> None:
    class Backend:
        def logs(self, run: str, _: str | None, offset: int, limit: int) -> tuple[bytes, int]:
            kept = {"r1": (0, b"one\n"), "r2": (2_000_000, b"two\n")}
            start, data = kept[run]
            begins = max(offset, start)
            return data[begins - start :][:limit], start + len(data)

    output = JobOutput(backend=cast("Any", Backend()), runs=("r1", "r2"), over=True)
    first = output.page(worker=None, cursor=LogCursor(), limit=100)
    second = output.page(worker=None, cursor=LogCursor.parse(first.next), limit=100)
    assert first.text == "one\n"
    assert second.text == "[run 2 of this job]\n[2.0MB of older output were dropped here]\ntwo\n"
    assert output.page(worker=None, cursor=LogCursor.parse(second.next), limit=100).complete
