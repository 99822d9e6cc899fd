"""What Slurm says of our batch jobs, asked once for everybody who wants to know.

Every run has an agent, and each of them and the server look at their own jobs every second. Whoever finds the shared
file older than that asks ``squeue`` for all jobs at once and writes the answer down, while the others go on with the
one that is there: however many runs there are, the controller answers one question a second.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.backends.slurm.commands import SlurmCommands
from penstock.tools import file_lock, write_atomically

PREFIX = "penstock/"
EVERY_S = 1.0
_SLOT = re.compile(r"-?\d+")
_FORMAT = "%i|%T|%r|%N|%j"
_OVER = frozenset({
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",
    "TIMEOUT",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchName:
    """What a batch job of ours is called: whose it is, and on which device, if on one."""

    run_id: str
    part: str
    slot: int

    def __str__(self) -> str:
        return f"{PREFIX}{self.run_id}/{self.part}/{self.slot}"

    @classmethod
    def parse(cls, text: str) -> "BatchName | None":
        words = text.removeprefix(PREFIX).split("/")
        if not text.startswith(PREFIX) or len(words) != 3 or not _SLOT.fullmatch(words[2]):
            return None
        return cls(run_id=words[0], part=words[1], slot=int(words[2]))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """One batch job as ``squeue`` shows it; ``reason`` is Slurm's word for why it waits or has ended."""

    id: str
    state: str
    reason: str
    node: str
    name: BatchName

    @property
    def over(self) -> bool:
        """Whether nothing of it runs any more. One that is completing still holds its devices."""
        return self.state in _OVER

    @property
    def waits(self) -> bool:
        return self.state in ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SUSPENDED")


class BatchQueue:
    """All batch jobs of ours, as of a moment ago. ``file`` is shared by all who look below one state directory."""

    def __init__(self, file: Path, commands: SlurmCommands, partition: str) -> None:
        self._file = file
        self._commands = commands
        self._partition = partition

    def jobs(self, max_age_s: float = EVERY_S) -> dict[str, BatchJob]:
        """By their ids; raises :class:`~penstock.backends.slurm.commands.SlurmError` where Slurm does not answer."""
        if self._age_s() > max_age_s:
            with file_lock(self._file.with_suffix(".lock")):  # one asks, others wait for its answer
                if self._age_s() > max_age_s:
                    self._ask()
        return {job.id: job for job in _parsed(self._file.read_text().partition("\n")[2])}

    def of_run(self, run_id: str, max_age_s: float = EVERY_S) -> list[BatchJob]:
        """Those of one run that are not over."""
        return [job for job in self.jobs(max_age_s).values() if job.name.run_id == run_id and not job.over]

    def _ask(self) -> None:
        asked_at = time.time()
        text = self._commands.run(
            "squeue", "--noheader", "--states=all", f"--partition={self._partition}", f"--format={_FORMAT}"
        )
        ours = "".join(line + "\n" for line in text.splitlines() if f"|{PREFIX}" in line)
        write_atomically(self._file, f"{asked_at!r}\n{ours}", mode=0o600)

    def _asked_at(self) -> float:
        try:
            return float(self._file.read_text().partition("\n")[0])
        except (OSError, ValueError):
            return 0.0

    def _age_s(self) -> float:
        return abs(time.time() - self._asked_at())


def _parsed(text: str) -> Iterator[BatchJob]:
    for line in text.splitlines():
        fields = line.split("|", 4)
        name = BatchName.parse(fields[-1]) if len(fields) == 5 else None
        if name is not None:
            yield BatchJob(id=fields[0], state=fields[1], reason=fields[2], node=fields[3], name=name)


def queue_file(state_dir: Path) -> Path:
    """Where everybody below a state directory finds what Slurm said of all batch jobs."""
    return state_dir / "slurm" / "queue"
