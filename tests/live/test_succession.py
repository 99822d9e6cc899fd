"""A server takes the place of one that is going or was killed."""

import fcntl
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.control import DataDir, ensure_server
from tests.live.site import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path, slots=1)
    try:
        yield site
    finally:
        site.close()


def test_a_server_on_its_way_out_is_succeeded(site: Site) -> None:
    """It holds the directory when we look and answers nobody; waiting for it to answer would be waiting for ever."""
    site.data.mkdir()
    with (site.data / "server.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        going = threading.Timer(0.5, fcntl.flock, (lock, fcntl.LOCK_UN))
        going.start()
        said: list[str] = []
        with ensure_server(site.data, options=["--slots", "1"], within_s=60.0, say=said.append) as client:
            assert client.ready()
        going.join()
    assert len(said) == 1


def test_the_address_of_a_killed_server_is_not_taken_for_its_successors(site: Site) -> None:
    place = DataDir(site.data)
    place.prepare()
    (site.data / "server.json").write_text(json.dumps({"pid": 1, "host": "127.0.0.1", "port": 9, "started_at": 0.0}))
    with place.held():
        assert place.address() is None
