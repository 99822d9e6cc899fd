"""What happened to a job, in order, in words.

Every entry is written when the state changes, so ``why`` never has to guess. Simulations of millions of jobs switch
stories off; nothing else depends on them.
"""

from dataclasses import dataclass, field

from penstock.core import format_duration


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened."""

    at: float
    text: str


@dataclass(slots=True)
class Story:
    """All that happened to one job so far, and why it stands where it stands."""

    job_id: str
    entries: list[Entry] = field(default_factory=list)
    now: str = ""

    def add(self, at: float, text: str) -> None:
        self.entries.append(Entry(at, text))

    def __str__(self) -> str:
        start = self.entries[0].at if self.entries else 0.0
        lines = [f"+{format_duration(entry.at - start):>8}  {entry.text}" for entry in self.entries]
        return "\n".join([f"{self.job_id}:", *lines, *([f"     now:  {self.now}"] if self.now else [])])
