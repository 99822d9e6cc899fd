"""A server that may take any port takes the one it had, so that open pages find it again."""

import os
import signal
import socket
from pathlib import Path

from penstock.client import DataDir, ensure_server
from tests.control.serving import until


def _started(data: Path) -> int:
    with ensure_server(data, options=["--slots", "1"], within_s=60.0):
        address = DataDir(data).address()
    assert address is not None
    return address.port


def _stopped(data: Path) -> None:
    address = DataDir(data).address()
    assert address is not None
    os.kill(address.pid, signal.SIGTERM)
    until(lambda: not DataDir(data).is_served(), "the server to end", 30.0)


def test_the_port_of_last_time_is_taken_again_unless_somebody_else_has_it(tmp_path: Path) -> None:
    first = _started(tmp_path)
    _stopped(tmp_path)
    assert _started(tmp_path) == first
    _stopped(tmp_path)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", first))
        other.listen()
        assert _started(tmp_path) != first
        _stopped(tmp_path)
