"""Rates that depend on where a job is and who is beside it."""

import json
from collections.abc import Sequence

import pytest

from penstock.core import Cluster, Curve, Decision, JobFinished, JobSubmitted, Scaling, build, plain
from penstock.policies import policy_named
from penstock.scheduler import CurveRates, PlacedJob, Scheduler
from tests.scheduler.build import job


class Crowded:
    """Two jobs on one node run at half speed."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def rates(self, cluster: Cluster, placed: Sequence[PlacedJob], asked: Sequence[int]) -> Sequence[float]:
        self.asked.append([placed[i].job.id for i in asked])
        nodes = [{cluster.node_of(device) for device in each.devices} for each in placed]
        alone = CurveRates().rates(cluster, placed, range(len(placed)))
        shared = [any(nodes[i] & other for k, other in enumerate(nodes) if k != i) for i in range(len(placed))]
        return [alone[i] * (0.5 if shared[i] else 1.0) for i in asked]


def test_neighbours_slow_each_other_down_while_they_are_neighbours() -> None:
    model = Crowded()
    machine = Scheduler(Cluster.parse("2x2"), policy_named("fifo"), rates=model)
    machine.handle(JobSubmitted(0.0, job("a")), JobSubmitted(0.0, job("far", requested=2)))
    assert (machine.rate_of("a"), machine.rate_of("far")) == (1.0, 2.0)
    machine.handle(JobSubmitted(10.0, job("b", submitted_at=10.0)))
    assert model.asked[-1] == ["a", "b"], "who is elsewhere is not asked about"
    assert (machine.rate_of("a"), machine.rate_of("b"), machine.rate_of("far")) == (0.5, 0.5, 2.0)
    assert dict(machine.finishing_by(1e9))[10.0 + 90.0 / 0.5] == "a"
    machine.handle(JobFinished(20.0, "b"))
    assert machine.rate_of("a") == 1.0
    assert machine.remaining("a") == pytest.approx(100.0 - 10.0 - 10.0 * 0.5)
    machine.validate()


def test_rates_are_in_the_decision_and_reading_it_asks_no_model() -> None:
    model = Crowded()
    machine = Scheduler(Cluster.parse("1x2"), policy_named("fifo"), rates=model)
    reader = Scheduler(Cluster.parse("1x2"), policy_named("fifo"))
    for at, name in ((0.0, "a"), (5.0, "b")):
        for each in (machine, reader):
            each.apply(JobSubmitted(at, job(name, submitted_at=at)))
        decision = machine.decide(at)
        machine.apply_decision(decision)
        reader.apply_decision(build(Decision, json.loads(json.dumps(plain(decision)))))
        assert machine.collect() == reader.collect()
    assert dict(decision.rates) == {"a": 0.5, "b": 0.5}
    assert reader.to_data() == machine.to_data()


def test_by_default_the_nodes_a_gang_spans_matter_as_its_curve_says() -> None:
    curve = Curve((("*", Scaling(counts=(1, 2), rates=(1.0, 2.0), spread=((2, 2, 1.5),))),))
    machine = Scheduler(Cluster.parse("2x1"), policy_named("fifo"))
    machine.handle(JobSubmitted(0.0, job("a", curve=curve, requested=2)))
    assert machine.rate_of("a") == 1.5
