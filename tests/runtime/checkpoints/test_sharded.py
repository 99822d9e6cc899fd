"""FSDP2 changes its world through the disk: planned changes lose nothing, a death goes back to the last checkpoint, or
to what peers hold."""

import shutil
from collections.abc import Callable

import pytest

from penstock.core import CheckpointSaved, Joined
from tests.runtime.agent import Agent
from tests.runtime.curves import assert_every_sample_once, assert_same_curve, curve


def test_resizes_of_a_sharded_model_keep_the_loss_curve(launch: Callable[..., Agent]) -> None:
    plain = launch("--steps", "40")
    plain.start("w0", "w1")
    agent = launch("--steps", "40", "--strategy", "fsdp2", "--sleep", "0.03")
    agent.start("w0")
    for world in (["w0", "w1"], ["w0", "w1", "w2"], ["w2"]):
        agent.resize(*world)
        agent.wait_joined()
    assert {one["code"] for one in (*plain.wait_exits(), *agent.wait_exits())} == {0}, agent.errors()
    assert_same_curve(agent, plain)
    assert_every_sample_once(agent, 40, plain)


def test_a_death_goes_back_to_the_last_checkpoint(launch: Callable[..., Agent]) -> None:
    plain = launch("--steps", "30")
    plain.start("w0", "w1")
    agent = launch(
        "--steps", "30", "--strategy", "fsdp2", "--save-steps", "5", "--die", "w1:17:before", "--sleep", "0.02"
    )
    agent.start("w0", "w1", "w2")
    assert agent.wait_exits("w1")[0]["signal"] == 9
    agent.bury("w1")
    agent.wait_joined()
    assert {one["code"] for one in (*plain.wait_exits(), *agent.wait_exits("w0", "w2"))} == {0}, agent.errors()
    redone = [one["step"] for one in agent.records("step") if one["generation"] == 1]
    assert min(redone) in {0, *(one.step for one in agent.heard(CheckpointSaved))}
    assert max(_announced_before(agent, 1), default=0) <= min(redone) <= 17
    last = {one["step"]: one["loss"] for one in sorted(agent.records("step"), key=lambda one: one["generation"])}
    assert last.keys() == curve(plain).keys()
    assert all(abs(last[step] - loss) < 2e-4 * abs(loss) + 1e-6 for step, loss in curve(plain).items())


def _announced_before(agent: Agent, generation: int) -> list[int]:
    """Checkpoints that were told of before a world made its first step; the same steps may be saved in it again."""
    found: list[int] = []
    for peer in agent.peers.values():
        met = [isinstance(one, Joined) and one.generation == generation for one in peer.heard]
        until = met.index(True) if True in met else len(peer.heard)
        found += [one.step for one in peer.heard[:until] if isinstance(one, CheckpointSaved)]
    return found


@pytest.mark.parametrize("where", ["before", "exchange"])
def test_a_lost_machine_costs_one_step_and_no_reading_of_storage(launch: Callable[..., Agent], where: str) -> None:
    """Every worker is a machine of its own; the memory of the one that dies goes with it, and so does the storage.

    It dies when a step begins, or when its holder has half of a shard.
    """
    plain = launch("--steps", "30")
    plain.start("w0", "w1")
    agent = launch(
        "--steps", "30", "--strategy", "fsdp2", "--memory-steps", "1", "--die", f"w1:17:{where}", "--memory", "memory"
    )  # fmt: skip
    agent.start("w0", "w1", "w2")
    assert agent.wait_exits("w1")[0]["signal"] == 9
    shutil.rmtree(agent.folder / "memory" / "w1")
    shutil.rmtree(agent.checkpoints, ignore_errors=True)
    agent.prepare("w3")
    agent.replace("w1", "w3")
    agent.wait_joined()
    assert {one["code"] for one in (*plain.wait_exits(), *agent.wait_exits("w0", "w2", "w3"))} == {0}, agent.errors()
    redone = [one["step"] for one in agent.records("step") if one["generation"] == 1]
    assert min(redone) in (16, 17)
    last = {one["step"]: one["loss"] for one in sorted(agent.records("step"), key=lambda one: one["generation"])}
    assert last.keys() == curve(plain).keys()
    assert all(abs(last[step] - loss) < 2e-4 * abs(loss) + 1e-6 for step, loss in curve(plain).items())
    assert not list((agent.folder / "memory").glob("*/*/*")), "memory is given back at the end"
