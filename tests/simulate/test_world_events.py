"""Leases, joins, pauses, edits and cancellations in a simulation, and what the books say about them."""

import math
from pathlib import Path

import pytest

from penstock.core import (
    Amendment,
    BestEffort,
    Cluster,
    Curve,
    Deadline,
    JobAmended,
    JobCancelled,
    JobPaused,
    JobResumed,
    Node,
    NodeJoined,
    NodeLost,
    Scaling,
    WorkerFailed,
)
from penstock.policies import policy_named
from penstock.simulate import Fate, Grid, PlacementRates, TraceRecipe, Uncertainty, read_events, run_grid, simulate
from penstock.simulate.traces import Profiles, generate, jobs_of
from tests.simulate.build import by_name, job, run


def test_a_pause_is_counted_apart_and_takes_back_the_promise() -> None:
    jobs = [job("a", goal=Deadline(500.0)), job("b", goal=Deadline(900.0), at=1.0)]
    faults = [JobPaused(10.0, "a"), JobResumed(60.0, "a", Deadline(800.0)), JobCancelled(20.0, "b")]
    result = run(jobs, policy="deadline", faults=sorted(faults, key=lambda event: event.at))
    a, b = by_name(result)["a"], by_name(result)["b"]
    assert (a.pauses, a.suspensions, a.failures, a.preemptions) == (1, 1, 0, 0)
    assert (a.deadline, a.promised, a.fate) == (800.0, True, Fate.MET)
    assert (b.fate, result.summary.cancelled, result.summary.ratio, result.summary.jobs) == (Fate.CANCELLED, 1, 1.0, 2)


def test_an_edit_changes_what_a_job_is_judged_by() -> None:
    edits = [JobAmended(5.0, "a", Amendment(goal=Deadline(11.0))), JobAmended(5.0, "b", Amendment(goal=BestEffort()))]
    found = by_name(run([job("a"), job("b", goal=Deadline(1000.0))], faults=edits))
    assert (found["a"].deadline, found["a"].fate, found["a"].value) == (11.0, Fate.LATE, 0.0)
    assert (found["b"].deadline, found["b"].fate) == (math.inf, Fate.DONE)


def test_what_no_longer_fits_is_passed_over_and_counted() -> None:
    late = [JobPaused(50.0, "a"), JobCancelled(50.0, "a"), JobResumed(60.0, "b"), WorkerFailed(60.0, "c")]
    result = run([job("a", requested=2), job("b", requested=1), job("c", at=60.0)], faults=late)
    assert result.passed_over == 4, "a ended at 50, b is not paused, c comes at 60 and holds nothing yet"
    assert all(outcome.fate is Fate.DONE for outcome in result.outcomes)


def test_nodes_that_join_and_leave_are_counted_in_the_use() -> None:
    lease = [NodeJoined(0.0, Node(name="extra", device_count=4), 30.0), NodeLost(30.0, "extra")]
    result = run([job("a", 400.0, requested=4), job("b", 40.0, requested=4)], faults=lease)
    assert result.cluster is not None
    assert result.cluster.device_count == 8
    assert result.summary.makespan_s == 100.0
    assert result.summary.utilisation == pytest.approx((400 + 40) / (4 * 100 + 4 * 30))


def test_lost_work_is_counted_in_device_seconds() -> None:
    jobs = [job("a", 1000.0, checkpoint_every_s=10.0)]
    faults = [NodeLost(25.0, "node-1"), NodeJoined(100.0, Cluster.parse("2x2").nodes[1])]
    outcome = by_name(run(jobs, "2x2", "edf", faults=faults))["a"]
    assert (outcome.failures, outcome.preemptions) == (1, 0)
    assert outcome.lost_device_s == pytest.approx(5.0 * 4), "five seconds since the last checkpoint, on four devices"
    plain = by_name(run([job("a", 1000.0, resumable=False)], "2x2", "edf", faults=[NodeLost(25.0, "node-1")]))["a"]
    assert plain.lost_device_s == pytest.approx(25.0 * 4), "it begins again"


