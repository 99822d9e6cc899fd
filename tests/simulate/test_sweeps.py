"""Many runs: which there are, that each is run once, what they amount to, and what an interruption leaves."""

import csv
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.core import Cluster, InputError, MissingExtraError, UnknownNameError
from penstock.simulate import (
    Grid,
    NodeFailures,
    Profiles,
    ResultsFile,
    SweepRows,
    TraceFile,
    TraceRecipe,
    export_rows,
    generate,
    interval,
    run_grid,
    source_named,
    sweep,
    write_trace,
)
from penstock.simulate.sweeps.intervals import student_t

SMALL = "generate:jobs=12"


def rows(policies: Sequence[str] = ("fifo", "srtf"), **changes: Any) -> SweepRows:
    return sweep(policies, SMALL, **({"clusters": ["1x4"], "seeds": [1, 2], "workers": 1} | changes))


def without_times(found: SweepRows) -> list[dict[str, Any]]:
    timed = ("cpu_s", "decision_mean_ms", "decision_p99_ms")
    return [{name: value for name, value in row.items() if name not in timed} for row in found]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    profiles = Profiles.builtin()
    write_trace(tmp_path / "t.csv", generate(12, seed=4, profiles=profiles, mean_interval_s=600.0))
    return tmp_path / "t.csv"


def test_every_combination_is_one_row_in_order() -> None:
    found = rows(clusters=["1x4", "2x4"], loads=[0.5, 2.0], wrong_by=[0.0, 0.2], seeds=[7])
    assert len(found) == 2 * 2 * 2 * 2
    assert [row["policy"] for row in found[:4]] == ["fifo", "srtf"] * 2
    assert {(row["cluster"], row["load"], row["wrong_by"], row["seed"]) for row in found} == {
        (cluster, load, wrong, 7) for cluster in ("1x4", "2x4") for load in (0.5, 2.0) for wrong in (0.0, 0.2)
    }
    assert all(row["jobs"] == 12 for row in found)


def test_processes_change_nothing() -> None:
    assert without_times(rows(workers=2)) == without_times(rows(workers=1))


def test_policies_meet_the_same_jobs_under_the_same_seed() -> None:
    source = TraceRecipe(jobs=20)
    one, same, other = (source.trace(1.0, seed, Cluster.parse("2x8"), Profiles.builtin()) for seed in (1, 1, 2))
    assert one == same != other


