"""Time slicing: everybody gets a turn of one quantum."""

import math

from penstock.core import JobSubmitted, Tick, Wake
from penstock.policies.published.gandiva import Gandiva
from penstock.scheduler import Scheduler
from tests.policies.views import Row, view
from tests.scheduler.build import job, scheduler


def crowd(count: int) -> Scheduler:
    machine = scheduler("1x1", "gandiva")
    machine.handle(*(JobSubmitted(0.0, job(f"j{i}", 1e6)) for i in range(count)))
    return machine


def running(machine: Scheduler) -> list[str]:
    return [name for name in machine.active() if machine.devices_of(name)]


def test_jobs_take_turns_in_order() -> None:
    machine = crowd(3)
    seen = [running(machine)]
    for turn in range(1, 7):
        machine.handle(Tick(60.0 * turn))
        seen.append(running(machine))
    assert seen == [["j0"], ["j1"], ["j2"], ["j0"], ["j1"], ["j2"], ["j0"]]


def test_a_turn_is_not_cut_short() -> None:
    machine = crowd(2)
    machine.handle(Tick(59.0))
    assert running(machine) == ["j0"]


def test_nobody_is_disturbed_while_all_fit() -> None:
    world = view(Row(width=2, requested=2), Row(width=2, requested=2), now=1000.0)
    decision = Gandiva().allocate(world)
    assert (decision.widths.tolist(), decision.wake_at) == ([2, 2], math.inf)


def test_a_newcomer_gets_its_turn_at_once_when_the_others_had_theirs() -> None:
    world = view(Row(width=4, requested=4), Row(requested=4, stint_since=100.0), now=100.0)
    decision = Gandiva().allocate(world)
    assert (decision.widths.tolist(), decision.wake_at) == ([0, 4], 160.0)


def test_who_waited_longest_goes_first() -> None:
    waiting = [Row(requested=4, stint_since=since) for since in (30.0, 10.0, 20.0)]
    assert Gandiva().allocate(view(*waiting, now=100.0)).widths.tolist() == [0, 4, 0]


def test_a_turn_ends_a_quantum_after_it_began_not_after_somebody_came() -> None:
    machine = scheduler("1x1", "gandiva")
    machine.handle(JobSubmitted(0.0, job("first", 1e6)))
    said = machine.handle(JobSubmitted(50.0, job("second", 1e6, submitted_at=50.0)))
    assert said[-1] == Wake(60.0)
    machine.handle(Tick(60.0))
    assert running(machine) == ["second"]


def test_everybody_gets_the_same_share() -> None:
    machine = crowd(3)
    for turn in range(1, 31):
        machine.handle(Tick(60.0 * turn))
    assert [1e6 - machine.remaining(name) for name in machine.active()] == [600.0, 600.0, 600.0]


def test_the_quantum_can_be_chosen() -> None:
    assert Gandiva(quantum_s=7.0).allocate(view(Row(requested=4), Row(requested=4), now=3.0)).wake_at == 10.0
