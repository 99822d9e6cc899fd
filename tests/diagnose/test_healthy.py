"""Logs of runs that nothing is wrong with, and text that is no log, are given no category."""

import tomllib
from pathlib import Path

import pytest

from penstock.diagnose import Doctor, text_source

DOCTOR = Doctor.shipped()
HEALTHY = tomllib.loads(Path(__file__).with_name("healthy.toml").read_text())["log"]


@pytest.mark.parametrize("log", HEALTHY, ids=lambda log: log["name"])
def test_nothing_is_named_in_a_healthy_log(log: dict[str, str]) -> None:
    found = DOCTOR.diagnose([text_source(log["text"])])
    assert (found.category, found.confidence) == ("unknown", 0.0)


def test_binary_data_is_no_failure() -> None:
    assert DOCTOR.diagnose([text_source(bytes(range(256)) * 100)]).category == "unknown"
