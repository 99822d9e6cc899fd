"""One table over all kinds: options, tenants, leases, and policies that look at everything or at one kind."""

import json
import math
from collections.abc import Callable

import numpy as np
import pytest

from penstock.core import (
    BestEffort,
    Cluster,
    Curve,
    Deadline,
    Event,
    InvariantError,
    JobCancelled,
    JobFinished,
    JobPaused,
    JobResumed,
    JobSubmitted,
    Node,
    NodeDraining,
    NodeJoined,
    NodeLost,
    Scaling,
    Strictness,
    Tenant,
    TenantChanged,
    Tick,
    ValueStep,
    build,
    plain,
)
from penstock.core import Decision as CoreDecision
from penstock.policies import Assignment, Policy, View, policy_named
from penstock.scheduler import Scheduler
from tests.scheduler.build import job


class Looking(Policy):
    """Remembers what it saw and does what it is told."""

    name = "looking"
    summary = "for tests"

    def __init__(self, choose: Callable[[View], Assignment] | None = None) -> None:
        self.seen: list[View] = []
        self.choose = choose or (lambda view: view.choose(view.held))

    def allocate(self, view: View) -> Assignment:
        self.seen.append(view)
        return self.choose(view)


A = Scaling(counts=(1, 2, 4), rates=(1.0, 2.0, 4.0), watts=(300.0, 600.0, 1200.0), doubts=(0.1, 0.1, 0.2))
B = Scaling(counts=(1, 2), rates=(3.0, 5.0))
BOTH = Curve((("A", A), ("B", B)))


def looking(*events: Event, shape: str = "1x4xA+1x2xB") -> tuple[Looking, Scheduler]:
    policy = Looking()
    machine = Scheduler(Cluster.parse(shape), policy)
    machine.handle(*events, Tick(events[-1].at))
    return policy, machine


def test_options_lie_side_by_side() -> None:
    policy, _ = looking(JobSubmitted(0.0, job("a", curve=BOTH)), JobSubmitted(0.0, job("b", curve=BOTH, kinds=("A",))))
    view = policy.seen[-1]
    assert view.kinds == ("A", "B")
    assert view.capacity.tolist() == [4, 2]
    assert view.option_kind.tolist() == [0, 0, 0, 1, 1]
    assert view.option_count.tolist() == [[1, 2, 4, 1, 2], [1, 2, 4, 0, 0]]
    assert view.option_rate.tolist() == [[1.0, 2.0, 4.0, 3.0, 5.0], [1.0, 2.0, 4.0, 0.0, 0.0]]
    assert view.option_watts.tolist()[0] == [300.0, 600.0, 1200.0, 0.0, 0.0]
    assert view.option_doubt.tolist()[0] == [0.1, 0.1, 0.2, 0.0, 0.0]
    assert view.depth.tolist() == [[3, 2], [3, 0]]
    assert view.held.tolist() == [-1, -1]
    assert view.bound.tolist() == [1, 0], "each is bound to where it is fastest"


def test_deadlines_of_falling_value_are_columns() -> None:
    stepped = Deadline(50.0, Strictness.SOFT, (ValueStep(60.0, 0.5), ValueStep(80.0, 0.25)))
    goals = [BestEffort(), Deadline(50.0), stepped]
    policy, machine = looking(*(JobSubmitted(0.0, job(f"{n}", goal=goal)) for n, goal in enumerate(goals)), shape="1x4")
    view = policy.seen[-1]
    assert view.step_at[:, :4].tolist() == [[np.inf] * 4, [50.0, *[np.inf] * 3], [50.0, 60.0, 80.0, np.inf]]
    assert view.step_value[:, :4].tolist() == [[0.0] * 4, [1.0, 0.0, 0.0, 0.0], [1.0, 0.5, 0.25, 0.0]]
    for at, worth in ((50.0, [0.0, 1.0, 1.0]), (60.0, [0.0, 0.0, 0.5]), (81.0, [0.0, 0.0, 0.0])):
        assert view.value_when_done(np.full(3, at)).tolist() == worth
    machine.handle(JobCancelled(1.0, "0"), Tick(1.0))
    left = policy.seen[-1]
    assert left.step_at[[each.id for each in left.jobs].index("2"), :3].tolist() == [50.0, 60.0, 80.0]


