"""The API over a real socket: what people can do, what they cannot, and how they are told."""

from collections.abc import Iterator

import httpx
import pytest

from penstock.cli.terminal.format import quote_lines
from penstock.client import Client
from penstock.core import InputError
from penstock.wire import ConflictError, ForbiddenError, MissingError, UnauthorizedError, UnavailableError
from tests.control.build import Platform
from tests.control.serving import Served, serving


@pytest.fixture
def served(world: Platform) -> Iterator[Served]:
    with serving(world) as running:
        yield running


@pytest.fixture
def admin(served: Served) -> Iterator[Client]:
    with served.client() as client:
        yield client


def test_what_a_late_result_is_worth_is_told_with_the_job(served: Served, admin: Client) -> None:
    job_id = admin.submit({"name": "night", "work": 100, "within": 500}).job.id
    detail = admin.edit(job_id, deadline="1h", then={"2h": "50%", "3h": "20%"})
    assert [step.value for step in detail.values] == [0.5, 0.2]
    assert detail.deadline is not None
    assert (detail.values[0].until - detail.deadline).total_seconds() == 3600.0
    served.world.passes(200)
    assert admin.job(job_id).expected_value == 1.0


def test_a_job_from_submission_to_its_end(served: Served, admin: Client) -> None:
    submitted = admin.submit({"name": "night", "work": 100, "within": 500})
    job_id = submitted.job.id
    assert submitted.job.quote is not None
    assert submitted.job.quote.verdict == "promised"
    assert submitted.job.quote.finish_at is not None
    served.world.passes(3)
    job = admin.job(job_id)
    assert (job.state, job.name, job.tenant) == ("running", "night", "default")
    assert len(job.workers) == len(job.devices) > 0
    assert job.progress is not None
    assert 0 < job.progress.remaining < 100
    assert job.progress.step is not None
    served.world.passes(200)
    job = admin.job(job_id)
    assert job.state == "finished"
    assert job.ended_at is not None
    assert job.history[-1].until is not None
    story = admin.why(job_id)
    assert story.entries[0].text.startswith("submitted: 100 iterations")
    assert story.entries[-1].text == "finished"


def test_a_quote_is_what_a_submission_would_be_told_and_changes_nothing(served: Served, admin: Client) -> None:
    admin.submit({"work": 100, "within": 30})
    possible, impossible = {"work": 100, "within": 300}, {"work": 100, "within": 10}
    before = served.world.journal.seq
    quoted = [admin.quote(possible), admin.quote(impossible)]
    assert served.world.journal.seq == before
    assert [quote.verdict for quote in quoted] == ["promised", "refused"]
    assert quoted[1].counter_offer is not None
    assert admin.submit(possible).job.quote == quoted[0]
    refused = admin.quote(impossible)
    answer = admin.submit(impossible).job.quote
    assert answer is not None
    assert answer.offer_until is not None
    assert answer.model_copy(update={"offer_until": None}) == refused  # a quote holds nothing
    assert [job.state for job in admin.jobs(states=["declined"]).jobs] == ["declined"]


