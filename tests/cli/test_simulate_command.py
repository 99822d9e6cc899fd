"""``penstock simulate`` and ``penstock policies`` as a person meets them: real processes, real files."""

import csv
import gzip
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.policies import POLICIES
from penstock.simulate.traces import Profiles, generate, write_trace
from tests.tools.commandline import penstock

HEADER = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traces") / "small.csv"
    write_trace(path, generate(40, seed=5, profiles=Profiles.builtin(), mean_interval_s=300, best_effort=0.2))
    return path


def test_compares_policies_in_one_table(trace: Path, tmp_path: Path) -> None:
    done = penstock("simulate", trace, "--cluster", "2x8", "--policy", "fifo,deadline", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "40 jobs on 2x8" in lines[0]
    assert [line.split()[0] for line in lines[2:]] == ["fifo", "deadline"]
    assert "built-in demo curves" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_json_has_the_documented_fields_and_is_the_same_for_the_same_seed(trace: Path, tmp_path: Path) -> None:
    arguments = ("simulate", trace, "--cluster", "2x8", "--policy", "srtf,elasticflow", "--seed", "3", "--json")
    reports = [json.loads(penstock(*arguments, cwd=tmp_path).stdout) for _ in range(2)]
    for report in reports:
        assert report["trace"] == "small"
        assert report["cluster"] == "2x8"
        for result in report["results"]:
            assert result.keys() >= {
                "policy", "jobs", "met", "ratio", "declined", "late", "jct_mean_s", "utilisation", "rescales", "cpu_s",
            }  # fmt: skip
            for timing in ("cpu_s", "decision_mean_ms", "decision_p99_ms"):
                del result[timing]
    assert reports[0] == reports[1]


def test_writes_rows_and_pictures(trace: Path, tmp_path: Path) -> None:
    arguments = ("simulate", trace, "--cluster", "2x8", "--policy", "fifo,edf", "--out", "runs/a", "--picture")
    done = penstock(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = {path.name for path in (tmp_path / "runs" / "a").iterdir()}
    assert written == {"summary.json", "fifo.csv", "edf.csv", "fifo.html", "edf.html"}
    with (tmp_path / "runs" / "a" / "fifo.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 40
    again = penstock(*arguments, cwd=tmp_path)
    assert again.returncode == 2
    assert "--force" in again.stderr


def test_parquet_rows(trace: Path, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    penstock("simulate", trace, "--policy", "fifo", "--out", "p", "--rows", "parquet", cwd=tmp_path)
    assert pq.read_table(tmp_path / "p" / "fifo.parquet").num_rows == 40


def test_policies_lists_everything_with_its_source(tmp_path: Path) -> None:
    listed = json.loads(penstock("policies", "--json", cwd=tmp_path).stdout)
    names = {entry["policy"] for entry in listed}
    assert set(POLICIES) <= names
    assert {"edf-artifact", "gandiva-artifact", "tiresias-artifact"} <= names
    assert all(entry["summary"] and entry["source"] for entry in listed)


def _text(name: str, content: str) -> tuple[str, bytes]:
    return name, content.encode()


BAD_TRACES = {
    "missing columns": (_text("t.csv", "job_id,submission_time\na,0\n"), "num_iteration"),
    "negative time": (_text("t.csv", HEADER + "a,-5,100,m,100,1,1,10\n"), "-5"),
    "deadline before submit": (_text("t.csv", HEADER + "a,50,100,demo-cnn,40,64,1,10\n"), "deadline"),
    "unknown model": (_text("t.csv", HEADER + "a,0,100,demo-cnm,400,64,1,10\n"), "demo-cnn"),
    "truncated gzip": (("t.csv.gz", gzip.compress(HEADER.encode() * 500)[:60]), "gzip"),
    "not UTF-8": (("t.csv", HEADER.encode() + b"\xff\xfe,0,1,m,9,1,1,1\n"), "UTF-8"),
    "empty": (_text("t.csv", ""), "empty"),
}


@pytest.mark.parametrize("case", sorted(BAD_TRACES))
def test_a_bad_trace_gets_one_clear_message_and_writes_nothing(case: str, tmp_path: Path) -> None:
    (name, content), expected = BAD_TRACES[case]
    (tmp_path / name).write_bytes(content)
    done = penstock("simulate", name, "--policy", "fifo", "--out", "out", cwd=tmp_path)
    complaints = [line for line in done.stderr.splitlines() if line.startswith("penstock:")]
    assert done.returncode == 2
    assert len(complaints) == 1
    assert expected in complaints[0]
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--cluster", "0x8"), "0x8"),
        (("--policy", "elasticflw"), "Did you mean 'elasticflow'"),
        (("--placement", "budy"), "Did you mean 'buddy'"),
        (("--slot", "yesterday"), "not a duration"),
        (("--slot", "0s"), "at least one second"),
        (("--deadlines", "x..y"), "LOW..HIGH"),
        (("--overhead", "huge"), "huge"),
        (("--profiles", "nowhere"), "nowhere"),
        (("--adaptive-batches",), "Add --profiles sia/profiles"),
        (("--adaptive-batches", "--profiles", "."), "Allowed: Sia's profiles"),
    ],
)
def test_bad_options_are_explained(trace: Path, tmp_path: Path, arguments: tuple[str, ...], expected: str) -> None:
    done = penstock("simulate", trace, *arguments, "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert expected in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", [("--out", "/proc/study"), ("--report", "/proc/study.html")])
def test_a_place_nobody_can_write_to_is_one_sentence(trace: Path, tmp_path: Path, target: tuple[str, str]) -> None:
    done = penstock("simulate", trace, "--policy", "fifo", *target, cwd=tmp_path)
    assert done.returncode == 2
    assert f"{target[1]} cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


def test_interrupting_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    write_trace(path, generate(60_000, seed=5, profiles=Profiles.builtin(), mean_interval_s=30))
    command = [sys.executable, "-m", "penstock.cli", "simulate", str(path), "--policy", "fifo,srtf", "--out", "out"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        said = process.stderr.readline()
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert "demo curves" in said
    assert process.returncode == 130, errors
    assert "nothing was written" in errors
    assert [entry.name for entry in tmp_path.iterdir()] == ["long.csv"]


def test_help_and_version(tmp_path: Path) -> None:
    assert "simulate" in penstock(cwd=tmp_path).stdout
    assert penstock("--version", cwd=tmp_path).stdout.startswith("penstock ")


def test_jobs_wider_than_the_cluster_are_told(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text(HEADER + "a,0,100,demo-cnn,900,128,64,60\nb,0,100,demo-cnn,900,128,1,60\n")
    done = penstock("simulate", "wide.csv", "--cluster", "1x1", "--policy", "fifo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 job of more devices than the 1 device of 1x1: simulated on at most those" in done.stderr
