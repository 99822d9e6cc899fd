"""What a kernel said: since a moment, about devices, and about kills where somebody was killed."""

import time
from pathlib import Path

import pytest

from penstock.diagnose import Doctor, kernel_lines, text_source
from penstock.diagnose.logs import kernel_log


def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *texts: str) -> Path:
    """A kernel's buffer of one record a second, read record by record as the device does."""
    now = time.clock_gettime(time.CLOCK_MONOTONIC)
    told = [f"6,{number},{int((now + number) * 1e6)},-;{text}\n KEY=1\n" for number, text in enumerate(texts)]
    feed = iter(told)
    monkeypatch.setattr(kernel_log, "_next_record", lambda _: next(feed, ""))
    (tmp_path / "kmsg").write_text("")
    return tmp_path / "kmsg"


def test_devices_are_told_of_and_kills_only_if_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ("NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.", "usb 1-1: new device",
             "Out of memory: Killed process 7 (python)")  # fmt: skip
    lines = kernel_lines(0.0, kills=False, source=records(tmp_path, monkeypatch, *texts))
    assert [line.partition("] ")[2] for line in lines] == [texts[0]]
    assert Doctor.shipped().diagnose([text_source("\n".join(lines))]).category == "hw.gpu_lost"
    lines = kernel_lines(0.0, kills=True, source=records(tmp_path, monkeypatch, *texts))
    assert len(lines) == 2


def test_what_was_said_before_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = records(tmp_path, monkeypatch, "NVRM: first", "NVRM: second", "NVRM: third")
    assert len(kernel_lines(time.time() + 1.5, kills=False, source=source)) == 1


def test_a_log_that_may_not_be_read_says_nothing(tmp_path: Path) -> None:
    assert kernel_lines(0.0, kills=True, source=tmp_path / "nothing") == []
    (tmp_path / "kmsg").write_text("not a record")
    assert kernel_lines(0.0, kills=True, source=tmp_path / "kmsg") == []
