"""Days and times as people say them, in the zone of whoever reads them."""

import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from penstock.core import resolve_moment, resolve_past

FRIDAY = datetime(2026, 10, 30, 17, 0)
"""Two days before New York's clocks go back."""


@pytest.fixture(autouse=True)
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("friday 18:00", "2026-10-30T18:00:00-04:00"), ("Fri 4pm", "2026-11-06T16:00:00-05:00"),
        ("friday", "2026-10-31T00:00:00-04:00"), ("tomorrow 9am", "2026-10-31T09:00:00-04:00"),
        ("tonight", "2026-10-31T00:00:00-04:00"), ("18:30", "2026-10-30T18:30:00-04:00"),
        ("12am", "2026-10-31T00:00:00-04:00"), ("9:00", "2026-10-31T09:00:00-04:00"),
        ("by monday", "2026-11-03T00:00:00-05:00"), ("on sat at 7pm", "2026-10-31T19:00:00-04:00"),
        ("sunday 10:00", "2026-11-01T10:00:00-05:00"), ("2026-12-01", "2026-12-02T00:00:00-05:00"),
        ("2026-12-01T18:00", "2026-12-01T18:00:00-05:00"), (" 2026-12-01 18:00 ", "2026-12-01T18:00:00-05:00"),
        ("2026-12-01T18:00+02:00", "2026-12-01T18:00:00+02:00"),
    ],
)  # fmt: skip
def test_what_people_say(text: str, expected: str) -> None:
    found = resolve_moment(text, FRIDAY)
    assert found is not None
    assert found.isoformat() == expected


@pytest.mark.parametrize(
    "text", ["", "6", "6h", "90", "1h30m", "2d 4h", "fry 9:00", "25:00", "13pm", "18:75", "2026-40-01", "soon", "at 9"]
)
def test_what_is_no_day_and_no_time(text: str) -> None:
    assert resolve_moment(text, FRIDAY) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("16:30", "2026-10-30T16:30:00-04:00"), ("18:30", "2026-10-29T18:30:00-04:00"),
        ("9am", "2026-10-30T09:00:00-04:00"), ("today", "2026-10-30T00:00:00-04:00"),
        ("thursday", "2026-10-29T00:00:00-04:00"), ("friday 18:00", "2026-10-23T18:00:00-04:00"),
        ("2100-01-01", "2100-01-01T00:00:00-05:00"), ("at 18:30", "2026-10-29T18:30:00-04:00"),
        ("2026-10-28", "2026-10-28T00:00:00-04:00"), ("2026-10-28T18:00", "2026-10-28T18:00:00-04:00"),
    ],
)  # fmt: skip
def test_what_people_say_who_look_back(text: str, expected: str) -> None:
    found = resolve_past(text, FRIDAY)
    assert found is not None
    assert found.isoformat() == expected
    assert resolve_past("10m", FRIDAY) is None
