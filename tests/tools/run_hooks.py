"""Hooks of every run of these tests: interrupts are heard, and nothing is left running."""

import pytest

from tests.tools.processes import Guard, hear_interrupts_again

_GUARD = pytest.StashKey[Guard]()


def pytest_configure(config: pytest.Config) -> None:
    hear_interrupts_again()
    if not hasattr(config, "workerinput"):
        config.stash[_GUARD] = Guard()


def pytest_unconfigure(config: pytest.Config) -> None:
    guard = config.stash.get(_GUARD, None)
    if guard is not None:
        guard.end()
