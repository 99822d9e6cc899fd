"""Eighteen jobs of a first afternoon, on a platform that has seen none of them.

`python -m bench.first_round` (about 7 min) first runs a plain script with a fixed batch for each device on one of four
slots and then submits it on two, on which it is no faster: with a deadline that it could keep only if it were, and with
one that it can keep (`python -m bench.first_round scene` does only that, in about a minute). Then it submits scripts of
the kinds that people bring (elastic ones, a plain one that saves, a loop of a shell, one that says nothing, one that
fails, one that cannot be in time) to a server with two slots, most of them with a deadline, and looks on. Nothing is
learned beforehand, so first answers rest on guesses: they are counted apart from forecasts, and each that is stated as
a fact is a fault. The forecast of a job is the first one in its run that rests on more than a guess, and its error the
difference to its end, as a share of what was left of it then. Steps wait for an accelerator that is not there
(:mod:`bench.steady`).
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.live import HERE, OVER, ended, keep_log, running
from penstock.client import Client
from penstock.wire.views import JobDetail

SLOTS = 2
SCENE_SLOTS = 4
EVERY_S = 10.0
LOOK_S = 0.5
LONGEST_S = 420.0


@dataclass(frozen=True, slots=True)
class Script:
    """One kind of script: what a job file says of it, and the seconds that a step takes on one slot."""

    file: dict[str, Any]
    step_s: float

    def spec(self, name: str, steps: int, deadline_s: float | None) -> dict[str, Any]:
        text = {"steps": str(steps), "seconds": str(steps * self.step_s)}
        file = {key: _filled(value, text) for key, value in self.file.items()}
        goal = {} if deadline_s is None else {"deadline": f"{deadline_s:.0f}s"}
        return {"name": name, "work": f"{steps} steps", "environment": {"working_dir": str(HERE)}, **file, **goal}


def _filled(value: Any, text: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [_filled(one, text) for one in value]
    for name, word in text.items():
        value = value.replace(f"%{name}%", word) if isinstance(value, str) else value
    return value


def _steady(step_s: float, *more: str, devices: str = "1..2") -> Script:
    args = ["--steps", "%steps%", "--step-s", str(step_s), *more]
    return Script({"script": str(HERE / "steady.py"), "args": args, "devices": devices}, step_s)


_LOOP = "for i in $(seq 1 %steps%); do sleep 0.2; echo penstock: step=$i total=%steps%; done"
SCRIPTS = {
    "elastic": _steady(0.05),
    "elastic, slow steps": _steady(0.25),
    "plain, saves": _steady(0.1, "--plain"),
    "shell loop": Script({"command": ["bash", "-c", _LOOP], "devices": "1"}, 0.2),
    "silent": Script({"command": ["sleep", "%seconds%"], "devices": "1"}, 0.1),
    "weak on 1": _steady(0.25, "--plain", "--weak", devices="1"),
    "weak on 2": _steady(0.25, "--plain", "--weak", devices="2"),
    "fails": Script({"command": ["bash", "-c", "sleep 3; echo no such data set >&2; exit 7"], "devices": "1"}, 0.1),
}
Asked = tuple[str, float, float | None]
SCENE: tuple[Asked, ...] = (("weak on 1", 8, None), ("weak on 2", 48, 44), ("weak on 2", 15, 80))
ROUND: tuple[Asked, ...] = (
    ("elastic", 30, 120), ("plain, saves", 25, 150), ("elastic, slow steps", 35, None), ("shell loop", 20, 180),
    ("silent", 15, 200), ("elastic", 30, 150), ("fails", 10, 120), ("elastic, slow steps", 30, 180),
    ("plain, saves", 25, 240), ("elastic", 400, 60), ("shell loop", 20, 260), ("elastic", 20, None),
    ("elastic, slow steps", 25, 240), ("silent", 15, 280), ("plain, saves", 20, 280),
)  # fmt: skip
"""The kind of a script, its seconds of work on one slot, and the seconds it has, if it is in a hurry."""


@dataclass(slots=True)
class Watched:
    """One job from its first answer to its end."""

    kind: str
    within_s: float | None
    first: JobDetail
    last: JobDetail
    forecast: tuple[datetime, datetime] | None = None
    """When the first forecast of its run that is no guess was given, and what it said."""
    stated: list[str] = field(default_factory=list)
    """Guesses that were stated as facts."""

    def look(self, job: JobDetail, now: datetime) -> None:
        self.last = job
        speed = job.quote.speed if job.quote else None
        if speed == "guessed" and job.state not in OVER:
            if job.expected_at is not None:
                self.stated.append(f"expected at {job.expected_at:%H:%M:%S}")
            if job.quote is not None and job.quote.verdict in ("declined", "refused"):
                self.stated.append(job.quote.reason)
        elif job.expected_at is not None and self.forecast is None and job.state == "running":
            self.forecast = (now, job.expected_at)

    @property
    def promised(self) -> bool:
        return self.within_s is not None and self.last.quote is not None and self.last.quote.deadline is not None

    @property
    def kept(self) -> bool:
        took = self.took
        return took is not None and took <= (self.within_s or 0.0)

    @property
    def took(self) -> float | None:
        if self.last.state != "finished" or self.last.ended_at is None:
            return None
        return (self.last.ended_at - self.first.submitted_at).total_seconds()

    @property
    def error(self) -> float | None:
        if self.forecast is None or self.last.state != "finished" or self.last.ended_at is None:
            return None
        given, said = self.forecast
        return (said - self.last.ended_at).total_seconds() / max(1.0, (self.last.ended_at - given).total_seconds())

    def row(self) -> list[str]:
        answer = self.first.quote
        said = "-" if answer is None else f"{answer.verdict} ({answer.speed})"
        promise = "none" if not self.promised else "kept" if self.kept else f"not kept: {self.last.reason[:40]}"
        error = "-" if self.error is None else f"{self.error:+.0%}"
        took = self.last.state if self.took is None else f"{self.took:.0f} s"
        within = "best effort" if self.within_s is None else f"{self.within_s:.0f} s"
        return [str(self.first.number), self.kind, within, said, took, error, promise]


def main() -> None:
    watched = on_a_server(SCENE, SCENE_SLOTS, in_turn=True)
    if sys.argv[1:] != ["scene"]:
        watched += on_a_server(ROUND, SLOTS)
    sys.exit(tell(watched))


def on_a_server(asked: Sequence[Asked], slots: int, *, in_turn: bool = False) -> list[Watched]:
    """One round on a server that has seen nothing."""
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as name,
        running(Path(name), "bench.live", "work", name, str(slots)) as (client, _),
    ):
        watched = one_round(client, asked, in_turn=in_turn)
        if keep := os.environ.get("BENCH_KEEP"):
            keep_log(client, Path(f"{keep}-{slots}"))
        ended(client, Path(name))
    return watched


def one_round(client: Client, asked: Sequence[Asked], *, in_turn: bool = False) -> list[Watched]:
    """Submit jobs, one every few seconds or each when the one before is over, and look on until all are over."""
    watched: list[Watched] = []
    begun = time.monotonic()
    while time.monotonic() - begun < LONGEST_S:
        due = min(len(asked), 1 + int((time.monotonic() - begun) / EVERY_S))
        if in_turn and any(one.last.state not in OVER for one in watched):
            due = len(watched)
        for kind, seconds, within_s in asked[len(watched) : min(due, len(watched) + 1)]:
            script = SCRIPTS[kind]
            name = f"{kind.split(',')[0].replace(' ', '-')}-{len(watched)}"
            job = client.submit(script.spec(name, round(seconds / script.step_s), within_s)).job
            watched.append(Watched(kind, within_s, job, job))
        for one in watched:
            if one.last.state not in OVER:
                one.look(client.job(one.first.id), datetime.now(one.first.submitted_at.tzinfo))
        if len(watched) == len(asked) and all(one.last.state in OVER for one in watched):
            break
        time.sleep(LOOK_S)
    return watched


def tell(watched: list[Watched]) -> int:
    """Print the round; the number of faults: promises that were broken and guesses that were stated as facts."""
    table = Table(title=f"{len(watched)} jobs nobody had seen: {len(SCENE)} on {SCENE_SLOTS} slots, then on {SLOTS}")
    for column in (
        "job",
        "kind",
        "deadline",
        "first answer",
        "took",
        "error of its first forecast",
        "promise",
    ):
        table.add_column(column)
    for one in watched:
        table.add_row(*one.row())
    console = Console(width=160)
    console.print(table)
    errors = [abs(one.error) for one in watched if one.error is not None]
    if errors:
        middle, worst = statistics.median(errors), max(errors)
        console.print(f"first forecasts: {len(errors)}, median error {middle:.0%}, worst {worst:.0%}")
    promised = [one for one in watched if one.promised and one.kind != "fails"]
    broken = [one for one in promised if not one.kept]
    stated = [(one, words) for one in watched for words in one.stated[:1]]
    console.print(f"promises given: {len(promised)}, kept: {len(promised) - len(broken)}")
    console.print(f"guesses stated as facts: {len(stated)}")
    for one, words in stated:
        console.print(f"  {one.first.name}: {words}")
    return len(broken) + len(stated)


if __name__ == "__main__":
    main()
