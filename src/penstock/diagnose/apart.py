"""A diagnosis in a process of its own, with a budget.

The output of a job is whatever its author wants it to be, and may be made to take a pattern long. So a server never
reads it itself: a child process does, which the kernel ends when it has used up its processor time, and which cannot
have more memory than it is allowed. It dies with the server too.

Run as a program it reads one examination from its input and writes the diagnosis.
"""

import json
import logging
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from penstock.core import Diagnosis, InputError, build, plain
from penstock.diagnose.doctor import Doctor, LogSource
from penstock.diagnose.facts import RunFacts
from penstock.diagnose.logs.kernel_log import kernel_lines
from penstock.diagnose.signatures.own import catalogue_with
from penstock.diagnose.sources import text_source
from penstock.tools import die_with_parent

_log = logging.getLogger(__name__)
_NO_MEMORY = 70
_INSTEAD = "Look at its output with `penstock logs`, or run `penstock doctor` on a copy of the lines that matter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one diagnosis may use."""

    processor_s: int = 10
    wall_s: float = 30.0
    memory_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What there is to read about one failure; ``data_dir`` may have signatures of its own.

    ``kernel_since``: what this machine's kernel has said from then on is about the run too, and about processes that
    it killed if ``kernel_kills``.
    """

    log: bytes
    facts: RunFacts
    data_dir: str | None = None
    kernel_since: float | None = None
    kernel_kills: bool = False


def examined(given: Examination) -> Diagnosis:
    """The diagnosis, made here."""
    return _doctor(given.data_dir).diagnose([text_source(given.log, "log"), *_kernel_log(given)], given.facts)


def examined_apart(given: Examination, budget: Budget | None = None) -> Diagnosis:
    """The diagnosis, made by a child process; one that says so where the budget was not enough."""
    allowed = budget or Budget()
    head = {
        "facts": plain(given.facts), "data_dir": given.data_dir, "kernel_since": given.kernel_since,
        "kernel_kills": given.kernel_kills,
    }  # fmt: skip
    command = [sys.executable, "-P", "-m", __name__, str(os.getpid()), json.dumps(plain(allowed))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    ) as child:
        try:
            answer, _ = child.communicate(json.dumps(head).encode() + b"\n" + given.log, allowed.wall_s)
        except subprocess.TimeoutExpired:
            child.kill()
            return _stopped(f"{allowed.wall_s:g} s")
    if child.returncode == -signal.SIGXCPU:
        return _stopped(f"{allowed.processor_s} s of processor time")
    if child.returncode == _NO_MEMORY:
        return _stopped(f"{allowed.memory_bytes >> 20} MiB of memory")
    found: Diagnosis = build(Diagnosis, json.loads(answer))
    return found


def _stopped(most: str) -> Diagnosis:
    return Diagnosis(cause=f"the diagnosis took more than its {most} and was stopped", fix=_INSTEAD)


_shipped = cache(Doctor.shipped)


def _doctor(data_dir: str | None) -> Doctor:
    shipped = _shipped()
    try:
        return shipped if data_dir is None else Doctor(catalogue_with(Path(data_dir)))
    except InputError as error:
        _log.warning("signatures of this server are left out: %s", error)
        return shipped


def _kernel_log(given: Examination) -> list[LogSource]:
    lines = [] if given.kernel_since is None else kernel_lines(given.kernel_since, kills=given.kernel_kills)
    return [text_source("\n".join(lines), "kernel log")] if lines else []


def _keep_to(budget: Budget) -> None:
    """From here on the kernel sees to it; a second after the warning nothing can be heeded any more."""
    resource.setrlimit(resource.RLIMIT_CPU, (budget.processor_s, budget.processor_s + 1))
    resource.setrlimit(resource.RLIMIT_AS, (budget.memory_bytes, budget.memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    die_with_parent(int(sys.argv[1]))
    _keep_to(build(Budget, json.loads(sys.argv[2])))
    try:
        head: Mapping[str, Any] = json.loads(sys.stdin.buffer.readline())
        given = Examination(**{**head, "facts": build(RunFacts, head["facts"])}, log=sys.stdin.buffer.read())
        print(json.dumps(plain(examined(given))))
    except MemoryError:
        os._exit(_NO_MEMORY)


if __name__ == "__main__":
    main()
