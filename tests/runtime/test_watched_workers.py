"""Real workers tell how long their steps take and what they are doing: who is slow, and who holds up whom."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.backends.agent.states import WorkerGroup
from penstock.backends.agent.watch.run_observer import RunObserver, read_watch
from penstock.backends.agent.watch.stack_summary import as_text, summary
from penstock.core import ReportKind, StackOrder, StacksTaken, StepsTimed
from tests.backends.watching import workers
from tests.runtime.agent import Agent, wait_until

EVERYONE = ("w0", "w1", "w2")


def test_the_slow_one_is_named_and_so_is_the_one_that_is_stuck(launch: Callable[..., Agent], tmp_path: Path) -> None:
    agent = launch(script="slowed.py")
    agent.start(*EVERYONE)
    reports: list[tuple[ReportKind, dict[str, Any]]] = []
    observer = RunObserver(tmp_path / "watch.json", lambda: 1.0, lambda kind, said: reports.append((kind, said)), print)
    group = WorkerGroup(0, workers(3), 0.0)
    taken = dict.fromkeys(EVERYONE, 0)

    def has_news() -> bool:
        for worker in EVERYONE:
            told = [one for one in list(agent.peers[worker].heard) if isinstance(one, StepsTimed)]
            for message in told[taken[worker] :]:
                observer.times(worker, message.times, group)
            taken[worker] = len(told)
        return bool(reports)

    wait_until(has_news, f"a straggler; {agent.errors()}")
    kind, said = reports[0]
    assert (kind, said["worker"], said["rank"]) == (ReportKind.STRAGGLER, "w2", 2)
    assert said["value"] > 1.3
    assert said["reason"].startswith("worker w2 on local/2 is")
    assert "slower than the others in compute since step" in said["reason"]

    observer.flush()
    seen = read_watch(tmp_path / "watch.json")
    assert seen is not None
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
