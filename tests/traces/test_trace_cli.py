"""``penstock trace`` from the outside."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from penstock.cli.study.trace import app
from penstock.core import InputError, TraceError
from penstock.simulate.traces import TraceJob, describe, read_trace
from penstock.simulate.traces.records import Trace

WriteFile = Callable[[str, str], Path]

PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09,60,4,240,vc\n2017-10-10,60,0,0,vc\n"
TABLE = "global_batch_size,1,4\n64,6.0,8.5\n"


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


def test_describe_prints_a_table(write: WriteFile) -> None:
    out = _run("describe", write("t.csv", PHILLY)).stdout
    assert "t (philly)" in out
    assert "no GPU: 1" in out


def test_describe_json_is_all_there_is_on_stdout(write: WriteFile) -> None:
    found = json.loads(_run("describe", write("t.csv", PHILLY), "--json").stdout)
    assert (found["jobs"], found["sizes"], found["best_effort"]) == (1, {"4": 1}, 1.0)
    assert found["skipped"] == {"no GPU": 1}


def test_names_with_brackets_are_shown_as_they_are(write: WriteFile) -> None:
    out = _run("describe", write("t.csv", "id,submitted,duration,model\na,0,1,[red]\n")).stdout
    assert "[red]: 1" in out


def test_generate_writes_csv_to_stdout_and_words_to_stderr() -> None:
    result = _run("generate", "--jobs", 3, "--seed", 4)
    assert len(result.stdout.splitlines()) == 4
    assert result.stdout.startswith("id,submitted,")
    assert "demo curves" in result.stderr
    assert result.stdout == _run("generate", "--jobs", 3, "--seed", 4).stdout


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.jsonl.gz"])
def test_generate_into_a_file(tmp_path: Path, name: str) -> None:
    options = ["--interval", "2m", "--best-effort", "1", "--tenants", "2"]
    assert _run("generate", "--jobs", 200, *options, "--out", tmp_path / name).stdout == ""
    trace = read_trace(tmp_path / name)
    assert len(trace) == 200
    assert describe(trace).best_effort == 1
    assert describe(trace).tenants == 2


def test_generate_aims_at_a_load(tmp_path: Path) -> None:
    _run("generate", "--jobs", 5000, "--cluster", "4x8xA100", "--load", 2.0, "--out", tmp_path / "t.csv")
    found = describe(read_trace(tmp_path / "t.csv"))
    assert found.device_hours * 3600 / found.span_s / 32 == pytest.approx(2.0, rel=0.15)


def test_generate_wants_an_interval_or_a_load() -> None:
    with pytest.raises(InputError, match="both --interval and a load"):
        _run("generate", "--jobs", 1, "--interval", "60", "--load", "0.5")


def test_convert_keeps_what_is_there(tmp_path: Path, write: WriteFile) -> None:
    result = _run("convert", write("t.csv", PHILLY), tmp_path / "out.jsonl")
    assert "1 job written" in result.stderr
    assert "1 row with no GPU left out" in result.stderr
    (job,) = read_trace(tmp_path / "out.jsonl")
    assert job == TraceJob(id="philly-0", submitted_at=0, devices=4, duration_s=60, tenant="vc")


def test_convert_takes_the_options_of_generate(tmp_path: Path, write: WriteFile) -> None:
    source = write("t.csv", PHILLY)
    assert _run("convert", source, "--out", tmp_path / "o.jsonl").exit_code == 0
    assert len(read_trace(tmp_path / "o.jsonl")) == 1
    assert len(_run("convert", source).stdout.splitlines()) == 2
    with pytest.raises(InputError, match="both"):
        _run("convert", source, tmp_path / "a.csv", "--out", tmp_path / "b.csv")


def test_convert_draws_models_and_deadlines(tmp_path: Path, write: WriteFile) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "bert.csv").write_text(TABLE)
    source = write("t.csv", PHILLY)
    _run("convert", source, tmp_path / "o.csv", "--profiles", tmp_path / "tables", "--deadlines", "2..2")
    (job,) = read_trace(tmp_path / "o.csv")
    assert (job.model, job.batch, job.iterations, job.deadline) == ("bert", 64, 60 * 8.5, 120)


def test_convert_refuses_to_overwrite(tmp_path: Path, write: WriteFile) -> None:
    source, taken = write("t.csv", PHILLY), write("taken.csv", "old")
    with pytest.raises(TraceError, match="--force"):
        _run("convert", source, taken)
    with pytest.raises(TraceError, match="is the trace being read"):
        _run("convert", source, source, "--force")
    assert (source.read_text(), taken.read_text()) == (PHILLY, "old")
    assert _run("convert", source, taken, "--force").exit_code == 0
    assert len(read_trace(taken)) == 1


@pytest.mark.parametrize("deadlines", ["soon", "2..1", "0..1", "..", "1..x"])
def test_impossible_deadlines_leave_no_file(tmp_path: Path, write: WriteFile, deadlines: str) -> None:
    with pytest.raises(InputError, match="deadlines"):
        _run("convert", write("t.csv", PHILLY), tmp_path / "o.csv", "--deadlines", deadlines)
    assert not (tmp_path / "o.csv").exists()


def test_description_of_a_trace_without_durations() -> None:
    jobs = (TraceJob(id="a", submitted_at=0, iterations=5, deadline=9),)
    found = describe(Trace(name="t", format="plain", jobs=jobs))
    assert (found.durations_s, found.slack, found.device_hours) == ({}, {}, 0)
    assert not math.isnan(found.best_effort)
