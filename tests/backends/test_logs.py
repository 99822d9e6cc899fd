"""Logs are bounded on the disk and endless to their readers; scripts speak through them."""

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.backends.agent.log_times import LogTimes, times_of
from penstock.backends.agent.logs import LogWriter, offset_since, read_log, segments
from penstock.backends.agent.outputs import WorkerLog, WorkerOutput
from penstock.backends.agent.progress import parse_file, parse_line, parse_metrics
from penstock.core import ReportKind


def filled(path: Path, lines: int) -> bytes:
    """A log of numbered lines of 10 bytes each, rotated every 100 bytes, two files kept."""
    writer = LogWriter(path, rotate_bytes=100, kept=2)
    written = b"".join(b"line %04d\n" % i for i in range(lines))
    for start in range(0, len(written), 10):
        writer.write(written[start : start + 10])
    writer.close()
    return written


def test_rotation_bounds_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "merged.log"
    filled(path, 95)
    assert [(one.start, one.path.name) for one in segments(path)] == [
        (700, "merged.log.700"), (800, "merged.log.800"), (900, "merged.log"),
    ]  # fmt: skip
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) == 250


@pytest.mark.parametrize("limit", [7, 64, 1000])
def test_a_reader_keeps_its_place_across_rotations(tmp_path: Path, limit: int) -> None:
    path = tmp_path / "merged.log"
    written = filled(path, 28)
    read, offset = b"", 0
    while page := read_log(path, offset, limit):
        if not page[0]:
            break
        read, offset = read + page[0], page[1]
    assert read == written
    assert offset == len(written)


def test_reading_while_the_log_rotates(tmp_path: Path) -> None:
    path = tmp_path / "merged.log"
    written = b"".join(b"line %06d\n" % i for i in range(8000))

    def write() -> None:
        writer = LogWriter(path, rotate_bytes=400, kept=1000)
        for start in range(0, len(written), 12):
            writer.write(written[start : start + 12])
        writer.close()

    writing = threading.Thread(target=write)
    writing.start()
    read = b""
    while writing.is_alive() or len(read) < len(written):
        page, offset = read_log(path, len(read), 4096)
        read += page
        assert offset == len(read)
        assert written.startswith(read)
    writing.join()


def test_a_reader_that_was_away_too_long_goes_on_with_the_oldest(tmp_path: Path) -> None:
    path = tmp_path / "merged.log"
    written = filled(path, 95)
    data, following = read_log(path, 0, 10)
    assert (data, following) == (written[700:710], 710)
    assert read_log(path, 5000, 10) == (b"", 5000)
    assert read_log(tmp_path / "none" / "x.log", 0, 10) == (b"", 0)


def test_a_writer_that_comes_back_appends(tmp_path: Path) -> None:
    path = tmp_path / "merged.log"
    filled(path, 25)
    filled(path, 25)
    assert segments(path)[-1].start + path.stat().st_size == 500


def test_output_is_found_by_when_it_was_written(tmp_path: Path) -> None:
    path, clock = tmp_path / "merged.log", iter([100.0, 100.4, 130.0, 190.0, 200.0]).__next__
    log = LogWriter(path, rotate_bytes=60, kept=1, times=LogTimes(path, clock))
    for name in (b"a", b"b", b"c", b"d"):
        log.write(name * 19 + b"\n")
    found = {moment: read_log(path, offset_since(path, moment), 1)[0] for moment in (0.0, 101.0, 130.5, 131.5, 191.5)}
    assert found == {0.0: b"a", 101.0: b"c", 130.5: b"c", 131.5: b"d", 191.5: b""}
    assert offset_since(path, 191.5) == 80
    log.close()


def test_times_are_kept_as_long_as_the_output(tmp_path: Path) -> None:
    path, clock = tmp_path / "merged.log", iter(range(0, 10_000, 10)).__next__
    log = LogWriter(path, rotate_bytes=100, kept=2, times=LogTimes(path, clock))
    for number in range(95):
        log.write(b"line %04d\n" % number)
    log.close()
    assert len(times_of(path).read_text().splitlines()) == 25
    assert offset_since(path, 0.0) == 700
    assert read_log(path, offset_since(path, 900.0), 9)[0] == b"line 0090"


