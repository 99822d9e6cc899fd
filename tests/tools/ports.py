"""Ports that nobody listens on."""

import socket


def free_port() -> int:
    """One that was free a moment ago; somebody else may take it before you do."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
