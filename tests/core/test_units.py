"""Quantities the way people write them, and back."""

import math
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.core import (
    UnitError,
    format_bytes,
    format_duration,
    parse_bytes,
    parse_deadline,
    parse_duration,
    parse_instant,
)

NOON_ON_NEW_YEARS_DAY_2026 = 1767268800.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("0", 0.0),
        ("45s", 45.0),
        ("250ms", 0.25),
        ("6h", 21600.0),
        ("1.5h", 5400.0),
        ("1h30m", 5400.0),
        ("1h 30min", 5400.0),
        (" 2d 4h ", 187200.0),
        ("1w", 604800.0),
        ("1e3s", 1000.0),
        ("1_000", 1000.0),
        ("2H", 7200.0),
    ],
)
def test_durations_are_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", " ", "h", "-5s", "6 parsecs", "5s5", "1h 30", ".5h", "1_00s", "5mins", "nan", "inf"]
)
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse_duration(text)
    assert str(caught.value) == (
        f'{text!r} is not a duration. Allowed: a number with ms, s, m, h, d or w. Try "90s", "6h" or "1h30m".'
    )


@pytest.mark.parametrize(
    "parse", [parse_duration, lambda text: parse_duration(text + "h"), lambda t: parse_bytes(t + "GB")]
)
def test_more_than_a_number_can_hold_is_refused(parse: Callable[[str], float]) -> None:
    with pytest.raises(UnitError, match=r"1e400.*is too large to be a (duration|size)\. Allowed: a finite number\."):
        parse("1e400")


@pytest.mark.parametrize(
    ("text", "count"),
    [("512B", 512), ("24GB", 24 * 10**9), ("16GiB", 2**34), ("1.5 MB", 1_500_000), ("2tib", 2**41), ("1KB", 1000)],
)
def test_sizes_are_bytes_decimal_or_binary(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["24", "GB", "12XB", "-1GB", "24G", ""])
def test_what_is_no_size_is_refused_with_the_units_there_are(text: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse_bytes(text)
    assert caught.value.given == f"{text!r} is not a size"
    assert caught.value.allowed.startswith("a number with B, KB, MB, GB, TB")
    assert caught.value.hint == 'Try "24GB" or "16GiB"'


def test_instants_are_utc_unless_they_say_otherwise() -> None:
    assert parse_instant("2026-01-01T12:00") == NOON_ON_NEW_YEARS_DAY_2026
    assert parse_instant("2026-01-01T13:00+01:00") == NOON_ON_NEW_YEARS_DAY_2026
    assert parse_instant("2026-01-01") == NOON_ON_NEW_YEARS_DAY_2026 - 43200


@pytest.mark.parametrize("text", ["tomorrow", "2026-13-01", "01.12.2026", "18:00", ""])
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse_instant(text)
    assert str(caught.value) == f'{text!r} is not a date and time. Allowed: ISO 8601. Try "2026-12-01T18:00".'


def test_a_deadline_counts_from_now_or_is_a_date() -> None:
    assert parse_deadline("6h", now=1000.0) == 22600.0
    assert parse_deadline(" 2026-01-01T12:00", now=1000.0) == NOON_ON_NEW_YEARS_DAY_2026


def test_what_is_no_deadline_is_refused_with_both_ways_to_write_one() -> None:
    with pytest.raises(UnitError) as caught:
        parse_deadline("Friday", now=0.0)
    assert str(caught.value) == (
        "'Friday' is not a deadline. Allowed: a duration from now, or a date and time. "
        'Try "6h" or "2026-12-01T18:00".'
    )
    with pytest.raises(UnitError, match=r"'2026-40-01' is not a date and time"):
        parse_deadline("2026-40-01", now=0.0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (0.7, "0.7s"),
        (9.99, "9.99s"),
        (45.2, "45s"),
        (59.6, "1m"),
        (90.0, "1m 30s"),
        (3600.0, "1h"),
        (3605.0, "1h"),
        (5400.0, "1h 30m"),
        (187200.0, "2d 4h"),
        (86400.0 * 400, "400d"),
        (-90.0, "-1m 30s"),
        (math.inf, "never"),
        (math.nan, "never"),
    ],
)
def test_durations_are_written_with_their_two_leading_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.floats(0.0, 1e9))
@example(9.9999)
@example(59.9999)
@example(1e-7)
def test_a_written_duration_reads_back_to_within_its_smallest_unit(seconds: float) -> None:
    tolerance = 0.005 * seconds if seconds < 10 else 0.5 if seconds < 3600 else 60.5 if seconds < 86400 else 3600.5
    assert abs(parse_duration(format_duration(seconds)) - seconds) <= tolerance


@given(st.integers(0, 10**7), st.sampled_from(["ms", "s", "m", "h", "d", "w"]))
def test_whole_durations_are_read_exactly(count: int, unit: str) -> None:
    factor = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}[unit]
    assert parse_duration(f"{count}{unit}") == count * factor


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0B"), (999, "999B"), (1500, "1.5KB"), (24e9, "24.0GB"), (2.5e12, "2.5TB"), (7.04e6, "7.0MB")],
)
def test_sizes_are_written_with_one_digit(count: float, text: str) -> None:
    assert format_bytes(count) == text


@given(st.integers(0, 10**16))
def test_a_written_size_reads_back_to_within_its_digit(count: int) -> None:
    unit = max(unit for unit in (1, 10**3, 10**6, 10**9, 10**12) if count >= unit or unit == 1)
    assert abs(parse_bytes(format_bytes(count)) - count) <= 0.051 * unit


def test_allowed_sizes_are_spelled_as_people_write_them() -> None:
    with pytest.raises(UnitError, match="KB, MB, GB, TB, KiB, MiB, GiB or TiB"):
        parse_bytes("1ZB")
