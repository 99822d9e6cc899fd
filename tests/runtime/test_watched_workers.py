"""Real workers tell how long their steps take and what they are doing: who is slow, and who holds up whom."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.backends.agent.states import WorkerGroup
from penstock.backends.agent.watch.run_observer import RunObserver, read_watch
from penstock.backends.agent.watch.stack_summary import as_text, summary
from penstock.backends.agent.watch.stragglers import IN_A_ROW
from penstock.core import ReportKind, RunWatch, StackOrder, StacksTaken, StepsTimed
from tests.backends.watching import workers
from tests.runtime.agent import Agent, wait_until

EVERYONE = ("w0", "w1", "w2")


class Watching:
    """An observer of real workers as an agent has it; ``news`` is what it reports."""

    def __init__(self, agent: Agent, folder: Path) -> None:
        self.news: list[tuple[ReportKind, dict[str, Any]]] = []
        self._agent, self._file = agent, folder / "watch.json"
        self._observer = RunObserver(self._file, lambda: 1.0, lambda *told: self.news.append(told), print)
        self._group = WorkerGroup(0, workers(3), 0.0)
        self._taken = dict.fromkeys(EVERYONE, 0)

    @property
    def told(self) -> int:
        """How often every worker has told its times."""
        return min(self._taken.values())

    def look(self) -> bool:
        """Take in what workers told since; whether anything is news."""
        for worker in EVERYONE:
            told = [one for one in list(self._agent.peers[worker].heard) if isinstance(one, StepsTimed)]
            for message in told[self._taken[worker] :]:
                self._observer.times(worker, message.times, self._group)
            self._taken[worker] = len(told)
        return bool(self.news)

    def seen(self) -> RunWatch:
        self._observer.flush()
        seen = read_watch(self._file)
        assert seen is not None
        return seen


def test_the_slow_one_is_named_and_so_is_the_one_that_is_stuck(launch: Callable[..., Agent], tmp_path: Path) -> None:
    agent = launch(script="slowed.py")
    agent.start(*EVERYONE)
    watching = Watching(agent, tmp_path)
    wait_until(watching.look, f"a straggler; {agent.errors()}")
    kind, said = watching.news[0]
    assert (kind, said["worker"], said["rank"]) == (ReportKind.STRAGGLER, "w2", 2)
    assert said["value"] > 1.3
    assert said["reason"].startswith("worker w2 on local/2 is")
    assert "slower than the others in compute since step" in said["reason"]

    seen = watching.seen()
    times = {one.worker: one.times for one in seen.workers}
    assert times["w2"].wait_s < min(times["w0"].wait_s, times["w1"].wait_s), "who is slow waits least"
    assert {one.worker: one.slower is not None for one in seen.workers} == {"w0": False, "w1": False, "w2": True}

    (agent.folder / "stuck").touch()

    def stuck() -> dict[str, Any] | None:
        look = len(agent.heard(StacksTaken)) + 1
        for worker in EVERYONE:
            agent.send(worker, StackOrder(look=look))
        wait_until(lambda: sum(one.look == look for one in agent.heard(StacksTaken)) == 3, "all stacks")
        found = {
            worker: next(m.threads for m in agent.peers[worker].heard if isinstance(m, StacksTaken) and m.look == look)
            for worker in EVERYONE
        }
        return found if "load_sample" in (line := summary(found, {})) and "wait in backward" in line else None

    found = wait_until(stuck, "w2 to be stuck")
    line = summary(found, {})
    assert "worker w2 is in load_sample (slowed.py:" in line
    assert "2 of 3 workers wait in backward, where gradients are exchanged, (slowed.py:" in line
    assert "in load_sample" in as_text(found["w2"])


def test_the_slow_one_among_shards_is_the_one_that_waits_least(launch: Callable[..., Agent], tmp_path: Path) -> None:
    """FSDP2 waits inside every layer: nobody is named while all are alike, then the slow one, and then it is not."""
    agent = launch(script="slowed_shards.py")
    agent.start(*EVERYONE)
    watching = Watching(agent, tmp_path)
    wait_until(lambda: watching.look() or watching.told > 2 * IN_A_ROW, f"times of all; {agent.errors()}")
    assert not watching.news

    (agent.folder / "slow").touch()
    wait_until(watching.look, f"a straggler; {agent.errors()}")
    (kind, said), *others = watching.news
    assert (kind, said["worker"], others) == (ReportKind.STRAGGLER, "w2", [])
    assert "slower than the others in compute since step" in said["reason"]
    times = {one.worker: one.times for one in watching.seen().workers}
    assert times["w2"].wait_s < min(times["w0"].wait_s, times["w1"].wait_s), "who is slow waits least"

    (agent.folder / "slow").unlink()
    watching.news.clear()
    wait_until(watching.look, f"its recovery; {agent.errors()}")
    assert [(told["worker"], told.get("value")) for _, told in watching.news] == [("w2", None)]
