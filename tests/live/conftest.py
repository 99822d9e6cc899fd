"""Fixtures of every test with a real server."""

from tests.tools.plain_loops import plain_loops_in_servers

__all__ = ["plain_loops_in_servers"]
