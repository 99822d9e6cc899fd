"""``penstock sweep`` and ``penstock simulate --seeds``: intervals, files, refusals."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Penstock

SWEEP = ("sweep", "generate:jobs=15", "--policy", "fifo,srtf:order=device-time", "--cluster", "1x4", "--workers", "1")


def test_a_sweep_prints_a_line_per_setting_and_policy(penstock: Penstock, tmp_path: Path) -> None:
    done = penstock(*SWEEP, "--loads", "0.5,1", "--seeds", "2", "--out", "r.jsonl", "--export", "rows.csv")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert "2 seeds" in lines[0]
    assert [line.split()[0] for line in lines[2:]] == ["fifo", "srtf:order=device-time"] * 2
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 1 + 8
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 1 + 8
    again = penstock(*SWEEP, "--loads", "0.5,1", "--seeds", "2", "--out", "r.jsonl", "--json")
    assert "8 runs are in r.jsonl already" in again.err
    assert [(each["policy"], each["load"]) for each in again.json()][1] == ("srtf:order=device-time", 0.5)


def test_simulate_over_seeds_shows_intervals(penstock: Penstock) -> None:
    words = ("simulate", "generate:jobs=15,load=1", "--cluster", "1x4", "--policy", "deadline,fifo", "--seeds", "3")
    world = ("--wrong-by", "20%", "--doubts", "20%", "--failures", "mtbf=5d", "--processes", "1")
    done = penstock(*words, *world)
    assert done.code == 0, done.err
    assert "3 seeds, mean ± 95 % interval" in done.out
    assert "±" in done.out.splitlines()[2]
    told = json.loads(penstock(*words, *world, "--json").out)
    assert told["settings"]["failures"] == "mtbf=5d,repair=1h"
    assert len(told["runs"]) == 6
    assert told["results"][1]["verdict"] in ("more", "fewer", "tie")


def test_one_seed_tells_of_the_world_it_is_in(penstock: Penstock) -> None:
    done = penstock("simulate", "generate:jobs=15,load=1", "--cluster", "1x4", "--policy", "fifo", "--wrong-by", "0.1")
    assert "curves wrong by 10%" in done.out.replace("\n", " ")
    assert "read as generated" in done.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("sweep", "generate:job=5"), "Did you mean 'jobs'?"),
        (("sweep", "--loads", "none"), "a load of 'none'"),
        (("sweep", "--policy", "srtf:ordr=time"), "Did you mean 'order'?"),
        (("sweep", "--policy", "mine.py:Mine"), "No such file"),
        (("sweep", "--wrong-by", "120%"), "0% up to, not including, 100%"),
        (("sweep", "--export", "rows.txt"), ".parquet"),
        (("sweep", "nowhere.csv"), "nowhere.csv"),
        (("simulate", "generate:jobs=5", "--failures", "mtbf=often"), "often"),
        (("simulate", "generate:jobs=5", "--seeds", "2", "--out", "d"), "penstock sweep"),
        (("simulate", "generate:jobs=5", "--policy", "edf-artifact", "--wrong-by", "10%"), "not a replica"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_written(
    words: tuple[str, ...], expected: str, penstock: Penstock, tmp_path: Path
) -> None:
    refused = penstock(*words)
    assert refused.code == 2, refused.out
    assert expected in refused.err
    assert list(tmp_path.iterdir()) == []


def test_the_optimum_is_a_line_beside_the_policies(penstock: Penstock) -> None:
    words = ("simulate", "generate:jobs=12,load=2", "--cluster", "1x4", "--policy", "fifo", "--optimum")
    lines = penstock(*words).out.splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["fifo", "optimum"]
    told = penstock(*words, "--json").json()["optimum"]
    assert told["is_exact"]
    assert told["met"] >= 1
    several = penstock(*words, "--seeds", "2", "--processes", "1")
    assert several.out.splitlines()[-1].startswith("optimum")
    refused = penstock("simulate", "generate:jobs=400", "--cluster", "1x4", "--policy", "fifo", "--optimum")
    assert refused.code == 2
    assert "at most 300" in refused.err
