"""A server that may take any port takes the one it had, so that open pages find it again."""

import os
from pathlib import Path

import pytest

from penstock.client import Address, DataDir
from penstock.core import InputError
from penstock.serve import load_config
from penstock.serve.server import _listening


def listened(data: Path, port: int = 0) -> int:
    """Listen as a server does, say so, and stop; on which port."""
    place = DataDir(data)
    place.prepare()
    with _listening(load_config({"data_dir": data, "port": port}), place) as listener:
        taken: int = listener.getsockname()[1]
        place.publish(Address(pid=os.getpid(), host="127.0.0.1", port=taken, started_at=0.0))
    return taken


def test_the_port_of_last_time_is_taken_again(tmp_path: Path) -> None:
    assert listened(tmp_path) == listened(tmp_path)


def test_unless_somebody_else_has_it(tmp_path: Path) -> None:
    first = listened(tmp_path / "one")
    config, place = load_config({"data_dir": tmp_path / "other", "port": first}), DataDir(tmp_path / "other")
    place.prepare()
    with _listening(config, place) as other:
        other.listen()
        assert listened(tmp_path / "one") != first


def test_a_port_that_was_asked_for_is_not_exchanged_for_another(tmp_path: Path) -> None:
    first = listened(tmp_path / "one")
    config, place = load_config({"data_dir": tmp_path / "other", "port": first}), DataDir(tmp_path / "other")
    place.prepare()
    with _listening(config, place) as other:
        other.listen()
        with pytest.raises(InputError, match=f"127.0.0.1:{first} cannot be listened on"):
            listened(tmp_path / "one", port=first)
