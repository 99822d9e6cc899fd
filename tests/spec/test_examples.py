"""The examples in the docstrings of this room and of estimate say what happens."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("module", ["spec", "spec.model", "estimate.store", "estimate.meter", "estimate.profiling"])
def test_examples_run(module: str) -> None:
    outcome = doctest.testmod(importlib.import_module(f"penstock.{module}"))

    assert outcome.attempted > 0
    assert outcome.failed == 0
