"""Reports are numbered without gaps, whatever happens to the disk or the writer."""

import json
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.backends.agent.report_journal import (
    ReportJournalReader,
    ReportJournalWriter,
    last_report,
    read_report,
    report_line,
)
from penstock.core import Launch, Report, ReportKind, Worker, build, plain


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "reports.jsonl"


@pytest.fixture
def small_disk() -> Iterator[int]:
    """No file may grow beyond this many bytes: the same errors a full disk gives."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
    yield 200
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, before)


def grow_disk() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def seqs(path: Path) -> list[int]:
    return [report.seq for report in ReportJournalReader(path, "r").after(0)]


def test_a_second_writer_goes_on_counting(path: Path) -> None:
    for _ in range(3):
        writer = ReportJournalWriter(path, "r")
        writer.append(ReportKind.PROGRESS, {"step": 1})
        writer.close()
    assert seqs(path) == [1, 2, 3]


def test_a_line_that_was_cut_off_never_counts(path: Path) -> None:
    writer = ReportJournalWriter(path, "r")
    writer.append(ReportKind.PROGRESS, {"step": 1})
    writer.close()
    with path.open("ab") as file:
        file.write(b'{"seq": 2, "at": 1.0, "type": "failed", "tail": ["' + b"x" * 500)
    assert seqs(path) == [1]
    writer = ReportJournalWriter(path, "r")
    writer.append(ReportKind.FINISHED, {"code": 0})
    writer.close()
    assert b"xxx" not in path.read_bytes()
    assert [report.kind for report in ReportJournalReader(path, "r").after(1)] == [ReportKind.FINISHED]


def test_a_journal_cut_off_in_its_first_line_starts_over(path: Path) -> None:
    path.write_bytes(b'{"seq": 1, "at"')
    writer = ReportJournalWriter(path, "r")
    writer.append(ReportKind.LAUNCHED, {"pid": 1})
    writer.close()
    assert seqs(path) == [1]


def test_a_full_disk_delays_reports_and_loses_none(path: Path, small_disk: int) -> None:
    writer = ReportJournalWriter(path, "r")
    durable = [writer.append(ReportKind.PROGRESS, {"step": step}) for step in range(6)]
    assert durable[0]
    assert not durable[-1]
    assert seqs(path) == list(range(1, durable.count(True) + 1))
    grow_disk()
    assert writer.flush()
    writer.close()
    assert seqs(path) == [1, 2, 3, 4, 5, 6]


def test_the_last_number_is_found_without_reading_everything(path: Path) -> None:
    writer = ReportJournalWriter(path, "r")
    for step in range(40):
        writer.append(ReportKind.FAILED, {"code": 1, "tail": tuple("x" * 2000 for _ in range(step))})
    writer.close()
    assert last_report(path, "r")[:2] == (40, path.stat().st_size)
    assert last_report(path.with_name("none"), "r") == (0, 0, 0.0)


def test_following_reads_only_what_is_new(path: Path) -> None:
    writer, reader = ReportJournalWriter(path, "r"), ReportJournalReader(path, "r")
    for step in range(1, 6):
        writer.append(ReportKind.PROGRESS, {"step": step})
        assert [report.step for report in reader.after(step - 1)] == [step]
    assert [report.step for report in reader.after(2)] == [3, 4, 5]
    writer.close()


_text = st.text(max_size=8)
_line = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
_pairs = st.lists(st.tuples(_text, _text), max_size=3).map(tuple)
_workers = st.builds(Worker, id=_text, rank=st.integers(0, 9), node=_text, slot=st.integers(0, 9), device_env=_pairs)


@settings(max_examples=50)
@given(
    st.builds(
        Launch, run_id=_text, job_id=_text, command=st.lists(_text).map(tuple),
        workers=st.lists(_workers, max_size=3).map(tuple), env=_pairs, hang_after_s=st.none() | st.floats(0, 10),
    )
)  # fmt: skip
def test_launches_survive_the_way_through_json(launch: Launch) -> None:
    assert build(Launch, json.loads(json.dumps(plain(launch)))) == launch


@settings(max_examples=50)
@given(
    st.builds(
        Report, run_id=st.just("r"), seq=st.integers(1, 2**53), at=st.floats(0, 1e10), kind=st.sampled_from(ReportKind),
        step=st.none() | st.integers(0, 10**15), loss=st.none() | st.floats(-1, 1), in_place=st.none() | st.booleans(),
        tail=st.lists(_line, max_size=20).map(tuple), reason=st.none() | _line,
    )
)  # fmt: skip
def test_reports_survive_the_way_through_json(report: Report) -> None:
    assert read_report("r", report_line(report)) == report


def test_keys_of_a_newer_version_are_ignored_and_lines_of_an_earlier_one_are_read() -> None:
    report = read_report("r", b'{"seq": 1, "at": 2.0, "type": "finished", "code": 0, "mood": "good"}')
    assert (report.kind, report.code) == (ReportKind.FINISHED, 0)


def test_what_a_terminal_would_obey_is_not_in_a_report() -> None:
    said = "\x1b[2J\x1b]0;title\x07red \x1b[31mline\x1b[0m\x9b2J\ttab\n"
    line = {"seq": 1, "at": 2.0, "type": "checkpoint_failed", "step": 1, "reason": said, "path": said, "tail": [said]}
    report = read_report("r", json.dumps(line).encode())
    assert report.reason == report.path == report.tail[0] == "]0;titlered line2J\ttab\n"
