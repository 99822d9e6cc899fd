"""Jobs that run on certain nodes only: under every policy and placement they hold devices of no other."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.core import (
    FREE,
    Cluster,
    Deadline,
    EventError,
    JobFinished,
    JobSubmitted,
    Node,
    NodeChanged,
    NodeChoice,
    NodeJoined,
    NodeLost,
    Overhead,
    Strictness,
    Tenant,
    TenantChanged,
    Tick,
    Verdict,
)
from penstock.placement import PLACEMENTS, Crowd, placement_named
from penstock.policies import POLICIES, Assignment, Standing, policy_named
from penstock.scheduler import ExpectedCosts, JobState, Scheduler
from penstock.scheduler.leaving import Leaving
from penstock.scheduler.node_seats import NodeSeats
from penstock.scheduler.testing import CheckedWorld
from penstock.scheduler.testing.strategies import clusters, jobs, scripts
from tests.policies.views import Row, whole_view
from tests.scheduler.build import job, kinds

KEEPING = ("edf-admission", "elasticflow", "chronus", "deadline", "unified")
"""Policies that promise."""
AT_ONCE = tuple(policy for policy in KEEPING if policy != "chronus")
"""Those of them that need no time to lease devices for."""


def only(*names: str) -> NodeChoice:
    return NodeChoice(only=names)


def machine(policy: str = "fifo", placement: str = "buddy", nodes: str = "abc", **options: Any) -> Scheduler:
    there = tuple(Node(name=name, device_count=4) for name in nodes)
    return Scheduler(Cluster(there), policy_named(policy), placement=placement_named(placement), **options)


def where(scheduler: Scheduler, name: str) -> set[str]:
    cluster = scheduler.cluster
    return {cluster.nodes[cluster.node_of(device)].name for device in scheduler.devices_of(name)}


def submit(scheduler: Scheduler, at: float, name: str, **changes: Any) -> list[Any]:
    told = scheduler.handle(JobSubmitted(at, job(name, submitted_at=at, **changes)))
    scheduler.validate()
    return told


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_it_runs_on_its_nodes_and_nowhere_else(policy: str, placement: str) -> None:
    scheduler = machine(policy, placement)
    for name, nodes in (("p", only("c")), ("q", only("b", "c")), ("r", NodeChoice(avoid=("a", "b")))):
        submit(scheduler, 0.0, name, requested=1, at_most=1, nodes=nodes)
    assert (where(scheduler, "p"), where(scheduler, "r")) == ({"c"}, {"c"})
    assert where(scheduler, "q") <= {"b", "c"}
    assert where(scheduler, "q")


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_who_can_be_moved_makes_way(placement: str) -> None:
    scheduler = machine("fifo", placement)
    submit(scheduler, 0.0, "sits", requested=4, nodes=NodeChoice(prefer=("b",)))
    assert where(scheduler, "sits") == {"b"}
    told = submit(scheduler, 1.0, "pinned", requested=4, nodes=only("b"))
    assert where(scheduler, "pinned") == {"b"}
    assert where(scheduler, "sits").isdisjoint({"b"})
    assert sorted(kinds(told)) == ["Admit", "Resize", "Start"]


def test_who_cannot_resume_stays_and_the_job_waits_for_it_by_name() -> None:
    scheduler = machine()
    submit(scheduler, 0.0, "plain", requested=3, at_most=3, resumable=False, nodes=NodeChoice(prefer=("b",)))
    submit(scheduler, 1.0, "pinned", requested=4, at_least=4, nodes=only("b"))
    assert where(scheduler, "plain") == {"b"}
    assert not scheduler.devices_of("pinned")
    assert scheduler.why("pinned").now.endswith(
        "it runs only on b and needs 4 devices there, which are held by job plain (3, cannot resume elsewhere)"
    )
    scheduler.handle(JobFinished(40.0, "plain"))
    assert where(scheduler, "pinned") == {"b"}


def test_nobody_who_came_later_and_could_not_be_moved_takes_the_place_it_waits_for() -> None:
    scheduler = machine(nodes="ab")
    for number in range(7):
        submit(scheduler, 0.0, f"old-{number}", requested=1, at_most=1, resumable=False)
    submit(scheduler, 1.0, "pinned", requested=4, at_least=4, nodes=only("a"))
    for number in range(20):
        submit(scheduler, 2.0 + number, f"new-{number}", requested=1, at_most=1, resumable=False)
    assert not scheduler.devices_of("pinned")
    on_a = [name for name in scheduler.active() if "a" in where(scheduler, name)]
    assert on_a
    for step, name in enumerate(on_a):
        assert name.startswith("old"), "it was there before"
        scheduler.handle(JobFinished(50.0 + step, name))
        scheduler.validate()
    assert where(scheduler, "pinned") == {"a"}
    assert any(where(scheduler, f"new-{number}") == {"b"} for number in range(20)), "others go on elsewhere"


def test_who_may_go_elsewhere_makes_room_for_who_may_not() -> None:
    scheduler = machine(nodes="ab")
    submit(scheduler, 0.0, "either", requested=4, nodes=NodeChoice(only=("a", "b"), prefer=("a",)))
    assert where(scheduler, "either") == {"a"}
    submit(scheduler, 1.0, "one", requested=4, at_least=4, nodes=only("a"))
    assert (where(scheduler, "one"), where(scheduler, "either")) == ({"a"}, {"b"})


@pytest.mark.parametrize("policy", ["unified", "elasticflow", "afs"])
def test_elastic_jobs_on_one_node_share_it_by_the_policy(policy: str) -> None:
    """The second one does not wait for the first, which could do with less."""
    scheduler = machine(policy, nodes="abcd")
    submit(scheduler, 0.0, "first", iterations=10_000.0, nodes=only("a"))
    assert len(scheduler.devices_of("first")) == 4
    submit(scheduler, 1.0, "second", iterations=10_000.0, nodes=only("a"))
    assert {len(scheduler.devices_of(name)) for name in ("first", "second")} == {2}
    assert where(scheduler, "first") == where(scheduler, "second") == {"a"}


def test_what_it_can_never_have_is_refused_with_the_reason() -> None:
    scheduler = machine()
    submit(scheduler, 0.0, "wide", requested=8, at_least=8, nodes=only("a"))
    quote = scheduler.quote_of("wide")
    assert quote is not None
    assert quote.verdict is Verdict.REFUSED
    assert quote.reason == (
        "no device it can use: it needs at least 8 of any kind, the nodes it may run on (only on a) have 4 of gpu"
    )


def test_a_job_whose_nodes_are_all_gone_is_refused_and_one_that_is_there_waits() -> None:
    scheduler = machine()
    submit(scheduler, 0.0, "before", requested=4, nodes=only("a"))
    scheduler.handle(NodeLost(1.0, "a"))
    submit(scheduler, 2.0, "after", requested=4, nodes=only("a"))
    assert scheduler.state_of("after") is JobState.DECLINED
    assert "every node that it may run on (only on a) is drained or lost" in str(scheduler.why("after"))
    assert scheduler.state_of("before") is JobState.SUSPENDED
    assert "0 of these nodes' devices are in use, the others are drained" in scheduler.why("before").now
    scheduler.handle(NodeJoined(3.0, scheduler.cluster.nodes[0]))
    assert where(scheduler, "before") == {"a"}
    scheduler.validate()


def test_a_node_that_comes_back_smaller_or_larger_is_counted_anew() -> None:
    scheduler = machine()
    submit(scheduler, 0.0, "p", requested=4, at_least=2, nodes=only("a"))
    scheduler.handle(NodeChanged(1.0, Node(name="a", device_count=2)))
    assert len(scheduler.devices_of("p")) == 2
    assert where(scheduler, "p") == {"a"}
    scheduler.handle(NodeChanged(2.0, Node(name="a", device_count=1)))
    assert not scheduler.devices_of("p")
    scheduler.validate()


def promise(scheduler: Scheduler, name: str) -> Verdict:
    quote = scheduler.quote_of(name)
    assert quote is not None
    return quote.verdict


@pytest.mark.parametrize("policy", AT_ONCE)
def test_a_promise_counts_on_the_devices_of_its_nodes_alone(policy: str) -> None:
    scheduler = machine(policy)
    submit(scheduler, 0.0, "fits", iterations=100.0, requested=2, goal=Deadline(60.0), nodes=only("a"))
    assert promise(scheduler, "fits") is Verdict.PROMISED
    assert where(scheduler, "fits") == {"a"}
    assert len(scheduler.devices_of("fits")) == 2, "the fewest that are enough"
    submit(scheduler, 0.0, "too much", iterations=400.0, requested=4, goal=Deadline(60.0), nodes=only("b"))
    assert promise(scheduler, "too much") is Verdict.REFUSED, "12 devices would do it, 4 do not"


@pytest.mark.parametrize("policy", AT_ONCE)
@pytest.mark.parametrize(("due", "verdict"), [(109.0, Verdict.DEFERRED), (110.0, Verdict.PROMISED)])
def test_a_promise_in_place_keeps_the_worst_change_in_reserve(policy: str, due: float, verdict: Verdict) -> None:
    scheduler = machine(policy, costs=ExpectedCosts(Overhead(worst_s=10.0)))
    long = {"requested": 2, "at_least": 2, "at_most": 2, "goal": Deadline(600.0)}
    submit(scheduler, 0.0, "long", iterations=1000.0, nodes=only("a"), **long)
    submit(scheduler, 0.0, "asks", iterations=200.0, requested=4, goal=Deadline(due), nodes=only("a"))
    assert promise(scheduler, "long") is Verdict.PROMISED
    assert promise(scheduler, "asks") is verdict, "two devices of its node are left, and do it in 100 s"


def test_of_a_crowd_those_without_a_promise_are_asked_again() -> None:
    standing = (Standing.PROMISED, Standing.DEFERRED, Standing.PROMISED, Standing.DEFERRED)
    view = whole_view(*(Row(standing=each) for each in standing))
    decided = Assignment(view.bound, np.array([2, 1, 1, 4]), (math.inf,))
    holdings = machine()._state.holdings
    seats = NodeSeats(holdings, Leaving(holdings, 0.0, ()))
    for keys, rows, room in (((0, 1, 3), [1, 3], 2), ((0, 2), [0, 2], 4), ((1, 3), [1, 3], 4), ((0, 2, 1), [1], 1)):
        again = seats._asked_again(view, decided, Crowd(keys, 4), 0)
        assert (again.rows.tolist(), again.kind, again.room) == (rows, 0, room)


@pytest.mark.parametrize("policy", AT_ONCE)
def test_a_promise_to_somebody_else_is_not_given_up_for_a_place(policy: str) -> None:
    scheduler = machine(policy)
    submit(scheduler, 0.0, "first", iterations=200.0, requested=4, goal=Deadline(60.0), nodes=only("a"))
    submit(scheduler, 0.0, "second", iterations=200.0, requested=4, goal=Deadline(70.0), nodes=only("a"))
    submit(scheduler, 0.0, "third", iterations=200.0, requested=4, goal=Deadline(300.0), nodes=only("a"))
    assert promise(scheduler, "first") is Verdict.PROMISED
    assert promise(scheduler, "second") in (Verdict.DEFERRED, Verdict.REFUSED)
    assert promise(scheduler, "third") is Verdict.DEFERRED, "it could still be in time once the first is done"
    world = CheckedWorld(scheduler, held={name: scheduler.devices_of(name) for name in ("first", "third")})
    world.held = {name: devices for name, devices in world.held.items() if devices}
    world.started = set(world.held)
    world.run([Tick(0.0)], [0.0])
    assert world.outcome["first"] == world.outcome["third"] == "finished"
    assert world.outcome["second"] == "declined"
    assert promise(scheduler, "third") is Verdict.PROMISED


@pytest.mark.parametrize("policy", AT_ONCE)
def test_a_soft_deadline_that_finds_no_place_is_best_effort(policy: str) -> None:
    scheduler = machine(policy)
    submit(scheduler, 0.0, "first", iterations=200.0, requested=4, goal=Deadline(60.0), nodes=only("a"))
    submit(scheduler, 0.0, "soft", iterations=40.0, goal=Deadline(45.0, Strictness.SOFT), nodes=only("a"))
    assert promise(scheduler, "soft") is Verdict.BEST_EFFORT


@st.composite
def confined_jobs(draw: st.DrawFn, number: int, at: float) -> Any:
    from dataclasses import replace

    names = st.lists(st.sampled_from(["gpu-0", "gpu-1", "gpu-2", "npu-0"]), min_size=1, max_size=3, unique=True)
    chosen = tuple(draw(names))
    nodes = draw(st.sampled_from([NodeChoice(), only(*chosen), only(*chosen), NodeChoice(avoid=chosen[:1])]))
    return replace(draw(jobs(number, at)), nodes=nodes, resumable=draw(st.booleans()))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
@pytest.mark.parametrize("policy", ["fifo", "srtf", *KEEPING])
def test_any_history_keeps_every_job_on_its_nodes_and_every_promise(policy: str, data: st.DataObject) -> None:
    placement = placement_named(data.draw(st.sampled_from(PLACEMENTS)))
    overhead = data.draw(st.sampled_from([FREE, Overhead(every_round_s=1.0, change_s=3.0, worst_s=5.0)]))
    scheduler = Scheduler(
        data.draw(clusters()), policy_named(policy), placement=placement, slot=data.draw(st.sampled_from([0.0, 60.0])),
        costs=ExpectedCosts(overhead),
    )  # fmt: skip
    if data.draw(st.booleans()):
        scheduler.handle(TenantChanged(0.0, Tenant(name="other", quota=2)))
    script, times = data.draw(scripts(misfortunes=data.draw(st.booleans())))
    script = [
        JobSubmitted(entry.at, data.draw(confined_jobs(number, entry.at))) if isinstance(entry, JobSubmitted) else entry
        for number, entry in enumerate(script)
    ]
    world = CheckedWorld(scheduler)
    world.run(script, times)
    assert set(world.outcome) | set(scheduler.active()) == {
        entry.job.id for entry in script if isinstance(entry, JobSubmitted)
    }
    for name in scheduler.active():
        assert _cannot_run(scheduler, name), f"{name} waits, and nobody is there: {scheduler.why(name).now}"


def _cannot_run(scheduler: Scheduler, name: str) -> bool:
    """Whether what works of its nodes is too little for it, at the end of the world."""
    there = scheduler.job(name)
    return "drained, lost or broken" in scheduler.why(name).now or not there.nodes.confines


def test_old_logs_named_nodes_as_a_wish() -> None:
    from penstock.core import Job as AnyJob
    from penstock.core import build, plain

    data = plain(job("old"))
    data["nodes"] = ["a", "b"]
    assert build(AnyJob, data).nodes == NodeChoice(prefer=("a", "b"))
    assert build(AnyJob, plain(job("new", nodes=only("a")))).nodes == only("a")


def test_a_state_that_was_written_down_is_the_same() -> None:
    scheduler = machine("unified")
    submit(scheduler, 0.0, "p", requested=4, nodes=only("b"))
    submit(scheduler, 0.0, "q", requested=4, nodes=NodeChoice(avoid=("b",)))
    again = Scheduler.from_data(scheduler.to_data(), policy_named("unified"))
    again.validate()
    assert again.to_data() == scheduler.to_data()
    submit(again, 1.0, "r", requested=4, nodes=only("b"))
    assert where(again, "r") <= {"b"}


def test_an_amendment_that_its_nodes_could_not_hold_is_refused() -> None:
    from penstock.core import Amendment, JobAmended

    scheduler = machine()
    submit(scheduler, 0.0, "p", requested=4, nodes=only("b"))
    with pytest.raises(EventError, match="no number of the 4 devices"):
        scheduler.handle(JobAmended(1.0, "p", Amendment(at_least=8)))
