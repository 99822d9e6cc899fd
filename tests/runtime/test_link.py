"""Training never waits for the agent, and the agent misses nothing but old progress."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.core import (
    Bye,
    CheckpointSaved,
    Hello,
    LeaveOrder,
    MetricsLogged,
    Refusal,
    SuspendOrder,
    TrainingProgress,
    World,
    metric_values,
)
from penstock.runtime.agent.link import AgentLink, RefusedError
from tests.runtime.agent import Agent, Peer, Zygote, wait_until

WORLD = World(
    generation=1, rank=0, size=2, members=("w0", "w1"), rendezvous="file:/tmp/x", survivors=("w0",)
)  # fmt: skip


@pytest.fixture
def agent(tmp_path: Path, zygote: Zygote) -> Iterator[Agent]:
    listening = Agent(zygote, tmp_path, tmp_path / "unused.py")
    listening.peers["w0"] = Peer(0, "")
    yield listening
    listening.vanish()


@pytest.fixture
def link(agent: Agent) -> Iterator[AgentLink]:
    line = AgentLink(agent.address, "w0")
    yield line
    line.close(0.1)


def test_orders_arrive_and_the_latest_wins(agent: Agent, link: AgentLink) -> None:
    agent.send("w0", LeaveOrder())
    agent.send("w0", WORLD)
    agent.send("w0", SuspendOrder())
    wait_until(lambda: link.suspend, "all three messages")
    world = link.take_order(0)
    assert isinstance(world, World)
    assert (world.members, world.survivors, world.generation) == (("w0", "w1"), ("w0",), 1)
    assert link.take_order(0) is None
    agent.send("w0", LeaveOrder())
    assert link.take_order(5) == LeaveOrder()


def test_nonsense_is_ignored(agent: Agent, link: AgentLink, caplog: pytest.LogCaptureFixture) -> None:
    agent.send_line("w0", b'{"type": "world", "generation": 3}\n{"type": "sing"}\nnot even JSON\n')
    agent.send("w0", SuspendOrder())
    wait_until(lambda: link.suspend, "the message after the nonsense")
    assert link.order is None
    assert caplog.text.count("ignored a message") == 3
    assert "a world that cannot be read" in caplog.text


def test_metrics_arrive_in_order_and_the_last_ones_before_the_line_is_closed(agent: Agent, link: AgentLink) -> None:
    link.log(metric_values({"loss": 0.5, "val_acc": float("nan")}, 1))
    link.log(metric_values({"loss": 0.25}, 2))
    link.close(10.0)
    wanted = [("loss", "0.5", 1), ("val_acc", "nan", 1), ("loss", "0.25", 2)]

    def values() -> list[tuple[str, str, int | None]]:
        told = (value for message in agent.heard(MetricsLogged) for value in message.values)
        return [(value.name, str(value.value), value.step) for value in told]

    wait_until(lambda: values() == wanted, "all values")


def test_a_worker_that_is_refused_ends_with_the_agents_reason(agent: Agent, link: AgentLink) -> None:
    agent.send("w0", Refusal(reason="install the same version of penstock"))
    with pytest.raises(RefusedError, match="the same version"):
        link.take_order(30)


def test_the_line_is_found_again_and_nothing_said_meanwhile_is_lost(agent: Agent, link: AgentLink) -> None:
    wait_until(lambda: agent.heard(Hello), "hello")
    agent.vanish()
    for step in range(5):
        link.say(CheckpointSaved(step=step, blocking_s=0.0))
        link.progress(step=step, total=9, loss=None, samples_per_s=None)
    agent.peers["w0"].line = None
    agent.listen()
    wait_until(lambda: len(agent.heard(Hello)) == 2, "a second hello")
    wait_until(lambda: [one.step for one in agent.heard(CheckpointSaved)][-5:] == [0, 1, 2, 3, 4], "what was said")
    wait_until(lambda: [one.step for one in agent.heard(TrainingProgress)][-1:] == [4], "the latest progress")


def test_without_an_agent_everything_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    link = AgentLink(None, "w0")
    link.say(Bye())
    link.progress(step=1, total=2, loss=0.5, samples_per_s=1.0)
    assert not link.progress_due()
    assert link.take_order(0) is None
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", lambda _: pytest.fail("it waits for an agent that is not there"))
        link.close()


def test_training_goes_on_without_the_agent_and_reports_twice_a_second_at_most(launch: Callable[..., Agent]) -> None:
    agent = launch("--steps", "60", "--sleep", "0.02")
    agent.start("w0", "w1")
    agent.wait_joined()
    agent.vanish()
    for peer in agent.peers.values():
        peer.line = None
    agent.listen()
    assert {one["code"] for one in agent.wait_exits()} == {0}, agent.errors()
    progress = agent.heard(TrainingProgress)
    assert progress[-1].step == progress[-1].total == 60
    assert (progress[-1].loss or 0.0) > 0
    assert len(progress) <= 12
    wait_until(lambda: len(agent.heard(Bye)) == 2, "bye of both")