def test_a_sweep_goes_on_where_it_stopped(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    complete = rows(out=whole)
    lines = whole.read_text().splitlines(keepends=True)
    assert len(lines) == 1 + 4
    cut.write_text("".join(lines[:3]) + lines[3][:40])
    resumed = rows(out=cut)
    assert resumed[:2] == complete[:2], "taken from the file, CPU times included"
    assert without_times(resumed) == without_times(complete)
    assert len(cut.read_text().splitlines()) == 1 + 4
    assert rows(out=cut) == resumed, "nothing is run a third time"


def test_a_sweep_can_be_widened(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    first = rows(out=file)
    wider = rows(out=file, seeds=[1, 2, 3], policies=("fifo", "srtf", "edf"))
    assert len(wider) == 9
    assert [row for row in wider if row in first] == first


def test_results_of_other_settings_are_not_mixed(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    rows(out=file)
    before = file.read_bytes()
    with pytest.raises(InputError, match=r"slot_s was 60\.0, is 120\.0"):
        rows(out=file, slot=120.0)
    file.with_name("other.jsonl").write_text('{"some": "thing"}\n')
    with pytest.raises(InputError, match="line 1, is not what a sweep writes"):
        rows(out=file.with_name("other.jsonl"))
    assert file.read_bytes() == before


def test_results_of_other_code_are_not_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "r.jsonl"
    rows(out=file)
    monkeypatch.setattr("penstock.simulate.sweeps.grid.code_version", lambda: "another")
    with pytest.raises(InputError, match=r"version was .*, is another"):
        rows(out=file)


def test_a_policy_whose_file_changed_is_run_again(tmp_path: Path) -> None:
    text = (
        "from penstock.policies import Allocation, KindPolicy, serve_in_order\n"
        "class Mine(KindPolicy):\n    name, summary = 'mine', 'mine'\n"
        "    def allocate(self, view):\n"
        "        return Allocation(serve_in_order(view, lambda: view.order(view.submitted)))\n"
    )
    policy, file = tmp_path / "mine.py", tmp_path / "r.jsonl"
    policy.write_text(text)
    first = rows([f"{policy}:Mine"], out=file)
    policy.write_text(text.replace("view.submitted", "-view.submitted"))
    second = rows([f"{policy}:Mine"], out=file)
    assert {row["code"] for row in first}.isdisjoint(row["code"] for row in second)
    assert len(file.read_text().splitlines()) == 1 + 4


def test_the_jobs_of_a_file_come_faster_under_a_load(trace: Path) -> None:
    source = TraceFile(trace)
    plain, twice = (source.trace(load, 0, Cluster.parse("1x4"), Profiles.builtin()) for load in (None, 2.0))
    first = plain.jobs[0].submitted_at
    for slow, fast in zip(plain, twice, strict=True):
        assert fast.submitted_at - first == pytest.approx((slow.submitted_at - first) / 2)
        assert slow.deadline is not None
        assert fast.deadline is not None
        assert fast.deadline - fast.submitted_at == pytest.approx(slow.deadline - slow.submitted_at)


def test_a_file_of_the_same_name_is_read_again_where_it_is_another(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = trace.read_text().splitlines(keepends=True)
    for folder, length in (("first", 3), ("second", 2)):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        Path("t.csv").write_text("".join(lines[: 1 + length]))
        assert len(TraceFile(Path("t.csv")).trace(None, 0, Cluster.parse("1x4"), Profiles.builtin())) == length


def test_seeds_of_a_trace_of_which_nothing_is_drawn_are_refused(trace: Path) -> None:
    with pytest.raises(InputError, match="all runs would be alike"):
        sweep(["fifo"], trace, seeds=[1, 2], clusters=["1x4"])
    found = sweep(["fifo"], trace, seeds=[1, 2], clusters=["1x4"], failures=NodeFailures(3600.0, 60.0), workers=1)
    assert found[0]["jct_mean_s"] != found[1]["jct_mean_s"]


@pytest.mark.parametrize(
    "changes",
    [{"policies": ()}, {"seeds": ()}, {"seeds": [1, 1]}, {"loads": [0.0]}, {"loads": [math.inf]}, {"wrong_by": [1.0]}],
)
def test_a_grid_that_cannot_be_is_refused_before_anything_runs(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        rows(**changes)


def test_recipes_are_read_and_refused() -> None:
    recipe = source_named("generate:jobs=50,load=1.5,deadlines=1..2,best-effort=0.2,daily-swing=0.5,tenants=3")
    assert recipe == TraceRecipe(jobs=50, load=1.5, deadlines=(1.0, 2.0), best_effort=0.2, daily_swing=0.5, tenants=3)
    assert source_named("some/trace.csv") == TraceFile(Path("some/trace.csv"))
    with pytest.raises(UnknownNameError, match="Did you mean 'jobs'"):
        source_named("generate:job=5")
    with pytest.raises(InputError, match="load=much"):
        source_named("generate:load=much")


def test_intervals_are_those_of_student() -> None:
    found = interval([1.0, 2.0, 3.0, 4.0])
    assert (found.mean, found.half) == (2.5, pytest.approx(3.182 * 1.2909944 / 2, rel=1e-6))
    assert math.isnan(interval([5.0]).half)
    assert interval([5.0, math.nan]).count == 1
    assert student_t(40) == pytest.approx(2.0211, abs=5e-4)
    assert student_t(10_000) == pytest.approx(1.9602, abs=5e-4)
    assert interval([1.0, 1.2, 0.9, 1.1]).excludes_zero
    assert not interval([1.0, -1.2, 0.9, -1.1]).excludes_zero
    assert not interval([1.0]).excludes_zero


def test_policies_are_compared_seed_by_seed() -> None:
    def row(policy: str, seed: int, ratio: float | None) -> dict[str, Any]:
        same = {
            "cluster": "1x4",
            "load": None,
            "wrong_by": 0.0,
            "jct_mean_s": 1.0,
            "declined": 0,
            "late": 0,
            "broken_worst_s": 60.0 * seed,
            "cpu_s": 0.1,
        }
        return {"policy": policy, "seed": seed, "ratio": ratio, "promises": 2, "broken": 1, **same}

    pairs = [(1, 0.2, 0.3), (2, 0.8, 0.9), (3, 0.5, 0.61)]
    found = SweepRows(row(name, seed, (a, b)[name == "b"]) for seed, a, b in pairs for name in "ab").aggregates()
    assert [each.policy for each in found] == ["a", "b"]
    assert found[0].verdict == ""
    assert found[1].verdict == "more", "0.1 in every seed, although the ratios themselves differ by far more"
    assert found[1].ratio.half > 0.5
    assert (found[1].broken, found[1].broken_worst_s) == (3, 180.0)
    noisy = [(1, 0.2, 0.3), (2, 0.9, 0.8), (3, 0.5, 0.5)]
    ties = SweepRows(row(name, seed, (a, b)[name == "b"]) for seed, a, b in noisy for name in "ab").aggregates()
    assert ties[1].verdict == "tie"
    assert json.loads(json.dumps(ties[0].as_dict()))["beside_first"] is None


@pytest.mark.parametrize("suffix", [".csv", ".json", ".parquet"])
def test_rows_are_exported(tmp_path: Path, suffix: str) -> None:
    found, path = rows(), tmp_path / "new" / f"rows{suffix}"
    export_rows(found, path)
    if suffix == ".csv":
        read = list(csv.DictReader(path.read_text().splitlines()))
        assert [float(row["met"]) for row in read] == [row["met"] for row in found]
    elif suffix == ".json":
        assert json.loads(path.read_text()) == found
    else:
        pq = pytest.importorskip("pyarrow.parquet")
        assert pq.read_table(path).to_pylist() == found
    with pytest.raises(InputError, match=r"\.csv, \.json or \.parquet"):
        export_rows(found, tmp_path / "rows.txt")


def test_rows_become_a_frame_or_say_what_is_missing() -> None:
    found = rows(seeds=[1])
    try:
        import pandas  # noqa: F401
    except ImportError:
        with pytest.raises(MissingExtraError, match=r"pip install .*\[frames\]"):
            found.to_frame()
        return
    assert found.to_frame()["policy"].tolist() == ["fifo", "srtf"]


def command(out: Path, jobs: int = 300) -> list[str]:
    words = ["sweep", f"generate:jobs={jobs}", "--policy", "deadline,fifo", "--cluster", "2x8", "--loads", "2"]
    return [sys.executable, "-m", "penstock.cli", *words, "--seeds", "30", "--workers", "2", "--out", str(out)]


def children_of(pid: int) -> list[int]:
    psutil = pytest.importorskip("psutil")
    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_sweep_leaves_no_process_and_goes_on(tmp_path: Path, how: signal.Signals) -> None:
    psutil = pytest.importorskip("psutil")
    out = tmp_path / "r.jsonl"
    running = subprocess.Popen(command(out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not out.exists() or len(out.read_text().splitlines()) < 3:
        assert running.poll() is None, running.communicate()
        time.sleep(0.05)
    workers = children_of(running.pid)
    assert workers
    running.send_signal(how)
    _, told = running.communicate(timeout=60)
    if how is not signal.SIGKILL:
        assert running.returncode == 130
        assert "run it again to go on" in told
    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in workers if psutil.pid_exists(pid)], timeout=30)
    assert not alive
    grid = Grid(
        policies=["deadline", "fifo"], source=TraceRecipe(jobs=300), clusters=["2x8"], loads=[2.0], seeds=range(30)
    )
    file = ResultsFile(out, grid.identity())
    kept = len(file.rows)
    file.close()
    assert kept >= 2
    assert len(out.read_text().splitlines()) == 1 + kept
    assert os.path.getsize(out) > 0


def test_a_grid_tells_how_far_it_is() -> None:
    told: list[tuple[int, int]] = []
    grid = Grid(policies=["fifo"], source=TraceRecipe(jobs=5), clusters=["1x4"], seeds=range(3))
    run_grid(grid, workers=1, on_progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]
