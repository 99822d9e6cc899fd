"""The examples in the docstrings of spec and learn say what happens."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "module", ["spec", "spec.model", "learn.curve_store", "learn.progress_meter", "learn.trial_counts"]
)
def test_examples_run(module: str) -> None:
    outcome = doctest.testmod(importlib.import_module(f"penstock.{module}"))

    assert outcome.attempted > 0
    assert outcome.failed == 0
