"""``penstock simulate`` and ``sweep`` in worlds with events, stated costs, rates, power and hard recipes."""

import csv
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Penstock

SMALL = ("generate:jobs=12,load=2,tenants=3", "--cluster", "2x4", "--policy", "deadline,fifo")
EVENTS = "at,event,node,devices,until,job,deadline\n1h,lease,spot,4,9h,,\n+10m,cancel,,,,job-3,\n+90d,pause,,,,job-4,\n"


@pytest.fixture
def events(tmp_path: Path) -> Path:
    (tmp_path / "events.csv").write_text(EVENTS)
    return tmp_path / "events.csv"


def test_a_world_with_everything(penstock: Penstock, events: Path, tmp_path: Path) -> None:
    costs = ("--overhead", "change=17s,per-doubling=9s,start=30s", "--rates", "spread=10%", "--watts", "400")
    done = penstock("simulate", *SMALL, "--events", events, *costs, "--out", "o", "--decisions", "--picture",
                    "--report", "r.html", "--json")  # fmt: skip
    assert done.code == 0, done.err
    assert "deadline: 1 of the events passed over" in done.err
    told = done.json()
    assert (told["overhead"], told["rates"], told["watts"], told["events"]) == (costs[1], "spread=10%", {"*": 400.0}, 4)
    for result in told["results"]:
        assert result["cancelled"] == 1
        assert result["energy_kwh"] > 0
        assert {each["tenant"] for each in result["tenants"]} <= {"tenant-1", "tenant-2", "tenant-3"}
        assert result["run_fairness_least"] == min(each["fairness"] for each in result["tenants"])
    written = {path.name for path in (tmp_path / "o").iterdir()}
    assert {"deadline.csv", "deadline.decisions.jsonl", "deadline.html", "summary.json"} <= written
    with (tmp_path / "o" / "deadline.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {"preemptions", "migrations", "pauses", "lost_device_s", "energy_j", "breach"} <= rows[0].keys()
    decisions = [json.loads(line) for line in (tmp_path / "o" / "deadline.decisions.jsonl").read_text().splitlines()]
    assert len(decisions) == told["results"][0]["rounds"]
    assert {"job-0"} <= {each["job"] for entry in decisions for each in entry.get("answered", ())}
    assert "spot" in (tmp_path / "r.html").read_text()


def test_jobs_that_end_by_a_metric_over_seeds(penstock: Penstock) -> None:
    done = penstock("simulate", *SMALL, "--until", "50%", "--seeds", "2", "--processes", "1", "--json")
    assert done.code == 0, done.err
    assert done.json()["settings"]["until"] == 0.5
    swept = penstock("sweep", *SMALL, "--until", "50%", "--knowledge", "oracle", "--seeds", "2", "--workers", "1",
                     "--watts", "300", "--tenants", "tenant-1=2", "--json")  # fmt: skip
    assert swept.code == 0, swept.err
    first = swept.json()[0]
    assert first["energy_kwh"] > 0
    assert first["run_fairness_least_low"] <= first["run_fairness_least"]


def test_a_hard_recipe_and_events_over_seeds(penstock: Penstock, events: Path) -> None:
    done = penstock("sweep", "generate:hard,jobs=12", "--cluster", "2x4xA+2x4xB", "--policy", "deadline,elasticflow",
                    "--seeds", "2", "--workers", "1", "--events", events)  # fmt: skip
    assert done.code == 0, done.err
    assert "least tenant" in done.out
    loads = penstock("sweep", *SMALL, "--events", events, "--loads", "1,2")
    assert (loads.code, "loads beside events" in loads.err) == (2, True)


def test_gangs_and_bursts_in_a_trace_of_their_own(penstock: Penstock, tmp_path: Path) -> None:
    words = ("--jobs", "60", "--cluster", "4x8", "--gangs", "20%", "--tight", "50%", "--burst", "5", "--skew", "1",
             "--tenants", "4", "--out", "t.jsonl")  # fmt: skip
    assert penstock("trace", "generate", *words).code == 0
    jobs = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert {job["devices"] for job in jobs if "rigid" in job.get("marks", "")} == {8, 16}
    assert len({job["submitted"] for job in jobs}) < 30
    assert penstock("simulate", "t.jsonl", "--cluster", "4x8", "--policy", "fifo").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--events", "nowhere.csv"), "no file nowhere.csv"),
        (("--overhead", "change=soon"), "not a duration"),
        (("--rates", "spred=1%"), "Did you mean 'spread'"),
        (("--watts", "A=x"), "KIND=WATTS"),
        (("--decisions",), "Add --out DIR"),
        (("--events", "events.csv", "--optimum"), "No bound is known"),
        (("--seeds", "2", "--out", "o", "--decisions"), "one seed"),
    ],
)
def test_what_cannot_be_is_explained(penstock: Penstock, events: Path, words: tuple[str, ...], said: str) -> None:
    done = penstock("simulate", *SMALL, *words)
    assert done.code == 2
    assert said in done.err
    assert [path.name for path in events.parent.iterdir()] == ["events.csv"]