def test_a_log_without_times_is_read_whole(tmp_path: Path) -> None:
    filled(tmp_path / "merged.log", 5)
    assert offset_since(tmp_path / "merged.log", 1e9) == 0
    assert offset_since(tmp_path / "none.log", 1e9) == 0


def test_lines_of_both_streams_are_kept_whole(tmp_path: Path) -> None:
    merged = LogWriter(tmp_path / "merged.log")
    heard: list[tuple[str, str]] = []
    log = WorkerLog(tmp_path / "w0", merged, 3, lambda stream, line: heard.append((stream, line)))
    output = WorkerOutput(tmp_path / "w0", log)
    out, err = (stream.fifo.open("wb", buffering=0) for stream in output.streams)
    out.write(b"one\ntw")
    err.write(b"wrong \xff\n")
    for stream in output.streams:
        output.read(stream)
    out.write(b"o\nend without newline")
    out.close()
    err.close()
    output.close()
    merged.close()
    assert sorted(heard) == [
        ("stderr", "wrong \ufffd"), ("stdout", "end without newline"), ("stdout", "one"), ("stdout", "two"),
    ]  # fmt: skip
    assert (tmp_path / "merged.log").read_bytes() == b"[3] one\n[3] wrong \xff\n[3] two\n[3] end without newline\n"
    assert (tmp_path / "w0" / "stdout.log").read_bytes() == b"one\ntwo\nend without newline"
    assert list(log.tail()) == ["one", "wrong \ufffd", "two", "end without newline"]
    left = {file.name.removesuffix(".times") for file in (tmp_path / "w0").iterdir()}
    assert left == {"output.log", "stderr.log", "stdout.log"}


def test_output_without_any_newline_is_cut_into_lines(tmp_path: Path) -> None:
    merged = LogWriter(tmp_path / "merged.log")
    heard: list[str] = []
    output = WorkerOutput(tmp_path / "w0", WorkerLog(tmp_path / "w0", merged, 0, lambda _, line: heard.append(line)))
    with output.streams[0].fifo.open("wb", buffering=0) as out:
        for _ in range(5):
            out.write(b"x" * 30_000)
            output.read(output.streams[0])
    output.close()
    merged.close()
    assert "".join(heard) == "x" * 150_000
    assert len(heard) == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("penstock: step=120 total=1000 loss=1.23", {"step": 120, "total": 1000, "loss": 1.23}),
        ("  penstock: samples_per_s=5e2 step=1 colour=red", {"step": 1, "samples_per_s": 500.0}),
        ("penstock: step=4 loss=nan total=many", {"step": 4}),
    ],
)
def test_progress_lines(line: str, said: dict[str, float]) -> None:
    assert parse_line(line) == (ReportKind.PROGRESS, said)


def test_checkpoint_lines() -> None:
    line = "penstock: checkpointed step=5 path=/data/5 blocking_s=0.2"
    assert parse_line(line) == (ReportKind.CHECKPOINTED, {"step": 5, "path": "/data/5", "blocking_s": 0.2})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("penstock: unreadable step=9 used=4 reason=at step=7", {"step": 9, "used": 4, "reason": "at step=7"}),
        ("penstock: unreadable step=9 used=none", {"step": 9, "reason": ""}),
    ],
)
def test_lines_of_unreadable_checkpoints(line: str, said: dict[str, object]) -> None:
    assert parse_line(line) == (ReportKind.CHECKPOINT_UNREADABLE, said)
    assert parse_metrics(line) == []


@pytest.mark.parametrize(
    "line", ["step=3", "penstock: hello", "penstock:", "my penstock: step=1", "penstock: step=one"]
)
def test_other_lines_say_nothing(line: str) -> None:
    assert parse_line(line) is None


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ('{"step": 3, "total": 9}', 3), ("step=1\nstep=2\n", 2), ("penstock: step=4", 4),
        ("", None), ("{}", None), ("{broken", None), ("[1]", None),
    ],
)  # fmt: skip
def test_progress_files(text: str, step: int | None) -> None:
    said = parse_file(text)
    assert (said[1]["step"] if said else None) == step


@given(st.text())
def test_no_line_disturbs_the_parser(text: str) -> None:
    parse_line(text)
    parse_line("penstock: " + text)
    parse_file(text)
    parse_file("{" + text)