def test_quotes_of_a_guest_say_that_they_are_forecasts(
    served: Served, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not admin.quote({"work": 100, "within": 300}).forecast_only
    monkeypatch.setattr(type(served.world.backend), "promises", False)
    assert admin.quote({"work": 100, "within": 300}).forecast_only
    told = admin.submit({"work": 100, "within": 300}).job.quote
    assert told is not None
    assert told.forecast_only
    assert any("not a promise" in line for line in quote_lines(told))


def test_the_same_submission_sent_twice_is_one_job(served: Served, admin: Client) -> None:
    first = admin.submit({"work": 100}, key="abc")
    again = admin.submit({"work": 100}, key="abc")
    assert (first.again, again.again, again.job.id) == (False, True, first.job.id)
    with pytest.raises(ConflictError, match="used for another job"):
        admin.submit({"work": 200}, key="abc")
    with served.client("ada") as ada:
        assert not ada.submit({"work": 100}, key="abc").again
    with served.http() as http:
        answer = http.post("/v1/jobs", json={"work": 100}, headers={"Idempotency-Key": "abc"})
        assert (answer.status_code, answer.headers["location"]) == (200, f"/v1/jobs/{first.job.id}")
    assert len(admin.jobs().jobs) == 2


def test_jobs_are_listed_page_by_page(admin: Client) -> None:
    ids = [admin.submit({"name": f"n{i % 2}", "work": 100}).job.id for i in range(5)]
    page = admin.jobs(limit=2)
    assert [job.id for job in page.jobs] == ids[:2:-1]
    page = admin.jobs(limit=2, cursor=page.next)
    assert [job.id for job in page.jobs] == ids[2:0:-1]
    page = admin.jobs(limit=2, cursor=page.next)
    assert [job.id for job in page.jobs] == ids[:1]
    assert page.next is None
    assert len(admin.jobs(name="n1").jobs) == 2
    assert admin.jobs(states=["finished", "failed"]).jobs == []


def test_pause_resume_cancel(served: Served, admin: Client) -> None:
    job_id = admin.submit({"work": 100}).job.id
    served.world.passes(2)
    assert admin.pause(job_id).state == "paused"
    served.world.passes(2)
    assert admin.resume(job_id, best_effort=True).state == "running"
    assert admin.cancel(job_id).state == "cancelled"
    assert admin.cancel(job_id).state == "cancelled"
    with pytest.raises(ConflictError) as caught:
        admin.resume(job_id)
    assert caught.value.hint == "Submit it again"


def test_a_user_neither_sees_nor_touches_the_jobs_of_another_tenant(served: Served, admin: Client) -> None:
    with served.client("ada") as ada, served.client("eve") as eve:
        mine = ada.submit({"work": 100}).job
        assert mine.tenant == "blue"
        served.world.passes(2)
        assert [job.id for job in ada.jobs().jobs] == [job.id for job in admin.jobs().jobs] == [mine.id]
        assert eve.jobs().jobs == eve.jobs(tenant="blue").jobs == []
        calls = (eve.job, eve.cancel, eve.pause, eve.resume, eve.why, eve.logs, eve.events)
        messages = set()
        for call in calls:
            with pytest.raises(MissingError) as caught:
                call(mine.id)
            messages.add(str(caught.value).replace(mine.id, "ID"))
        with pytest.raises(MissingError) as caught:
            eve.job("j-never")
        messages.add(str(caught.value).replace("j-never", "ID"))
        assert len(messages) == 1, "a stranger can tell a job of others from one that never was"
        assert eve.events().events == []
        assert {event.job_id for event in ada.events().events} == {mine.id}
        assert [node.jobs for node in eve.nodes()] == [[]]
        assert [node.jobs for node in ada.nodes()] == [[mine.id]]
        assert ada.job(mine.id).state == "running"
        with pytest.raises(ForbiddenError, match="your own tenant, red"):
            eve.submit({"work": 100, "tenant": "blue"})
        assert admin.submit({"work": 100, "tenant": "blue"}).job.tenant == "blue"


def test_only_an_admin_drains_nodes_and_makes_tokens(served: Served, admin: Client) -> None:
    with served.client("ada") as ada:
        calls = (
            lambda: ada.drain("node-0"),
            lambda: ada.undrain("node-0"),
            ada.tokens,
            lambda: ada.make_token(name="x", tenant="blue"),
            lambda: ada.revoke_token("x"),
        )
        for call in calls:
            with pytest.raises(ForbiddenError, match="role admin"):
                call()
    assert [node.state for node in admin.drain("node-0")] == ["drained"]
    assert [node.state for node in admin.undrain("node-0")] == ["up"]
    with pytest.raises(InputError, match="Did you mean 'node-0'"):
        admin.drain("node-O")


def test_a_token_lives_until_it_is_revoked(served: Served, admin: Client) -> None:
    made = admin.make_token(name="ci", tenant="green")
    assert made.secret is not None
    assert made.secret not in repr(admin.tokens())
    with Client(served.url, made.secret) as ci:
        assert ci.submit({"work": 100}).job.tenant == "green"
        admin.revoke_token(made.id)
        with pytest.raises(UnauthorizedError, match="not valid"):
            ci.jobs()
    with pytest.raises(MissingError):
        admin.revoke_token(made.id)


def test_without_a_token_only_the_health_is_shown(served: Served) -> None:
    with served.http(None) as http:
        assert http.get("/healthz").json()["status"] == "ok"
        assert http.get("/readyz").status_code == 200
        assert http.get("/version").json()["api"] == "v1"
        for path in (
            "/v1/jobs",
            "/v1/nodes",
            "/v1/events",
            "/v1/events/stream",
            "/v1/tokens",
            "/v1/jobs/x/logs/stream",
        ):
            answer = http.get(path)
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
            assert answer.headers["www-authenticate"] == "Bearer"
        assert http.get("/v1/jobs", headers={"Authorization": "Basic abc"}).status_code == 401
        served.world.reconciler.trouble = "OSError: the disk is full"
        answer = http.get("/readyz")
        assert (answer.status_code, answer.json()["trouble"]) == (503, "OSError: the disk is full")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/v1/jobs", b"{not json", 422, "invalid"),
        ("POST", "/v1/jobs", b"[1]", 422, "invalid"),
        ("POST", "/v1/jobs", b'{"wrok": 1}', 422, "invalid"),
        ("POST", "/v1/jobs", b'{"work": 0}', 422, "invalid"),
        ("POST", "/v1/quote", b'{"work": -1}', 422, "invalid"),
        ("GET", "/v1/jobs?limit=0", b"", 422, "invalid"),
        ("GET", "/v1/jobs?cursor=zzz", b"", 422, "invalid"),
        ("GET", "/v1/jobs?cursor=99999999999999999999", b"", 422, "invalid"),
        ("GET", "/v1/jobs?state=flying", b"", 422, "invalid"),
        ("GET", "/v1/jobs/nobody", b"", 404, "not_found"),
        ("GET", "/v1/nothing", b"", 404, "not_found"),
        ("PUT", "/v1/jobs", b"", 405, "method_not_allowed"),
        ("POST", "/v1/tokens", b'{"name": "x", "tenant": "../x"}', 422, "invalid"),
        ("POST", "/v1/tokens", b'{"name": "x", "tenant": "t", "role": "god"}', 422, "invalid"),
        ("GET", "/v1/events/stream?after=-1", b"", 422, "invalid"),
    ],
)
def test_what_cannot_be_done_is_explained_and_changes_nothing(
    served: Served, method: str, path: str, body: bytes, status: int, code: str
) -> None:
    before = served.world.journal.seq
    with served.http() as http:
        answer = http.request(method, path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert set(answer.json()) == {"status", "code", "message", "allowed", "hint"}
    assert answer.json()["code"] == code
    assert answer.json()["message"]
    assert served.world.journal.seq == before


def test_a_fault_of_ours_says_so_and_gives_nothing_away(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the secret is 42")

    monkeypatch.setattr(served.world.commands, "quote", broken)
    with served.http() as http:
        answer = http.post("/v1/quote", json={"work": 1})
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "42" not in answer.text


def test_a_body_that_is_too_large_is_refused_whether_or_not_it_says_so(world: Platform) -> None:
    with serving(world, max_body=1000) as served, served.http() as http:
        big = b'{"name": "' + b"x" * 5000 + b'"}'
        announced = http.post("/v1/jobs", content=big)
        streamed = http.post("/v1/jobs", content=iter([big[:3000], big[3000:]]))
        for answer in (announced, streamed):
            assert (answer.status_code, answer.json()["code"]) == (413, "too_large"), answer.text
        assert http.post("/v1/jobs", json={"work": 1}).status_code == 201


def test_who_asks_too_often_waits_and_nobody_else_does(world: Platform) -> None:
    with serving(world, requests_per_s=0.5, burst=3) as served, served.http("ada") as ada, served.http("eve") as eve:
        answers = [ada.get("/v1/jobs") for _ in range(5)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert answers[-1].json()["code"] == "too_many_requests"
        assert eve.get("/v1/jobs").status_code == 200


def test_the_api_describes_itself(served: Served) -> None:
    with served.http(None) as http:
        paths = http.get("/openapi.json").json()["paths"]
    wanted = ("/v1/jobs", "/v1/quote", "/v1/jobs/{job_id}/why", "/v1/jobs/{job_id}/logs/stream", "/v1/events/stream")
    assert set(wanted) <= set(paths)


def test_a_server_that_is_gone_is_named(served: Served) -> None:
    with Client("http://127.0.0.1:1", "x") as nobody:
        with pytest.raises(UnavailableError, match="penstock serve"):
            nobody.jobs()
        assert not nobody.ready()
    with httpx.Client(base_url=served.url, trust_env=False) as http:
        assert http.get("/healthz").status_code == 200
