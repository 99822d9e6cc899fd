"""What an undisturbed run of the test script does, to compare others with."""

from typing import Any

import pytest

from tests.runtime.agent import Agent


def curve(agent: Agent) -> dict[int, float]:
    """Loss by step; everyone who completed a step must have seen the same loss."""
    found: dict[int, float] = {}
    for one in agent.records("step"):
        assert found.setdefault(one["step"], one["loss"]) == one["loss"]
    return found


def assert_same_curve(agent: Agent, undisturbed: Agent) -> None:
    assert curve(agent) == pytest.approx(curve(undisturbed), rel=2e-4)


def assert_every_sample_once(agent: Agent, steps: int, undisturbed: Agent) -> None:
    """What the workers of each completed step trained on is, together, exactly the batch of the undisturbed run."""
    assert batches(agent) == batches(undisturbed)
    assert sorted(batches(agent)) == list(range(steps))


def batches(agent: Agent) -> dict[int, list[int]]:
    """Samples by step, in the order of ranks, of the last world in which anyone completed the step."""
    completed = {one["step"]: 0 for one in agent.records("step")}
    for one in agent.records("step"):
        completed[one["step"]] = max(completed[one["step"]], one["generation"])
    shares = sorted(agent.records("share"), key=lambda one: one["rank"])
    return {step: _samples(shares, step, generation) for step, generation in completed.items()}


def _samples(shares: list[dict[str, Any]], step: int, generation: int) -> list[int]:
    chosen = [one for one in shares if (one["step"], one["generation"]) == (step, generation)]
    return [sample for one in chosen for sample in one["samples"]]
