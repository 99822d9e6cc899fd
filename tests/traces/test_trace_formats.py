"""The public formats: what is read, what is skipped, what is refused."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.core import TraceError
from penstock.simulate.traces import FORMATS, Ending, TraceJob, read_trace

WriteFile = Callable[[str, str], Path]

RELEASED = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
ARTIFACT = "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort\n"
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n"
ALIBABA = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)


def test_elasticflow_released_spelling(write: WriteFile) -> None:
    trace = read_trace(write("small.csv", RELEASED + "x,100,3249,bert,700,64,8,1075"))
    assert (trace.name, trace.format) == ("small", "elasticflow")
    assert trace.jobs == (
        TraceJob(
            id="x", submitted_at=100, devices=8, duration_s=1075, iterations=3249, model="bert", batch=64, deadline=700
        ),
    )  # fmt: skip


def test_elasticflow_artifact_spelling_and_best_effort(write: WriteFile) -> None:
    rows = "0,5,10,bert,70,64,1,20,1\n1,5,10,bert,70,64,1,20,0\n"
    first, second = read_trace(write("t.csv", ARTIFACT + rows))
    assert (first.deadline, second.deadline) == (None, 70)


def test_elasticflow_reads_iteration_beside_extra_columns(write: WriteFile) -> None:
    header = "job_id,submit_time,real_iteration,model_name,ddl,batch_size,num_gpu,real_duration,duration,iteration\n"
    (job,) = read_trace(write("t.csv", header + "0,0,99,vgg16,50,256,1,88,77,66\n"))
    assert (job.iterations, job.duration_s) == (66, 77)


def test_jobs_are_ordered_by_submission_then_by_row(write: WriteFile) -> None:
    rows = "".join(f"{name},{at},1,bert,999,64,1,1\n" for name, at in [("c", 9), ("b", 4), ("a", 4)])
    assert [job.id for job in read_trace(write("t.csv", RELEASED + rows))] == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("row", "column", "allowed"),
    [
        ("x,abc,1,bert,9,64,1,1", "submission_time", "a number"),
        ("x,-1,1,bert,9,64,1,1", "submission_time", "zero or more seconds"),
        ("x,0,nan,bert,9,64,1,1", "num_iteration", "a finite number"),
        ("x,0,0,bert,9,64,1,1", "num_iteration", "above 0"),
        ("x,0,1,,9,64,1,1", "model_name", "a name"),
        ("x,0,1,bert,0,64,1,1", "deadline", "after the submission"),
        ("x,5,1,bert,4,64,1,1", "deadline", "after the submission"),
        ("x,0,1,bert,9,6.5,1,1", "batch_size", "a whole number"),
        ("x,0,1,bert,9,64,0,1", "num_gpu", "a whole number, 1 or more"),
        ("x,0,1,bert,9,64,1,", "duration", "a number"),
        ("x,0,1,bert,9,64,1,-3", "duration", "above 0"),
        ("ok,0,1,bert,9,64,1,1", "job_id", "every id once.*Line 2"),
    ],
)
def test_a_bad_cell_is_named_with_file_line_and_column(write: WriteFile, row: str, column: str, allowed: str) -> None:
    path = write("bad.csv", RELEASED + "ok,0,1,bert,9,64,1,1\n" + row + "\n")
    with pytest.raises(TraceError, match=rf"bad\.csv, line 3, column '{column}'.*Allowed: .*{allowed}"):
        read_trace(path)


def test_best_effort_is_a_flag(write: WriteFile) -> None:
    with pytest.raises(TraceError, match=r"column 'best_effort': 'yes'. Allowed: 0 or 1"):
        read_trace(write("t.csv", ARTIFACT + "0,5,10,bert,70,64,1,20,yes\n"))


def test_philly_starts_at_zero_and_counts_what_it_skips(write: WriteFile) -> None:
    rows = (
        "2017-10-09 00:00:30,66.0,4,264.0,vc2\n"
        "2017-10-09 00:00:00,10.0,1,10.0,vc1\n"
        "2017-10-08 00:00:00,10.0,0,0,vc1\n"
        "2017-10-08 00:00:00,0,1,0,vc1\n"
        "2017-10-08 00:00:00,-5,1,0,vc1\n"
    )
    trace = read_trace(write("t.csv", PHILLY + rows))
    assert trace.jobs == (
        TraceJob(id="philly-1", submitted_at=0, devices=1, duration_s=10, tenant="vc1"),
        TraceJob(id="philly-0", submitted_at=30, devices=4, duration_s=66, tenant="vc2"),
    )
    assert dict(trace.skipped) == {"no GPU": 1, "no run time": 2}


@pytest.mark.parametrize(("row", "column"), [("yesterday,1,1,1,vc", "timestamp"), ("2017-10-09,1,-1,1,vc", "num_gpus")])
def test_philly_bad_cells(write: WriteFile, row: str, column: str) -> None:
    with pytest.raises(TraceError, match=f"line 2, column '{column}'"):
        read_trace(write("t.csv", PHILLY + row))


def test_alibaba_shares_become_whole_devices(write: WriteFile) -> None:
    rows = (
        "whole,1,1,8,1000,V100M16|V100M32,LS,Running,10,110,20\n"
        "part,1,1,1,460,,BE,Failed,5,9,6\n"
        "cpu,1,1,0,0,,LS,Running,0,9,1\n"
        "waiting,1,1,1,1000,,BE,Pending,0,9,\n"
        "instant,1,1,1,1000,,BE,Failed,0,9,9\n"
    )
    trace = read_trace(write("t.csv", ALIBABA + rows))
    assert trace.jobs == (
        TraceJob(id="part", submitted_at=5, devices=1, duration_s=3, tenant="BE", waited_s=1, ending=Ending.FAILED),
        TraceJob(
            id="whole",
            submitted_at=10,
            devices=8,
            duration_s=90,
            tenant="LS",
            kinds=("V100M16", "V100M32"),
            waited_s=10,
            ending=Ending.RUNNING,
        ),
    )
    assert dict(trace.skipped) == {"no GPU": 1, "no start or end": 1, "no run time": 1}


def test_a_trace_of_which_nothing_is_left_says_why(write: WriteFile) -> None:
    with pytest.raises(TraceError, match=r"no job that can be used \(left out: 1 with no GPU\)"):
        read_trace(write("t.csv", ALIBABA + "cpu,1,1,0,0,,LS,Running,0,9,1\n"))


def test_an_unknown_header_lists_formats_closest_first(write: WriteFile) -> None:
    with pytest.raises(TraceError) as caught:
        read_trace(write("pods.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,1\n"))
    formats = re.findall(r"(\w+) \(missing: ([^)]*)\)", caught.value.allowed)
    assert formats[0] == ("alibaba", "creation_time, deletion_time, scheduled_time")
    assert {name for name, _ in formats} == {known.name for known in FORMATS}
    assert "without a header: gavel, swf" in caught.value.allowed
    assert "submission_time/submit_time" in dict(formats)["elasticflow"]


def test_a_misspelt_required_column_is_pointed_out(write: WriteFile) -> None:
    with pytest.raises(TraceError, match=r"Did you mean 'submitted' where the file says 'submited'\?"):
        read_trace(write("t.csv", "id,submited,duration\na,0,1\n"))


def test_a_readable_path_may_be_anywhere(tmp_path: Path, write: WriteFile) -> None:
    nested = tmp_path / "a.b" / "200jobs_0.1.csv"
    nested.parent.mkdir()
    nested.write_text(RELEASED + "x,0,1,bert,9,64,1,1\n")
    assert read_trace(nested).name == "200jobs_0.1"
