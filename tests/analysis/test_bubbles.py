"""Devices that are held and not used, from samples."""

from pathlib import Path

import pytest

from penstock.core import InputError, TraceError
from penstock.simulate import Sample, bubbles_of, read_samples

PERIOD = 60.0


def samples(devices: dict[str, list[float]], job: str = "j") -> list[Sample]:
    """One sample a minute for each device."""
    count = len(next(iter(devices.values())))
    return [Sample(i * PERIOD, job, name, busy[i]) for i in range(count) for name, busy in devices.items()]


def test_a_session_that_is_kept_is_a_whole_bubble() -> None:
    found = bubbles_of(samples({"a": [90.0] * 10 + [0.0] * 50, "b": [90.0] * 10 + [0.0] * 50}))["j"]
    assert found.held_s == 2 * 59 * PERIOD
    assert found.whole_s == pytest.approx(2 * 49 * PERIOD)
    assert found.part_s == 0


def test_a_device_that_never_works_beside_a_busy_one_is_a_part_bubble() -> None:
    found = bubbles_of(samples({"a": [90.0] * 60, "b": [0.0] * 60}))["j"]
    assert (found.whole_s, found.part_s) == (0, pytest.approx(59 * PERIOD))


def test_short_pauses_are_part_of_working() -> None:
    assert bubbles_of(samples({"a": [90.0, 0.0, 0.0, 0.0] * 15}))["j"].idle_s == 0


def test_a_gap_between_samples_says_nothing() -> None:
    gap = [Sample(0.0, "j", "a", 0.0), Sample(100_000.0, "j", "a", 0.0)]
    assert bubbles_of(gap)["j"].held_s == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("time,job,busy\n1,j,0\n", "no column device"),
        ("time,job,device,busy\n1,j,a,much\n", "line 2"),
        ("time,job,device,busy\n5,j,a,1\n4,j,a,1\n", "in order of time"),
    ],
)
def test_samples_that_make_no_sense_are_refused(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "samples.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=said):
        list(read_samples(file))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"nowhere\.csv"):
        list(read_samples(tmp_path / "nowhere.csv"))
