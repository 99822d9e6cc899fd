"""Plans for a job's model: searched once, in a process of their own, and kept.

A search is seconds of pure computation, which would hold up everybody else in a server's process. The child starts from
one question in JSON and answers with a scaling that has a plan for each count.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.core import CodecError, InputError, PenstockError, PlanError, Scaling, build, plain
from penstock.parallel.families import family_named
from penstock.parallel.planning.by_count import (
    SECONDS_PER_COUNT,
    DevicePool,
    plans_by_count,
    scaling_of,
    trainable,
    trainable_plans,
)
from penstock.parallel.planning.planner import any_plan
from penstock.tools import write_atomically

START_S, FACTOR = 60.0, 10.0
"""How long a child may take: to start and compile, and for each count, on a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuestion:
    """What the plans of a job on one kind of device depend on."""

    model: str
    batch: int
    seq: int | None
    pool: DevicePool
    counts: tuple[int, ...]
    own_trainer: bool
    """Whether our trainer runs the plans, or a command of the job's own."""
    profiles: str = ""
    """The data directory whose ``profiles`` were measured here."""

    def answer(self) -> Scaling:
        family = family_named(self.model, self.seq)
        family = trainable(family) if self.own_trainer else family
        accepts = trainable_plans(family) if self.own_trainer else any_plan
        return scaling_of(plans_by_count(family, self.pool, self.counts, batch=self.batch, accepts=accepts))


@dataclass(frozen=True, slots=True)
class PlanLibrary:
    """Answers under ``folder``, by fingerprint of the job and kind of device."""

    folder: Path

    def ask(self, fingerprint: str, question: PlanQuestion) -> Scaling:
        """The plans, from an earlier answer if it has all the counts; raises where nothing fits."""
        written = self._read(fingerprint, question.pool.kind)
        if written and _covers(written["question"], question):
            return _scaling(written["answer"])
        return self._made(fingerprint, question)

    def known(self, fingerprint: str, kind: str) -> Scaling | None:
        """The plans that were made for a job, whoever asked; None for jobs without a model."""
        written = self._read(fingerprint, kind)
        return _scaling(written["answer"]) if written else None

    def _made(self, fingerprint: str, question: PlanQuestion) -> Scaling:
        file = self._file(fingerprint, question.pool.kind)
        file.parent.mkdir(parents=True, exist_ok=True)
        around = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        around |= {"PENSTOCK_DATA_DIR": question.profiles} if question.profiles else {}
        limit_s = START_S + FACTOR * SECONDS_PER_COUNT * len(question.counts)
        try:
            done = subprocess.run(
                [sys.executable, "-m", __name__, str(file)], input=json.dumps(asdict(question)), env=around,
                capture_output=True, text=True, timeout=limit_s, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise PlanError(
                f"no plan for {question.model} on {question.pool.kind} after {limit_s:.0f} s", "fewer device counts",
                "Narrow devices in the job file",
            ) from None  # fmt: skip
        written = self._read(fingerprint, question.pool.kind)
        if done.returncode or not written:
            raise _problem(done.stderr)
        return _scaling(written["answer"])

    def _read(self, fingerprint: str, kind: str) -> dict[str, Any]:
        try:
            written: dict[str, Any] = json.loads(self._file(fingerprint, kind).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return written

    def _file(self, fingerprint: str, kind: str) -> Path:
        return self.folder / fingerprint / f"{kind.replace('/', '_')}.json"


def _covers(earlier: Mapping[str, Any], question: PlanQuestion) -> bool:
    """Whether an earlier question was the same, perhaps with more counts."""
    asked = {**json.loads(json.dumps(asdict(question)))}
    same = {key: value for key, value in earlier.items() if key != "counts"} == {
        key: value for key, value in asked.items() if key != "counts"
    }
    return same and set(question.counts) <= set(earlier["counts"])


def _scaling(answer: Mapping[str, Any]) -> Scaling:
    try:
        found: Scaling = build(Scaling, answer)
    except CodecError as problem:
        raise PlanError(f"plans that cannot be read: {problem}", "what this version wrote") from None
    return found


def _problem(said: str) -> InputError:
    lines = said.strip().splitlines()
    try:
        given, allowed, hint = json.loads(lines[-1])
    except (IndexError, ValueError):
        return PlanError("the search for plans failed", "", lines[-1] if lines else "It left no message")
    return PlanError(given, allowed, hint)


def main(file: Path) -> int:
    """In the child: answer the question on standard input into a file, or say on the last line what is wrong."""
    told = json.loads(sys.stdin.read())
    question = PlanQuestion(**{**told, "pool": DevicePool(**told["pool"]), "counts": tuple(told["counts"])})
    try:
        answer = question.answer()
    except InputError as problem:
        print(json.dumps([problem.given, problem.allowed, problem.hint]), file=sys.stderr)
        return 2
    except PenstockError as problem:
        print(json.dumps([str(problem), "", ""]), file=sys.stderr)
        return 2
    write_atomically(file, json.dumps({"question": told, "answer": plain(answer)}))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
