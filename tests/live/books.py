"""Reading what elastic jobs wrote down, and holding them to it.

When does a sample count? A step may be attempted several times: its world breaks, or the run starts again from an
older checkpoint. An *attempt* is a step in one world, and the world's mark (run, attempt, generation) names it.
Gradients are exchanged all at once, so an attempt that one worker has completed contains the share of every member,
also of one that died before it could say so; that is why shares are written down before the exchange and completion
after it.

Of several completed attempts one counts: the one the final state descends from. The others are work that was lost with
the processes that held it. Which one that is, is not guessed from the order of events but carried by the state itself:
each completed step adds its world's mark to a list that is handed over, saved and restored together with the weights.
(Where only the last completed attempt can have survived, this is the last one; a state that skips, repeats or loses a
step shows as a list of the wrong length or with a mark nobody completed.)
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Attempt:
    """One step in one world."""

    epoch: int
    size: int
    shares: dict[int, list[int]] = field(default_factory=dict)
    completed: bool = False

    @property
    def samples(self) -> list[int]:
        return [sample for share in self.shares.values() for sample in share]


@dataclass(frozen=True, slots=True)
class Books:
    """Everything the workers of one job wrote; processes of the ``struck`` runs were killed, perhaps in their end."""

    lines: list[dict[str, Any]]
    struck: frozenset[str] = frozenset()

    @classmethod
    def of(cls, folder: Path, job_id: str, struck: Iterable[str] = ()) -> "Books":
        files = sorted(folder.glob(f"{job_id}-*.jsonl"))
        lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return cls(lines, frozenset(struck))

    def attempts(self) -> dict[tuple[str, int], Attempt]:
        found: dict[tuple[str, int], Attempt] = {}
        for line in self._of_kind("took"):
            attempt = found.setdefault((line["mark"], line["step"]), Attempt(line["epoch"], line["size"]))
            assert line["rank"] not in attempt.shares, f"two workers were rank {line['rank']} of {line['mark']}"
            attempt.shares[line["rank"]] = line["samples"]
        for line in self._of_kind("done"):
            found[line["mark"], line["step"]].completed = True
        return found

    def lineage(self) -> list[str]:
        """The world of every step of the final state, on which all workers that saw the end agree."""
        finals = self._of_kind("final")
        assert finals, "nobody saw the end"
        before_the_last = {final["run"] for final in finals} - {max(finals, key=_when)["run"]}
        assert before_the_last <= self.struck, "the job came to its end in two runs"
        assert all(final["lineage"] == finals[0]["lineage"] for final in finals), "workers ended with different states"
        marks: list[str] = finals[0]["lineage"]
        return marks

    def check_every_sample_once(self, *, samples: int, batch: int, epochs: int) -> None:
        attempts, lineage = self.attempts(), self.lineage()
        assert len(lineage) == epochs * -(-samples // batch), f"{len(lineage)} steps in the final state"
        consumed: defaultdict[int, Counter[int]] = defaultdict(Counter)
        for step, mark in enumerate(lineage):
            attempt = attempts[mark, step]
            assert attempt.completed, f"step {step} of {mark} is in the final state, but nobody completed it"
            assert sorted(attempt.shares) == list(range(attempt.size)), f"step {step} of {mark} lacks a share"
            consumed[attempt.epoch].update(attempt.samples)
        once = Counter(range(samples))
        wrong = [epoch for epoch in range(epochs) if consumed[epoch] != once]
        assert not wrong, f"epochs {wrong} did not use every sample exactly once"
        assert sorted(consumed) == list(range(epochs))

    def check_one_run_at_a_time(self) -> None:
        """Runs of a job follow each other; each has said its last word before the next says its first."""
        spoken: defaultdict[str, list[float]] = defaultdict(list)
        for line in self.lines:
            spoken[line["run"] if line["kind"] == "final" else line["mark"].partition("/")[0]].append(line["at"])
        spans = sorted((min(times), max(times), run) for run, times in spoken.items())
        for (_, end, before), (start, _, after) in pairwise(spans):
            assert end < start, f"{before} was still training when {after} began"

    def last_step(self) -> int:
        """That anybody completed; -1 before the first."""
        return max((int(line["step"]) for line in self._of_kind("done")), default=-1)

    def worlds(self) -> int:
        return len(set(self.lineage()))

    def _of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["kind"] == kind]


def _when(line: dict[str, Any]) -> float:
    return float(line["at"])


def check_nothing_ran_twice(folder: Path) -> None:
    doubles: Iterable[Path] = folder.glob("*.double")
    assert not list(doubles), "a plain job had two processes at once"
