"""Our own format, both ways."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import TraceError, UnknownNameError
from penstock.simulate.traces import TraceJob, read_trace, write_trace, write_trace_csv, write_trace_jsonl
from penstock.simulate.traces.files import Table
from penstock.simulate.traces.formats.plain import read, table_of_jsonl

WriteFile = Callable[[str, str], Path]

HEADER = "id,submitted,devices,duration,iterations,model,batch,deadline,tenant\n"

_words = st.text(min_size=1, max_size=12).map(str.strip).filter(bool)
_positive = st.floats(min_value=1e-6, max_value=1e12)


@st.composite
def records(draw: st.DrawFn, job_id: str) -> TraceJob:
    submitted = draw(st.floats(min_value=0, max_value=1e9))
    duration = draw(st.none() | _positive)
    model = draw(st.just("") | _words)
    return TraceJob(
        id=job_id,
        submitted_at=submitted,
        devices=draw(st.integers(1, 4096)),
        duration_s=duration,
        iterations=draw(_positive if duration is None else st.none() | _positive),
        model=model,
        batch=draw(st.integers(0, 10**6)) if model else 0,
        deadline=draw(st.none() | st.floats(min_value=1, max_value=1e9).map(lambda slack: submitted + slack)),
        tenant=draw(_words),
    )


@st.composite
def traces(draw: st.DrawFn) -> list[TraceJob]:
    ids = draw(st.lists(_words, min_size=1, max_size=5, unique=True))
    return sorted((draw(records(job_id)) for job_id in ids), key=lambda job: job.submitted_at)


@given(traces())
def test_csv_and_jsonl_bring_back_what_was_written(jobs: list[TraceJob]) -> None:
    csv_text, jsonl_text = io.StringIO(newline=""), io.StringIO(newline="")
    assert write_trace_csv(jobs, csv_text) == write_trace_jsonl(jobs, jsonl_text) == len(jobs)
    from_csv = read(Table.from_csv("t.csv", io.StringIO(csv_text.getvalue(), newline="\n")))
    from_jsonl = read(table_of_jsonl("t.jsonl", io.StringIO(jsonl_text.getvalue(), newline="\n")))
    assert list(from_csv) == list(from_jsonl) == jobs


def test_times_are_written_as_people_write_them(write: WriteFile) -> None:
    text = HEADER + "a,1h,2,1h30m,,,,+2h,lab\nb,7200,,90,100,bert,64,3h,\nc,2h,1,1d,,,,,\n"
    a, b, c = read_trace(write("t.csv", text))
    assert a == TraceJob(
        id="a", submitted_at=3600, devices=2, duration_s=5400, deadline=10800, tenant="lab"
    )  # fmt: skip
    assert b == TraceJob(
        id="b", submitted_at=7200, duration_s=90, iterations=100, model="bert", batch=64, deadline=10800
    )
    assert c.deadline is None


def test_only_id_submitted_and_an_amount_are_needed(write: WriteFile) -> None:
    (job,) = read_trace(write("t.csv", "iterations,id,submitted\n500,a,0\n"))
    assert job == TraceJob(id="a", submitted_at=0, iterations=500)


def test_jsonl_takes_numbers_strings_and_nulls(write: WriteFile) -> None:
    lines = [
        '{"id": 7, "submitted": 0, "duration": "2h", "deadline": null}',
        "",
        '{"id": "b", "submitted": 1, "iterations": 5}',
    ]
    first, second = read_trace(write("t.jsonl", "\n".join(lines)))
    assert (first.id, first.duration_s, second.iterations) == ("7", 7200, 5)


@pytest.mark.parametrize(
    ("row", "column", "allowed"),
    [
        ("a,-5,1,60,,,,,", "submitted", "zero or more seconds"),
        ("a,,1,60,,,,,", "submitted", "zero or more seconds"),
        ("a,6 parsecs,1,60,,,,,", "submitted", '"6h"'),
        ("a,0,1,0,,,,,", "duration", "more than 0 seconds"),
        ("a,0,1,,-1,,,,", "iterations", "above 0"),
        ("a,0,1,,,,,,", "id", "a duration or iterations"),
        ("a,0,none,60,,,,,", "devices", "a number"),
        ("a,0,1,60,,,64,,", "batch", "together with a model"),
        ("a,10,1,60,,,,10,", "deadline", "after the submission at 10 s.*\\+2h"),
        ("a,10,1,60,,,,+0,", "deadline", "after the submission"),
        ("a,10,1,60,,,,+,", "deadline", "zero or more seconds"),
        (",0,1,60,,,,,", "id", "a name"),
    ],
)
def test_bad_cells(write: WriteFile, row: str, column: str, allowed: str) -> None:
    with pytest.raises(TraceError, match=rf"t\.csv, line 2, column '{column}'.*Allowed: .*{allowed}"):
        read_trace(write("t.csv", HEADER + row + "\n"))


def test_an_unknown_column_is_refused_with_the_nearest(write: WriteFile) -> None:
    with pytest.raises(UnknownNameError, match=r"t\.csv.*'deadlin'.*Did you mean 'deadline'\?"):
        read_trace(write("t.csv", "id,submitted,duration,deadlin\na,0,1,2\n"))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"id": "b", "submitted": 0, "duratio": 5}', "t.jsonl, line 2.*'duratio'.*Did you mean 'duration'"),
        ('{"id": "b", ', "line 2: not JSON"),
        ("[1, 2]", "line 2: .*one JSON object per line"),
        ('{"id": "b", "submitted": 0, "duration": [5]}', r"line 2, column 'duration': \[5\]"),
        ('{"id": "b", "submitted": true, "duration": 5}', "line 2, column 'submitted': True"),
        ('{"id": "b", "submitted": 0, "duration": NaN}', "line 2, column 'duration': 'nan'"),
        ('{"id": "b", "duration": 5}', "line 2, column 'submitted': ''"),
        ('{"id": "a", "submitted": 0, "duration": 5}', "line 2, column 'id': 'a'.*Line 1"),
    ],
)
def test_bad_json_lines(write: WriteFile, line: str, complaint: str) -> None:
    path = write("t.jsonl", '{"id": "a", "submitted": 0, "duration": 5}\n' + line + "\n")
    with pytest.raises((TraceError, UnknownNameError), match=complaint):
        read_trace(path)


JOBS = [TraceJob(id="a", submitted_at=0, duration_s=60), TraceJob(id="b", submitted_at=0.5, iterations=7)]


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.csv.gz", "t.jsonl.gz"])
def test_files_of_every_suffix_read_back(tmp_path: Path, name: str) -> None:
    assert write_trace(tmp_path / name, JOBS) == 2
    assert list(read_trace(tmp_path / name)) == JOBS
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_jsonl_leaves_out_what_is_not_known(tmp_path: Path) -> None:
    write_trace(tmp_path / "t.jsonl", JOBS)
    first = json.loads((tmp_path / "t.jsonl").read_text().splitlines()[0])
    assert first == {"id": "a", "submitted": 0, "devices": 1, "duration": 60, "tenant": "default"}


def test_equal_jobs_give_equal_compressed_bytes(tmp_path: Path) -> None:
    write_trace(tmp_path / "one.csv.gz", JOBS)
    write_trace(tmp_path / "two.csv.gz", JOBS)
    assert (tmp_path / "one.csv.gz").read_bytes() == (tmp_path / "two.csv.gz").read_bytes()


def _interrupted(error: BaseException) -> Iterator[TraceJob]:
    yield JOBS[0]
    raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), TraceError("bad row"), OSError(28, "No space left")])
@pytest.mark.parametrize("name", ["t.csv", "t.jsonl.gz"])
def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, name: str, error: BaseException
) -> None:
    (tmp_path / name).write_text("old")
    with pytest.raises((KeyboardInterrupt, TraceError)):
        write_trace(tmp_path / name, _interrupted(error), overwrite=True)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "old"


def test_what_may_not_be_written(tmp_path: Path) -> None:
    taken = tmp_path / "taken.csv"
    taken.write_text("old")
    with pytest.raises(TraceError, match=r"exists.*--force"):
        write_trace(taken, JOBS)
    with pytest.raises(TraceError, match="is the trace being read"):
        write_trace(taken, JOBS, overwrite=True, source=tmp_path / "." / "taken.csv")
    with pytest.raises(TraceError, match="existing directory"):
        write_trace(tmp_path / "no" / "t.csv", JOBS)
    with pytest.raises(TraceError, match=r"\.csv, \.jsonl"):
        write_trace(tmp_path / "t.xlsx", JOBS)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(TraceError, match="not a regular file"):
        write_trace(tmp_path / "folder.csv", JOBS, overwrite=True)
    assert taken.read_text() == "old"
