"""No input is answered with a fault of ours, and after a refusal the connection is as good as before."""

import json
import logging
import math
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy.exc import OperationalError

from penstock.core import InputError
from penstock.wire import TooManyError, UnauthorizedError
from tests.control.build import Platform
from tests.control.serving import Served, leave_one_tenant, serving, until


def _run(served: Served, job: str) -> str:
    return served.world.record(job).runs[-1]


HUGE = str(10**30)


@pytest.fixture
def served(world: Platform) -> Iterator[Served]:
    with serving(world) as running:
        yield running


@pytest.fixture
def job(served: Served) -> str:
    with served.client() as client:
        found = client.submit({"work": 100}).job.id
    served.world.passes(2)
    return found


PATHS = (
    f"/v1/events?after={HUGE}", f"/v1/events/stream?after={HUGE}", f"/v1/jobs/JOB/events?after={HUGE}",
    f"/v1/jobs/JOB/logs?cursor={HUGE}:0", f"/v1/jobs/JOB/logs?cursor=0:{HUGE}",
    f"/v1/jobs/JOB/logs/stream?cursor=0:{HUGE}", "/v1/jobs/JOB/logs?cursor=0:" + "9" * 5000,
    f"/v1/jobs?cursor={HUGE}", f"/v1/audit?before={HUGE}", "/v1/jobs/%00", "/v1/jobs?name=%00", "/v1/jobs?tenant=%00",
    "/v1/jobs?state=%00", "/v1/jobs/JOB/logs?worker=%00", "/v1/jobs/JOB/logs/stream?worker=%00",
    "/v1/report?since=1e999", "/v1/report?since=%00", "/v1/nodes/%00/drain",
    "/v1/jobs/" + "x" * 5000, "/v1/audit?action=%00",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_addresses_and_queries_of_any_kind_are_refused_in_words(served: Served, job: str, path: str) -> None:
    with served.http() as http:
        answer = http.get(path.replace("JOB", job))
        assert 400 <= answer.status_code < 500, answer.text
        assert answer.json()["message"]
        assert http.get("/v1/nodes").status_code == 200


@pytest.mark.parametrize("path", [f"/v1/report?since={HUGE}w", "/v1/jobs/JOB/logs?worker=" + "x" * 900])
def test_what_is_merely_odd_is_answered(served: Served, job: str, path: str) -> None:
    with served.http() as http:
        assert http.get(path.replace("JOB", job)).status_code < 500


@pytest.mark.parametrize("header", [HUGE, "-1", "１", "x" * 200, "1.5"])
def test_a_last_event_id_is_a_number_that_there_can_be(served: Served, header: str) -> None:
    with served.http() as http:
        answer = http.get("/v1/events/stream", headers={"Last-Event-ID": header.encode("utf-8")})
        assert answer.status_code == 422


DEEP = json.loads("[" * 60 + "]" * 60)
BODIES: tuple[dict[str, Any], ...] = (
    {"name": "a\0b"}, {"name": "\ud800"}, {"na\0me": 1}, {"name": ["\0"]}, {"x": DEEP}, {"work": math.inf},
)  # fmt: skip


@pytest.mark.parametrize("body", BODIES, ids=str)
def test_texts_that_nothing_can_store_are_refused_in_words(served: Served, body: dict[str, Any]) -> None:
    """Also where the refusal would have to repeat them."""
    with served.http() as http:
        for path in ("/v1/jobs", "/v1/quote"):
            raw = json.dumps(body).encode("ascii")
            answer = http.post(path, content=raw, headers={"content-type": "application/json"})
            assert answer.status_code in (400, 422), answer.text
            assert answer.json()["message"]
        token = {"name": "a\0b", "tenant": "blue"}
        assert http.post("/v1/tokens", json=token).status_code == 422
        assert http.get("/v1/jobs").json()["jobs"] == []


LATE = ({"work": 1e18}, {"work": 100, "within": 1e13}, {"work": 1e15, "within": 3600})


@pytest.mark.parametrize("spec", LATE, ids=str)
def test_a_moment_after_the_end_of_all_calendars_is_told_as_that_end(served: Served, spec: dict[str, float]) -> None:
    with served.client() as client:
        job = client.submit(spec).job.id
        served.world.passes(2)
        assert [found.id for found in client.jobs().jobs] == [client.job(job).id]
        assert client.overview().now is not None
        assert client.job_report(job) is not None
        assert client.quote(spec).verdict


def test_a_worker_that_is_none_ends_a_stream_with_a_reason(served: Served, job: str) -> None:
    """Not with half an answer: the first page was fine, the next run has no such worker."""
    served.world.backend.output[_run(served, job)] = b"hello\n"
    reading, calls = served.world.backend.logs, []

    def logs(run_id: str, worker: str | None, offset: int, limit: int) -> tuple[bytes, int]:
        calls.append(offset)
        if len(calls) > 1:
            raise InputError("no worker w9", "w0")
        return reading(run_id, worker, offset, limit)

    served.world.backend.logs = logs  # type: ignore[method-assign]
    with served.client() as client, pytest.raises(InputError, match="no worker w9"):
        list(client.follow_logs(job))
    assert len(calls) == 2


def test_after_a_fault_the_connection_is_whole(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("an accident")

    monkeypatch.setattr(served.world.platform, "nodes", fail)
    with served.http() as http, caplog.at_level(logging.CRITICAL, "penstock.control.api.faults"):
        first = http.get("/v1/nodes")
        assert first.status_code == 500
        assert first.json()["code"] == "internal"
        assert "accident" not in first.text
        before = http._transport._pool.connections  # type: ignore[attr-defined]
        assert http.get("/v1/jobs").status_code == 200
        assert http._transport._pool.connections == before, "the server hung up after the fault"  # type: ignore[attr-defined]


def test_a_database_that_is_away_is_said_to_be(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def locked(*_: object) -> None:
        raise OperationalError("SELECT", {}, Exception("database is locked"))

    monkeypatch.setattr(served.world.platform, "nodes", locked)
    with served.http() as http, caplog.at_level(logging.CRITICAL, "penstock.control.api.faults"):
        answer = http.get("/v1/nodes")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert int(answer.headers["retry-after"]) > 0


def test_streams_are_bounded_for_each_token_and_in_all(world: Platform) -> None:
    with serving(world, max_streams=3, max_streams_per_token=2) as served:
        people = [served.http("ada"), served.http("eve")]
        opened, kept = [], []
        try:
            for http in (people[0], people[0], people[1]):
                stream = http.stream("GET", "/v1/events/stream")
                answer = stream.__enter__()
                assert answer.status_code == 200
                lines = answer.iter_lines()
                assert next(lines) == ": hello"
                opened.append(stream)
                kept.append(lines)
            told = [people[0].get("/v1/events/stream"), people[1].get("/v1/events/stream")]
            assert [answer.status_code for answer in told] == [429, 429]
            assert "This token has 2 streams open" in told[0].text
            assert "3 streams are open" in told[1].text
            opened.pop().__exit__(None, None, None)
            until(lambda: _opens(people[1]), "room for another stream")
        finally:
            for stream in opened:
                stream.__exit__(None, None, None)
            for http in people:
                http.close()


def _opens(http: httpx.Client) -> bool:
    with http.stream("GET", "/v1/events/stream") as answer:
        return answer.status_code == 200


@pytest.mark.parametrize("kind", ["events", "logs"])
def test_a_stream_ends_at_once_when_its_token_is_revoked(served: Served, kind: str) -> None:
    with served.client() as admin, served.client("ada") as ada:
        job = ada.submit({"work": 1000}).job.id
        served.world.passes(2)
        token = next(token.id for token in admin.tokens() if token.name == "ada")
        messages = ada.follow_events(after=0) if kind == "events" else ada.follow_logs(job)
        if kind == "events":
            next(iter(messages))
        else:
            served.world.backend.output[_run(served, job)] = b"hello\n"
            next(iter(messages))
        admin.revoke_token(token)
        with pytest.raises(UnauthorizedError, match="no longer valid"):
            list(messages)


def test_a_stream_ends_when_its_token_expires(served: Served) -> None:
    with served.client() as admin:
        made = admin.make_token(name="short", tenant="blue", expires="60s")
        served.secrets["short"] = made.secret or ""
        with served.client("short") as short:
            short.submit({"work": 1000})
            messages = short.follow_events(after=0)
            next(iter(messages))
            served.world.clock.time += 61
            with pytest.raises(UnauthorizedError):
                list(messages)
            with pytest.raises(UnauthorizedError):
                short.jobs()


def test_metrics_are_for_this_machine_under_its_own_name(world: Platform) -> None:
    with serving(world) as served, served.http(None) as http:
        for stranger in ({"host": "rebound.example"}, {"x-forwarded-for": "10.0.0.1"}, {"host": "rebound.example:80"}):
            assert http.get("/metrics", headers=stranger).status_code == 401
        with served.http("ada") as ada:
            assert ada.get("/metrics", headers={"host": "rebound.example"}).status_code == 403
        with served.http() as admin:
            assert admin.get("/metrics", headers={"host": "rebound.example"}).status_code == 200
        leave_one_tenant(served)
        assert http.get("/metrics").status_code == 200
        assert http.get("/metrics", headers={"host": "rebound.example"}).status_code == 401
    with serving(world, open_metrics=True) as served, served.http(None) as http:
        assert http.get("/metrics", headers={"host": "rebound.example"}).status_code == 200


def test_the_description_of_the_api_loads_nothing_from_anywhere(served: Served) -> None:
    with served.http(None) as http:
        answer = http.get("/docs")
        assert answer.status_code == 200
        assert "/v1/jobs/{job_id}/cancel" in answer.text
        assert "<script" not in answer.text
        assert "http://" not in answer.text
        assert "https://" not in answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert http.get("/redoc").status_code == 404


def test_nobody_frames_an_answer(served: Served) -> None:
    with served.http(None) as http:
        for path in ("/docs", "/v1/jobs", "/nowhere"):
            assert http.get(path).headers["x-frame-options"] == "DENY"


def test_quotas_refuse_what_is_too_much(served: Served) -> None:
    with served.client() as admin, served.client("ada") as ada:
        admin.set_quota("blue", active_jobs=2, devices=2)
        assert [quota.active_jobs for quota in ada.quotas()] == [2]
        with pytest.raises(InputError, match=r"asks for 3 devices.*at most 2 for tenant blue"):
            ada.submit({"at_least": 3})
        first = ada.submit({"work": 100}).job.id
        ada.submit({"work": 100})
        with pytest.raises(TooManyError, match="Tenant blue has 2 jobs that are not over"):
            ada.submit({"work": 100})
        served.world.passes(2)
        assert all(len(found.devices) <= 2 for found in ada.jobs().jobs), "more devices than the quota"
        ada.cancel(first)
        ada.submit({"work": 100})
        admin.set_quota("*", active_jobs=0)
        with served.client("eve") as eve, pytest.raises(TooManyError):
            eve.submit({"work": 100})
