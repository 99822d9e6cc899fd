"""Moments are written in the zone of whoever looks."""

from datetime import UTC, datetime

import pytest

from penstock.web import format as written
from penstock.web.time_zone import zone_label, zone_named

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC).timestamp()


@pytest.mark.parametrize("name", ["", "Nowhere/City", "../../etc/passwd", "/etc/passwd", "\0", "UTC"])
def test_a_zone_that_nobody_knows_is_utc(name: str) -> None:
    assert zone_label(zone_named(name)) == "UTC"


def test_the_day_turns_where_the_viewer_is(monkeypatch: pytest.MonkeyPatch) -> None:
    late = NOON + 11 * 3600 + 1800
    monkeypatch.setattr("time.time", lambda: late)
    assert written.clock(late) == "23:30:00"
    monkeypatch.setattr(written, "viewer_zone", lambda: zone_named("Europe/Berlin"))
    assert written.clock(late) == "01:30:00"
    assert written.clock(late - 2 * 3600) == "2026-07-01 23:30"
    assert (written.short_clock(late), written.short_clock(None)) == ("01:30", "–")
