"""Whose allowance a request counts against."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from penstock.control.api.limits import Callers
from tests.control.build import Platform, platform
from tests.control.serving import serving


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Platform]:
    with platform(tmp_path) as found:
        yield found


def test_one_token_is_one_caller_however_it_is_written() -> None:
    callers = Callers({"secret": "t-1"}.get)
    written = (b"Bearer secret", b"bearer secret", b"BEARER   secret  ")
    assert {callers.of(address, one) for one in written for address in ("a", "b")} == {"token t-1"}


def test_a_token_that_is_not_valid_counts_against_the_address() -> None:
    callers = Callers(lambda _: None)
    assert {callers.of("10.0.0.1", one) for one in (None, b"", b"Bearer", b"Bearer x", b"Basic y")} == {
        "address 10.0.0.1"
    }


def test_a_revoked_token_is_forgotten_after_a_while() -> None:
    known, now = {"secret": "t-1"}, [0.0]
    callers = Callers(known.get, clock=lambda: now[0])
    assert callers.of("a", b"Bearer secret") == "token t-1"
    known.clear()
    now[0] = 1000.0
    assert callers.of("a", b"Bearer secret") == "address a"


def test_inventing_tokens_wins_no_new_allowance(world: Platform) -> None:
    with (
        serving(world, requests_per_s=0.5, burst=3) as served,
        httpx.Client(base_url=served.url, trust_env=False) as http,
    ):
        answers = [http.get("/v1/jobs", headers={"authorization": f"Bearer made-up-{n}"}) for n in range(5)]
        assert [answer.status_code for answer in answers] == [401, 401, 401, 429, 429]
        with served.http("ada") as ada:
            assert ada.get("/v1/jobs").status_code == 200
