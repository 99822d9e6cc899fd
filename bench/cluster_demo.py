"""The README's demo on an engine: a job with a deadline makes another one shrink in place over two nodes.

A job at best effort trains on four devices of two nodes. One with a deadline comes and is promised: the first one
shrinks, and grows again when the other is through. Then one of its workers is killed, and the others go on. The
server, its agents and the engine are real; what is read off are the run's own figures and the steps it completed.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import timed_steps
from bench.timed_steps import SAVE_STEPS, last_step, longest_halt
from penstock.backends.testing import until
from penstock.client import Client
from penstock.wire import OVER

EXAMPLES = Path(__file__).resolve().parents[1] / "src" / "penstock" / "examples"
DEVICES = 4
DEADLINE = "120s"
SETTLED = 20
"""Steps that a job completes before something happens to it."""
PATIENCE_S = 240.0
ASK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class EngineSite:
    """A server on an engine with four devices on two nodes, and how a worker of a run is killed there.

    ``kill`` returns when it did.
    """

    name: str
    client: Client
    kill: Callable[[str, str], float]


@dataclass(slots=True)
class DemoFigures:
    """Seconds of all demos on one engine, and what became of their promises."""

    shrunk: list[float] = field(default_factory=list)
    grown: list[float] = field(default_factory=list)
    began: list[float] = field(default_factory=list)
    """From the submission of the job with a deadline to its first step."""
    survived: list[float] = field(default_factory=list)
    promises: list[str] = field(default_factory=list)


def play(site: EngineSite, folder: Path, figures: DemoFigures) -> None:
    """One demo; raises where the story goes otherwise."""
    folder.mkdir(parents=True)
    client = site.client
    elastic = submitted(
        client, folder, "elastic", timed_steps.__file__, devices=f"2..{DEVICES}", work="1_000_000 steps"
    )
    waited(lambda: last_step(folder) >= SETTLED and width(client, elastic) == DEVICES, "the elastic job on all devices")
    if (nodes := sum(elastic in node.jobs for node in client.nodes())) != 2:
        raise SystemExit(f"the elastic job is on {nodes} nodes instead of two")
    came_at = time.monotonic()
    urgent = submitted(
        client, EXAMPLES, "urgent", str(EXAMPLES / "cnn.py"), ["--epochs", "4"], work="96 steps", deadline=DEADLINE
    )
    waited(lambda: step(client, urgent) > 0, "the first step of the job with a deadline")
    figures.began.append(time.monotonic() - came_at)
    waited(lambda: client.job(urgent).state in OVER, "the end of the job with a deadline")
    waited(
        lambda: width(client, elastic) == DEVICES and settled(client, elastic), "the elastic job on all devices again"
    )
    figures.promises.append(client.job_report(urgent).promise)
    for before, after, pause_s in resizes(client, elastic):
        (figures.shrunk if after < before else figures.grown).append(pause_s)
    figures.survived.append(halted(site, elastic, folder))
    client.cancel(elastic)
    waited(lambda: client.job(elastic).state in OVER, "the end of the elastic job")


def submitted(
    client: Client, folder: Path, name: str, script: str, arguments: list[str] | None = None, **keys: Any
) -> str:
    goal = {} if "deadline" in keys else {"best_effort": True}
    spec = {
        "name": name, "command": [sys.executable, script, *(arguments or [])], **goal, **keys,
        "environment": {"working_dir": str(folder), "env": {"OMP_NUM_THREADS": "1"}},
    }  # fmt: skip
    return client.submit(spec).job.id


def waited(probe: Callable[[], object], what: str) -> None:
    """Asks some ten times a second: a server refuses whoever asks as fast as it answers."""

    def paced() -> object:
        time.sleep(ASK_EVERY_S)
        return probe()

    until(paced, what, PATIENCE_S)


def width(client: Client, job: str) -> int:
    return len(client.job(job).devices)


def settled(client: Client, job: str) -> bool:
    """Whether its run has told of the resize to all devices."""
    told = [event.payload["width"] for event in events(client, job, "Resized")]
    return bool(told) and told[-1] == DEVICES


def resizes(client: Client, job: str) -> list[tuple[int, int, float]]:
    """From how many workers to how many, and for how long training stood still; all of them in place."""
    found, before = [], DEVICES
    for event in events(client, job, "Resized"):
        if not event.payload["in_place"]:
            raise SystemExit(f"a resize to {event.payload['width']} workers was not in place")
        if (after := event.payload["width"]) != before:
            found.append((before, after, float(event.payload["pause_s"] or 0.0)))
        before = after
    return found


def step(client: Client, job: str) -> int:
    progress = client.job(job).progress
    return (progress.step or 0) if progress is not None else 0


def events(client: Client, job: str, kind: str) -> list[Any]:
    return [event for event in client.events(job, limit=1000).events if event.kind == kind]


def halted(site: EngineSite, job: str, folder: Path) -> float:
    """The longest time without a new step after a worker was killed."""
    waited_for_steps(folder, last_step(folder) + SAVE_STEPS + SETTLED)
    detail = site.client.job(job)
    killed_at = site.kill(str(detail.run_id), detail.workers[-1])
    waited_for_steps(folder, last_step(folder) + SETTLED)
    return longest_halt(folder, killed_at)


def waited_for_steps(folder: Path, step: int) -> None:
    waited(lambda: last_step(folder) >= step, f"step {step}")
