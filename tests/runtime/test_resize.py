"""A resize changes who computes, never what is computed."""

from collections.abc import Callable

import pytest

from penstock.core import Bye, CheckpointSaved, FinishOrder
from tests.runtime.agent import Agent, wait_until
from tests.runtime.curves import assert_every_sample_once, assert_same_curve

STEPS = 60


@pytest.fixture(scope="module")
def undisturbed(launch_module: Callable[..., Agent]) -> Agent:
    agent = launch_module("--steps", str(STEPS))
    agent.start("w0", "w1")
    assert [one["code"] for one in agent.wait_exits()] == [0, 0], agent.errors()
    return agent


def test_five_resizes_leave_the_loss_curve_and_the_order_of_samples_as_they_were(
    launch: Callable[..., Agent], undisturbed: Agent
) -> None:
    agent = launch("--steps", str(STEPS), "--sleep", "0.05")
    agent.start("w0")
    for world in (["w0", "w1"], ["w0", "w1", "w2", "w3"], ["w3", "w1"], ["w1", "w4", "w5"], ["w5"]):
        agent.resize(*world)
        agent.wait_joined()
    assert {one["code"] for one in agent.wait_exits()} == {0}, agent.errors()
    assert_same_curve(agent, undisturbed)
    assert_every_sample_once(agent, STEPS, undisturbed)
    assert {one["size"] for one in agent.records("step")} == {1, 2, 3, 4}


def test_agreement_where_gradients_cannot_carry_it(launch: Callable[..., Agent], undisturbed: Agent) -> None:
    """DDP that looks for unused parameters takes no word along: it travels beside the gradients."""
    agent = launch("--steps", str(STEPS), "--sleep", "0.03", "--unused")
    agent.start("w0")
    for world in (["w0", "w1"], ["w1", "w2", "w3"]):
        agent.resize(*world)
        agent.wait_joined()
    assert {one["code"] for one in agent.wait_exits()} == {0}, agent.errors()
    assert_same_curve(agent, undisturbed)
    assert_every_sample_once(agent, STEPS, undisturbed)


def test_survivors_keep_their_process_and_newcomers_take_over_the_whole_state(
    launch: Callable[..., Agent], undisturbed: Agent
) -> None:
    agent = launch("--steps", str(STEPS), "--sleep", "0.02")
    agent.start("w0")
    agent.wait_step(1)
    agent.resize("w1", "w0")
    agent.wait_joined()
    assert {one["code"] for one in agent.wait_exits()} == {0}, agent.errors()
    records = agent.records("step")
    assert len({one["pid"] for one in records if one["rank"] == 0 or one["size"] == 1}) == 2
    rates = {one["step"]: one["lr"] for one in undisturbed.records("step")}
    assert all(one["lr"] == rates[one["step"]] for one in records)
    ends = agent.records("end")
    assert len(ends) == 2
    assert ends[0] == ends[1]
    assert ends[0]["weights"] == pytest.approx(undisturbed.records("end")[0]["weights"], rel=1e-3, abs=1e-3)


def test_micro_batches_and_uneven_shares_add_up_to_the_same_gradient(
    launch: Callable[..., Agent], undisturbed: Agent
) -> None:
    agent = launch("--steps", str(STEPS), "--micro", "3")
    agent.start("w0", "w1", "w2")
    assert {one["code"] for one in agent.wait_exits()} == {0}, agent.errors()
    assert_same_curve(agent, undisturbed)
    assert_every_sample_once(agent, STEPS, undisturbed)


def test_more_workers_than_samples_in_a_batch(launch: Callable[..., Agent]) -> None:
    alone = launch("--steps", "20", "--batch", "2")
    alone.start("w0")
    wide = launch("--steps", "20", "--batch", "2")
    wide.start("w0", "w1", "w2")
    assert {one["code"] for one in (*alone.wait_exits(), *wide.wait_exits())} == {0}, wide.errors()
    assert_same_curve(wide, alone)
    assert_every_sample_once(wide, 20, alone)


def test_a_world_that_is_replaced_before_it_came_together_is_skipped(
    launch: Callable[..., Agent], undisturbed: Agent
) -> None:
    agent = launch("--steps", str(STEPS), "--sleep", "0.02")
    agent.start("w0", "w1")
    agent.wait_joined()
    agent.generation += 1
    agent.world = ["w0", "w1", "ghost"]
    agent.send("w0", agent.world_message("w0", before=("w0", "w1")))
    agent.send("w1", agent.world_message("w1", before=("w0", "w1")))
    agent.wait_here("w0")
    agent.bury("ghost")
    agent.wait_joined()
    assert {one["code"] for one in agent.wait_exits()} == {0}, agent.errors()
    assert_same_curve(agent, undisturbed)
    assert_every_sample_once(agent, STEPS, undisturbed)


def test_a_newcomer_that_comes_too_late_goes_home(launch: Callable[..., Agent]) -> None:
    agent = launch("--steps", "5", "--linger", "now")
    agent.start("w0")
    agent.prepare("w1")
    wait_until(lambda: agent.heard(Bye), "the end of training")
    agent.resize("w0", "w1")
    agent.wait_here("w1")
    (agent.folder / "now").touch()
    assert [one["code"] for one in agent.wait_exits()] == [0, 0], agent.errors()


def test_a_training_that_is_over_ends_its_loop_on_all_workers_and_does_what_follows_it(
    launch: Callable[..., Agent],
) -> None:
    agent = launch("--steps", "100000", "--sleep", "0.01", "--save-steps", "1000")
    agent.start("w0", "w1")
    agent.wait_step(5)
    agent.send("w1", FinishOrder())
    assert [one["code"] for one in agent.wait_exits()] == [0, 0], agent.errors()
    completed = {one["completed"] for one in agent.records("end")}
    assert len(completed) == 1
    assert 5 <= completed.pop() < 100_000
    assert agent.heard(CheckpointSaved)[-1].step == agent.records("end")[0]["completed"]
    assert len(agent.heard(Bye)) == 2
