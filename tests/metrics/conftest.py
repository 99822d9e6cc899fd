"""Fixtures of the metrics' tests."""

from tests.control.conftest import world

__all__ = ["world"]