def test_one_kind_is_shown_without_a_copy() -> None:
    policy, machine = looking(JobSubmitted(0.0, job("a")), shape="1x4")
    view = policy.seen[-1]
    table = machine._state.holdings.table
    for shown, kept in (
        (view.option_rate, table.options[0].rates),
        (view.of_kind(0).rates, table.options[0].rates),
        (view.of_kind(0).width, table.width),
        (view.of_kind(0).plan_at, table.plan_at),
    ):
        assert np.shares_memory(shown, kept)
        assert not shown.flags.writeable


def test_a_job_moves_between_kinds_and_back_and_a_log_of_it_reads_the_same() -> None:
    where = {"kind": 0}
    policy = Looking(lambda view: view.choose(np.where(view.option_kind == where["kind"])[0][:1].repeat(len(view))))
    cluster = Cluster.parse("1x4xA+1x2xB")
    machine, reader = Scheduler(cluster, policy), Scheduler(cluster, Looking())
    events: list[Event] = [JobSubmitted(0.0, job("a", curve=BOTH)), Tick(10.0), Tick(20.0)]
    held = []
    for event, where["kind"] in zip(events, (0, 1, 0), strict=True):
        for each in (machine, reader):
            each.apply(event)
            each.reconfigure(event.at, each.policy)
        decision = machine.decide(event.at)
        machine.apply_decision(decision)
        reader.apply_decision(build(CoreDecision, json.loads(json.dumps(plain(decision)))))
        assert machine.collect() == reader.collect()
        machine.validate()
        held.append((machine.devices_of("a"), machine.rate_of("a")))
    assert held == [((0,), 1.0), ((4,), 3.0), ((0,), 1.0)]
    assert machine.remaining("a") == 100.0 - 10.0 * 1.0 - 10.0 * 3.0
    assert reader.to_data() == machine.to_data()


def test_tenants_are_told_with_what_they_hold_and_held() -> None:
    policy = Looking(lambda view: view.choose(np.where(view.width > 0, view.held, 1)))
    machine = Scheduler(Cluster.parse("1x4"), policy)
    machine.handle(
        TenantChanged(0.0, Tenant(name="lab", share=3.0, limit=4)),
        JobSubmitted(0.0, job("a", tenant="lab")),
        JobSubmitted(0.0, job("b", tenant="shop")),
    )
    machine.handle(JobFinished(10.0, "a"))
    machine.handle(JobSubmitted(20.0, job("c", tenant="lab", submitted_at=20.0)))
    machine.handle(Tick(25.0), TenantChanged(25.0, Tenant(name="shop", share=0.5)))
    tenants = policy.seen[-1].tenants
    assert tenants.names == ("lab", "shop")
    assert tenants.shares.tolist() == [3.0, 0.5]
    assert tenants.limits.tolist() == [4.0, math.inf]
    assert tenants.held.tolist() == [2, 2]
    assert tenants.attained.tolist() == [2 * 10.0 + 2 * 5.0, 2 * 25.0]


def test_a_pause_keeps_the_account() -> None:
    policy = Looking(lambda view: view.choose(np.where(view.width > 0, view.held, 1)))
    machine = Scheduler(Cluster.parse("1x4"), policy)
    machine.handle(JobSubmitted(0.0, job("a", tenant="lab")))
    machine.handle(JobPaused(10.0, "a"))
    copied = Scheduler.from_data(json.loads(json.dumps(machine.to_data())), policy)
    for each in (machine, copied):
        each.handle(JobResumed(50.0, "a"))
        each.handle(JobCancelled(60.0, "a"), JobSubmitted(60.0, job("b", submitted_at=60.0)))
        assert policy.seen[-1].tenants.attained.tolist() == [40.0, 0.0]


