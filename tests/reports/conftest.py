"""Fixtures of the reports' tests."""

from tests.control.conftest import world

__all__ = ["world"]
