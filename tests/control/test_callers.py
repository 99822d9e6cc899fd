"""Whose allowance a request counts against."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from penstock.control import session_cookie
from penstock.control.api import limits
from penstock.control.api.limits import MOST_AT_ONCE, Callers
from penstock.control.platform.saved_files import SavedFiles
from penstock.control.state.store import Principal, Role
from penstock.wire import FileList
from tests.control.build import Platform, platform
from tests.control.serving import serving, until
from tests.tools import coroutines


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Platform]:
    with platform(tmp_path) as found:
        yield found


@dataclass
class KnownPeople:
    """Tokens and cookies that are valid, each with the id behind it."""

    tokens: dict[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)

    def holder(self, secret: str) -> Principal | None:
        return _principal(self.tokens.get(secret), "")

    def session_holder(self, cookie: str | None) -> Principal | None:
        return _principal("t-1" if cookie in self.cookies else None, self.cookies.get(cookie or "", ""))


def _principal(token_id: str | None, session_id: str) -> Principal | None:
    if token_id is None:
        return None
    return Principal(id=token_id, name="x", role=Role.USER, tenant="blue", session_id=session_id)


def key(callers: Callers, address: str, authorization: bytes | None, cookies: bytes | None = None) -> str:
    return coroutines.run(callers.of(address, authorization, cookies)).key


def test_one_token_is_one_caller_however_it_is_written() -> None:
    callers = Callers(KnownPeople({"secret": "t-1"}))
    written = (b"Bearer secret", b"bearer secret", b"BEARER   secret  ")
    assert {key(callers, address, one) for one in written for address in ("a", "b")} == {"token t-1"}


def test_a_token_that_is_not_valid_counts_against_the_address() -> None:
    callers = Callers(KnownPeople())
    assert {key(callers, "10.0.0.1", one) for one in (None, b"", b"Bearer", b"Bearer x", b"Basic y")} == {
        "address 10.0.0.1"
    }


def test_a_session_counts_for_itself_wherever_it_comes_from() -> None:
    callers = Callers(KnownPeople(cookies={"c-1": "s-1"}))
    good, bad = b"theme=dark; penstock_session=c-1", b"penstock_session=c-2"
    assert [key(callers, "10.0.0.1", None, one) for one in (good, bad, b"\xff=;;=")] == [
        "session s-1", "address 10.0.0.1", "address 10.0.0.1",
    ]  # fmt: skip


def test_a_session_is_one_of_its_port() -> None:
    named = {host: session_cookie(host) for host in ("gpus.example.org", "127.0.0.1:8470", "[::1]:8470", "[::1]", None)}
    assert list(named.values()) == [
        "penstock_session", "penstock_session_8470", "penstock_session_8470", "penstock_session", "penstock_session",
    ]  # fmt: skip
    callers = Callers(KnownPeople(cookies={"c-1": "s-1", "c-2": "s-2"}))
    both = b"penstock_session_8470=c-1; penstock_session_8471=c-2"
    assert coroutines.run(callers.of("a", None, both, b"127.0.0.1:8471")).key == "session s-2"


def test_a_revoked_token_is_forgotten_after_a_while() -> None:
    people, now = KnownPeople({"secret": "t-1"}), [0.0]
    callers = Callers(people, clock=lambda: now[0])
    assert key(callers, "a", b"Bearer secret") == "token t-1"
    people.tokens.clear()
    now[0] = 1000.0
    assert key(callers, "a", b"Bearer secret") == "address a"


def test_inventing_tokens_wins_no_new_allowance(world: Platform) -> None:
    with (
        serving(world, requests_per_s=0.5, burst=3) as served,
        httpx.Client(base_url=served.url, trust_env=False) as http,
    ):
        answers = [http.get("/v1/jobs", headers={"authorization": f"Bearer made-up-{n}"}) for n in range(5)]
        assert [answer.status_code for answer in answers] == [401, 401, 401, 429, 429]
        with served.http("ada") as ada:
            assert ada.get("/v1/jobs").status_code == 200


def test_a_flood_from_an_address_leaves_whoever_is_signed_in_alone(world: Platform) -> None:
    """One office, one proxy, one address: strangers behind it must not lock the others out."""
    credentials = world.platform.credentials
    with serving(world, requests_per_s=0.5, burst=5) as served:
        cookie = credentials.sign_in(credentials.authenticate(served.secrets["ada"]), "127.0.0.1")
        with served.http(None) as http:
            flood = [http.get("/v1/jobs").status_code for _ in range(10)]
            http.cookies.set(session_cookie(served.url), cookie)
            mine = [http.get("/docs").status_code for _ in range(4)]
        assert flood == [401] * 5 + [429] * 5
        assert mine == [200] * 4


def test_a_tenant_has_an_allowance_of_its_own(world: Platform) -> None:
    with serving(world) as served, served.client() as admin, served.http("ada") as ada, served.http("eve") as eve:
        admin.set_quota("blue", requests_per_s=0.5)
        answers = [ada.get("/v1/nodes") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
        assert "Tenant blue sent more than its 0.5 requests a second" in answers[-1].json()["message"]
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert eve.get("/v1/nodes").status_code == 200


def test_health_is_told_whoever_asks_and_however_often(world: Platform) -> None:
    with serving(world, requests_per_s=0.5, burst=1) as served, served.http(None) as http:
        assert {http.get("/healthz").status_code for _ in range(20)} == {200}


def test_one_tenant_cannot_hold_every_thread(world: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    job, go = world.submit(work=400, tenant="blue"), threading.Event()
    held: list[str] = []

    def stuck(_self: SavedFiles, job_id: str, *_: object) -> FileList:
        held.append(job_id)
        go.wait(60)
        return FileList(place="/", files=[])

    monkeypatch.setattr(SavedFiles, "files", stuck)
    with serving(world) as served, ExitStack() as lines:
        asked = [lines.enter_context(served.connection("ada", f"/v1/jobs/{job}/files")) for _ in range(45)]
        try:
            until(lambda: len(held) >= MOST_AT_ONCE, "its share of the threads")
            with served.http("eve") as eve, served.http() as admin:
                assert eve.get("/v1/jobs").status_code == 200
                assert admin.get(f"/v1/jobs/{job}").status_code == 200
            assert len(held) == MOST_AT_ONCE
        finally:
            go.set()
        assert [line.recv(12) for line in asked] == [b"HTTP/1.1 200"] * 45, "the others have waited"


def test_a_tenant_whose_requests_never_end_is_told(world: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    job, go = world.submit(work=400, tenant="blue"), threading.Event()
    monkeypatch.setattr(limits, "_TURN_WITHIN_S", 0.1)
    monkeypatch.setattr(SavedFiles, "files", lambda *_: go.wait(60) and FileList(place="/", files=[]))
    with serving(world) as served, ExitStack() as lines, served.http("ada") as http:
        for _ in range(MOST_AT_ONCE):
            lines.enter_context(served.connection("ada", f"/v1/jobs/{job}/files"))
        try:
            answer = until(lambda: (got := http.get("/v1/jobs")).status_code == 429 and got, "the end of its patience")
            assert "10 requests of tenant blue are being worked on" in answer.text
        finally:
            go.set()
        until(lambda: http.get("/v1/jobs").status_code == 200, "its turn")