def test_a_decision_that_costs_work_is_counted_too() -> None:
    long = job("long", 1000.0, requested=4, resumable=False)
    short = job("short", 40.0, at=50.0, requested=4, goal=Deadline(61.0))
    result = run([long, short], policy="deadline")
    outcome = by_name(result)["long"]
    assert (outcome.preemptions, outcome.lost_device_s) == (1, pytest.approx(200.0))
    assert (result.summary.preemptions, result.summary.preemptions_worst) == (1, 1)
    assert result.summary.lost_share == pytest.approx(200 / (200 + 40 + 1000))


def test_migrations_are_resizes_that_leave_the_number_as_it_was() -> None:
    jobs = [job("a", 100.0, requested=2), job("b", 1000.0, requested=2), job("c", 400.0, at=60.0, requested=4)]
    result = run(jobs, "1x4", "srtf")
    for outcome in result.outcomes:
        assert outcome.migrations <= outcome.rescales
    assert result.summary.migrations == sum(outcome.migrations for outcome in result.outcomes)


def test_energy_is_known_where_the_curves_say_it() -> None:
    curve = Curve((("gpu", Scaling(counts=(1, 2, 4), rates=(1.0, 2.0, 4.0), watts=(100.0, 200.0, 400.0))),))
    result = run([job("a", curve=curve, requested=2)])
    assert by_name(result)["a"].energy_j == pytest.approx(200.0 * 50.0)
    assert result.summary.energy_kwh == pytest.approx(10_000 / 3.6e6)
    mixed = run([job("a", curve=curve, requested=2), job("b", requested=2)])
    assert math.isnan(mixed.summary.energy_kwh), "nothing is known about b"


def test_a_broken_promise_names_its_cause() -> None:
    jobs = [job("a", 300.0, goal=Deadline(80.0))]
    result = run(jobs, "1x4", "deadline", faults=[WorkerFailed(70.0, "a")])
    assert (result.summary.broken, result.summary.broken_without_cause) == (1, 0)
    assert by_name(result)["a"].breach == "a worker of a failed"
    seed = next(seed for seed in range(9) if Uncertainty(wrong_by=0.5, seed=seed).speed("a") < 0.9)
    wrong = {"uncertainty": Uncertainty(wrong_by=0.5, seed=seed)}
    beside = {"rates": PlacementRates.parse("interference=50%")}
    due = [job(name, 100.0, goal=Deadline(60.0), requested=2, at_most=2) for name in "ab"]
    for options, told in ((wrong, "it ran slower than its curve says"),
                          (beside, "it ran slower where it was placed than its curve says")):  # fmt: skip
        result = simulate(due, Cluster.parse("1x4"), policy_named("deadline"), slot=0.0, **options)
        assert (by_name(result)["a"].breach, result.summary.broken_without_cause) == (told, 0)


def test_who_takes_whose_devices_is_in_the_decisions() -> None:
    result = run([job("long", 1000.0, requested=4), job("short", 10.0, at=50.0, requested=4)], policy="srtf",
                 decisions=True)  # fmt: skip
    first, second, *_ = result.decisions
    assert first["granted"] == [{"job": "long", "how": "start", "kind": "gpu", "devices": 4}]
    assert first["events"] == {"JobSubmitted": 1}
    (stopped,) = second["suspended"]
    assert (stopped["job"], stopped["by"], stopped["devices"], stopped["to"]) == ("long", "policy", 4, ["short"])
    assert stopped["why"].startswith("suspended: its 4 devices go to job short")
    failed = run([job("a", requested=4)], decisions=True, faults=[WorkerFailed(5.0, "a")])
    assert [each["by"] for entry in failed.decisions for each in entry.get("suspended", ())] == ["failure"]
    assert run([job("a")]).decisions == []


