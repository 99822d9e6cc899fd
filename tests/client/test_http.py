"""The client against a real API: typed answers, the same errors, streams that end, and odd names in paths."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client import Address, Client, DataDir, reach
from penstock.core import InputError, UnknownNameError
from penstock.wire import MissingError, UnauthorizedError, UnavailableError
from tests.control.build import Platform, platform
from tests.control.serving import Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with platform(tmp_path) as world, serving(world) as running:
        yield running


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    with served.client() as made:
        yield made


def test_a_job_is_submitted_once_however_often_it_is_sent(client: Client) -> None:
    first = client.submit({"name": "a", "work": 100}, key="k")
    again = client.submit({"name": "a", "work": 100}, key="k")
    assert (first.again, again.again) == (False, True)
    assert first.job.id == again.job.id
    assert [job.id for job in client.jobs().jobs] == [first.job.id]


def test_a_refusal_is_raised_as_the_error_it_was(client: Client, served: Served) -> None:
    with pytest.raises(MissingError, match="j-nobody"):
        client.job("j-nobody")
    with pytest.raises(InputError, match="unknown key 'wrk'"):
        client.submit({"wrk": 100})
    with pytest.raises(InputError, match="unknown state 'flying'"):
        client.jobs(states=["flying"])
    with pytest.raises(UnauthorizedError, match="This token is not valid"), Client(served.url, "made up") as nobody:
        nobody.jobs()
    assert not issubclass(UnknownNameError, MissingError)


def test_a_name_with_slashes_stays_one_name(client: Client) -> None:
    with pytest.raises(MissingError):
        client.job("../tokens")


def test_streams_bring_what_happens_and_end_with_the_job(client: Client, served: Served) -> None:
    world: Platform = served.world
    job = client.submit({"work": 5}).job.id
    world.passes(60)
    assert client.job(job).state == "finished"
    list(client.follow_logs(job))
    kinds = []
    for event in client.follow_events(after=0):
        kinds.append(event.kind)
        if event.kind == "RunFinished":
            break
    assert "Submitted" in kinds


def test_no_server_says_what_to_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnavailableError, match=r"no server runs on .*Start one: penstock serve"):
        Client.local(tmp_path)
    with pytest.raises(UnavailableError, match="does not answer"), Client("http://127.0.0.1:9", "x") as client:
        client.jobs()
    monkeypatch.setenv("PENSTOCK_SERVER", "http://127.0.0.1:9")
    monkeypatch.delenv("PENSTOCK_TOKEN", raising=False)
    with pytest.raises(InputError, match="PENSTOCK_TOKEN is not"):
        reach()


def test_a_local_server_is_one_that_lives_and_whose_token_lies_beside_its_address(tmp_path: Path) -> None:
    place = DataDir(tmp_path / "data")
    with place.held():
        for prepare in (
            lambda: None,
            lambda: place.publish(Address(pid=os.getpid(), host="127.0.0.1", port=9, started_at=0.0)),
        ):
            prepare()
            with pytest.raises(UnavailableError, match="no server runs"):
                Client.local(place.path)
        place.keep_owner_token("secret")
        with Client.local(place.path) as client:
            assert client.url == "http://127.0.0.1:9"
    with pytest.raises(UnavailableError, match="no server runs"):
        Client.local(place.path)
