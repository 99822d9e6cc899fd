"""A run whose loss goes wrong goes back to a healthy checkpoint, all workers together, without the bad batches."""

import math
from collections.abc import Callable

import pytest

from penstock.core import MEMORY_DIR, CheckpointSaved, LossFault, LossWrong, StateRolledBack
from tests.runtime.agent import Agent

BATCH, STEPS, BAD = 8, 60, 40


def _ended(agent: Agent, *workers: str) -> list[dict[str, object]]:
    agent.start(*workers)
    assert [one["code"] for one in agent.wait_exits()] == [0] * len(workers), agent.errors()
    return agent.records("end")


def test_a_bad_batch_ruins_a_run_that_looks_away(launch: Callable[..., Agent]) -> None:
    agent = launch("--loss", "off", script="poisoned.py")
    (end,) = _ended(agent, "w0")
    assert all(math.isnan(weight) for weight in end["weights"])
    assert not agent.heard(LossWrong)


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_two_workers_go_back_together_and_pass_over_the_bad_batch_once(
    launch: Callable[..., Agent], strategy: str
) -> None:
    agent = launch("--strategy", strategy, script="poisoned.py")
    agent.env[MEMORY_DIR] = str(agent.folder / "memory")  # snapshots between checkpoints are of the bad state too
    ends = _ended(agent, "w0", "w1")
    assert ends[0]["completed"] == STEPS
    assert ends[0]["weights"] == ends[1]["weights"]
    assert all(map(math.isfinite, ends[0]["weights"]))
    (back,) = agent.heard(StateRolledBack)
    assert (back.step, back.skips, back.until, back.fault) == (30, BAD - 1, BAD, LossFault.NOT_FINITE)
    took = {rank: [row["step"] for row in agent.records("step") if row["rank"] == rank] for rank in (0, 1)}
    assert took[0] == took[1]
    seen = took[0]
    turn = next(position for position, step in enumerate(seen[1:], 1) if step <= seen[position - 1])
    assert seen[turn:] == [step for step in range(30, STEPS) if step not in (BAD - 1, BAD)]
    after = [row for rank in (0, 1) for row in [r for r in agent.records("step") if r["rank"] == rank][turn:]]
    samples = sorted(one for row in after for one in row["samples"])
    assert samples == [one for one in range(30 * BATCH, STEPS * BATCH) if one // BATCH not in (BAD - 1, BAD)]
    assert max(one.step for one in agent.heard(CheckpointSaved)) == STEPS


def test_without_a_checkpoint_from_before_it_is_told_and_nothing_else(launch: Callable[..., Agent]) -> None:
    agent = launch("--bad", "4", "--save-steps", "30", script="poisoned.py")
    (end,) = _ended(agent, "w0")
    assert all(math.isnan(weight) for weight in end["weights"])
    told = agent.heard(LossWrong)
    assert [one.fault for one in told] == [LossFault.NOT_FINITE] * 2
    assert "no checkpoint from before step 3" in told[-1].reason
    assert not agent.heard(StateRolledBack)


def test_a_run_that_diverges_again_and_again_fails_and_says_why(launch: Callable[..., Agent]) -> None:
    agent = launch("--bad", "15", "25", "35", "45", "--save-steps", "3", script="poisoned.py")
    agent.start("w0")
    assert agent.wait_exits()[0]["code"] == 1
    assert len(agent.heard(StateRolledBack)) == 3
    assert "DivergedError: the loss of step 47 is not a number since step 45" in agent.errors()
    assert "after training went back 3 times" in agent.errors()