def test_fairness_over_the_run_and_its_days() -> None:
    day = 86_400.0
    jobs = [job("big", 4 * day, tenant="x", requested=4), job("small", 4 * 3600.0, tenant="y", at=1.0, requested=4)]
    result = run(jobs)
    found = {each.tenant: each for each in result.tenants}
    assert found["x"].used_s == pytest.approx(4 * day, rel=1e-4)
    assert found["y"].used_s == pytest.approx(4 * 3600.0)
    assert found["y"].deserved_s == pytest.approx(2 * day + 2 * 3600.0, rel=1e-3), "half of the devices, while it waits"
    assert found["y"].worst_day == pytest.approx(0.0, abs=1e-3), "it got nothing in the first day"
    assert result.summary.run_fairness_least == found["y"].fairness == pytest.approx(4 * 3600 / (2 * day + 7200), 0.01)
    assert result.summary.day_fairness_least == found["y"].worst_day
    alone = run([job("a"), job("b")]).summary
    assert math.isnan(alone.run_fairness_least)
    assert math.isnan(alone.day_fairness_least)


INTERRUPT_NO_JOB = ("fifo", "genie", "lucid", "yarn-cs")
"""When a node is about to leave, these hold more devices than there will be."""


@pytest.mark.parametrize("policy", [*INTERRUPT_NO_JOB, "deadline", "unified", "elasticflow", "chronus", "gandiva"])
def test_the_books_balance_whatever_happens(policy: str, tmp_path: Path) -> None:
    profiles = Profiles.builtin()
    records = list(generate(25, seed=3, profiles=profiles, mean_interval_s=900.0, best_effort=0.3, tenants=3))
    rows = ["at,event,node,devices,until,job,deadline,at_least,at_most"]
    rows += ["2h,lease,extra,4,6h,,,,", "3h,drain,node-1,,4h,,,,", "5h,join,node-1,,,,,,", "6h,lost,node-0,,,,,,"]
    rows += ["7h,join,node-0,,,,,,"]
    for number, record in enumerate(records):
        rows += [
            [f"+10m,pause,,,,{record.id},,,", f"+2h,resume,,,,{record.id},+9h,,"], [f"+20m,cancel,,,,{record.id},,,"],
            [f"+5m,edit,,,,{record.id},+5h,1,4"], [f"+30m,worker-failed,,,,{record.id},,,"], [],
        ][number % 5]  # fmt: skip
    (tmp_path / "e.csv").write_text("\n".join(rows) + "\n")
    cluster = Cluster.parse("2x4")
    faults = read_events(tmp_path / "e.csv").bind(cluster, records)
    result = run(list(jobs_of(records, profiles)), "2x4", policy, slot=60.0, faults=faults, timeline=True)
    assert len(result.outcomes) == 25
    assert all(outcome.fate is not Fate.UNFINISHED for outcome in result.outcomes)
    assert result.timeline is not None
    held = sum(outcome.device_seconds for outcome in result.outcomes)
    assert sum(bar.count * (bar.end - bar.start) for bar in result.timeline.bars) == pytest.approx(held)
    assert 0.0 < result.summary.utilisation <= 1.0
    for outcome in result.outcomes:
        assert outcome.suspensions == outcome.preemptions + outcome.failures + outcome.pauses
        assert outcome.lost_device_s <= outcome.device_seconds
    assert {each.tenant for each in result.tenants} <= {record.tenant for record in records}


def test_leases_of_a_recipe_and_several_seeds_of_jobs_that_end_by_a_metric() -> None:
    grid = Grid(
        policies=["deadline", "fifo"], source=TraceRecipe.parse("generate:hard,jobs=20"), clusters=["2x4xA+2x4xB"],
        seeds=[1, 2], until=0.5, overhead="change=5s,per-doubling=2s,start=20s",
    )  # fmt: skip
    grid.check()
    rows = run_grid(grid, workers=1)
    assert [row["seed"] for row in rows] == [1, 1, 2, 2]
    assert {"preemptions", "lost_share", "energy_kwh", "run_fairness_least", "broken_without_cause"} <= rows[0].keys()
    assert grid.identity()["until"] == 0.5
