"""A worker that is killed takes nothing with it: the others go on from the last step they completed."""

import time
from collections.abc import Callable

import pytest

from tests.runtime.agent import Agent
from tests.runtime.curves import assert_every_sample_once, assert_same_curve

STEPS = 30


@pytest.fixture(scope="module")
def undisturbed(launch_module: Callable[..., Agent]) -> Agent:
    agent = launch_module("--steps", str(STEPS))
    agent.start("w0", "w1")
    assert [one["code"] for one in agent.wait_exits()] == [0, 0], agent.errors()
    return agent


@pytest.mark.parametrize(
    ("doomed", "where"),
    [("w1", "before"), ("w0", "before"), ("w2", "backward"), ("w0", "backward"), ("w3", "after"), ("w0", "after")],
)
def test_survivors_redo_the_step_and_every_sample_counts_once(
    launch: Callable[..., Agent], undisturbed: Agent, doomed: str, where: str
) -> None:
    agent = launch("--steps", str(STEPS), "--die", f"{doomed}:11:{where}")
    agent.start("w0", "w1", "w2", "w3")
    assert agent.wait_exits(doomed)[0]["signal"] == 9
    died_at = time.monotonic()
    agent.bury(doomed)
    agent.wait_joined()
    assert time.monotonic() - died_at < 18, "noticed by the broken connection, not by the timeout of 20 s"
    survivors = [worker for worker in agent.peers if worker != doomed]
    assert {one["code"] for one in agent.wait_exits(*survivors)} == {0}, agent.errors()
    assert_same_curve(agent, undisturbed)
    assert_every_sample_once(agent, STEPS, undisturbed)


def test_the_last_one_left_finishes_alone(launch: Callable[..., Agent], undisturbed: Agent) -> None:
    agent = launch("--steps", str(STEPS), "--sleep", "0.02")
    agent.start("w0", "w1", "w2")
    agent.wait_joined()
    for doomed in ("w0", "w1"):
        agent.kill(doomed)
        agent.bury(doomed)
        agent.wait_joined()
    assert agent.wait_exits("w2")[0]["code"] == 0, agent.errors()
    assert_same_curve(agent, undisturbed)
    assert_every_sample_once(agent, STEPS, undisturbed)


def test_a_newcomer_that_dies_while_the_world_forms(launch: Callable[..., Agent], undisturbed: Agent) -> None:
    agent = launch("--steps", str(STEPS), "--sleep", "0.02")
    agent.start("w0", "w1")
    agent.wait_joined()
    agent.prepare("w2")
    agent.kill("w2")
    agent.wait_exits("w2")
    agent.generation += 1
    agent.world = ["w0", "w1", "w2"]
    for worker in ("w0", "w1"):
        agent.send(worker, agent.world_message(worker, before=("w0", "w1")))
    agent.bury("w2")
    agent.wait_joined()
    assert {one["code"] for one in agent.wait_exits("w0", "w1")} == {0}, agent.errors()
    assert_same_curve(agent, undisturbed)
    assert_every_sample_once(agent, STEPS, undisturbed)


def test_a_mistake_in_the_script_is_not_taken_for_a_lost_peer(launch: Callable[..., Agent]) -> None:
    agent = launch(script="broken.py")
    agent.start("w0")
    assert agent.wait_exits("w0")[0]["code"] == 1
    assert "shapes cannot be multiplied" in agent.errors()