def test_capacity_ends_with_leases_and_draining() -> None:
    policy, machine = looking(
        NodeJoined(0.0, Node(name="spot", device_count=2, kind="A"), until=3600.0),
        NodeDraining(0.0, "node-0", 60.0),
        JobSubmitted(0.0, job("a", curve=BOTH)),
    )
    view = policy.seen[-1]
    assert view.capacity_steps(0) == ((0.0, 6), (50.0, 2), (3590.0, 0)), (
        "nodes count as gone ten seconds before they leave"
    )
    assert view.capacity_steps(1) == ((0.0, 2),)
    machine.handle(NodeLost(60.0, "node-0"), NodeDraining(61.0, "spot", math.inf))
    assert policy.seen[-1].capacity_steps(0) == ((61.0, 2),)
    written = json.loads(json.dumps(machine.to_data()))
    assert Scheduler.from_data(written, policy).to_data() == machine.to_data()


@pytest.mark.parametrize(
    ("choose", "message"),
    [
        (lambda view: view.choose(np.full(len(view), 4)), "4 devices granted, 2 exist"),
        (lambda _: Assignment(np.array([1, 1]), np.array([0, 3]), (math.inf, math.inf)), "3 devices granted"),
        (lambda _: Assignment(np.array([0, 0]), np.array([0, 3]), (math.inf, math.inf)), "cannot use 3 devices"),
        (lambda _: Assignment(np.array([0]), np.array([0]), (math.inf, math.inf)), "2 jobs but widths of shape"),
        (lambda _: Assignment(np.array([0, 0]), np.array([0, -1]), (math.inf, math.inf)), "below zero"),
    ],
)
def test_an_assignment_that_cannot_be_is_refused(choose: Callable[[View], Assignment], message: str) -> None:
    machine = Scheduler(Cluster.parse("1x4xA+1x2xB"), Looking(choose))
    machine.apply(JobSubmitted(0.0, job("a", curve=BOTH)))
    machine.apply(JobSubmitted(0.0, job("b", curve=BOTH)))
    before = machine.to_data()
    with pytest.raises(InvariantError, match=message):
        machine.handle()
    assert machine.to_data() == before


def test_kinds_of_a_policy_that_looks_at_one_at_a_time_do_not_disturb_each_other() -> None:
    both, alone = (
        Scheduler(Cluster.parse(shape), policy_named("edf"), slot=60.0) for shape in ("1x4xA+1x2xB", "1x4xA")
    )
    for machine in (both, alone):
        machine.handle(JobSubmitted(0.0, job("a", 1000.0, curve=BOTH, kinds=("A",))))
    both.handle(JobSubmitted(30.0, job("b", curve=BOTH, kinds=("B",), submitted_at=30.0)))
    assert both.devices_of("b") == (4, 5), "nothing was decided about B yet, so it need not wait for the slot of A"
    for machine in (both, alone):
        machine.handle(JobSubmitted(31.0, job("c", 10.0, curve=BOTH, kinds=("A",), at_most=2, submitted_at=31.0)))
        machine.handle(Tick(60.0))
        assert machine.devices_of("a") == (0, 1, 2, 3)
        assert machine.remaining("a", 61.0) == 1000.0 - 4.0 * 61.0


PRIORITISED = (
    "fifo", "srtf", "tiresias", "gandiva", "themis", "edf", "deadline", "elasticflow", "optimus", "afs", "lucid",
    "genie", "3sigma", "yarn-cs", "dynamic-quota", "chronus", "gavel", "sia", "pollux",
)  # fmt: skip


@pytest.mark.parametrize("name", PRIORITISED)
def test_a_higher_priority_goes_first(name: str) -> None:
    machine = Scheduler(Cluster.parse("1x2"), policy_named(name))
    jobs = [job(each, requested=2, at_least=2, priority=priority) for each, priority in (("a", 0), ("b", 50), ("c", 0))]
    machine.handle(*(JobSubmitted(0.0, each) for each in jobs))
    assert machine.devices_of("b") == (0, 1)
    assert machine.devices_of("a") == ()
