"""Checkpoints and files of jobs, as the API shows them, and what a clean-up removes."""

from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict, Field

from penstock.wire.texts import StorableText
from penstock.wire.views import WireModel


class CheckpointView(WireModel):
    """Something a job can go on from; ``path`` is where it lies among the job's files."""

    path: str
    bytes: int
    saved_at: datetime
    step: int | None = None
    state: str = Field(description="whole, damaged, or unchecked where the job writes no manifest.")
    verified_at: datetime | None = Field(default=None, description="When it was read back and was what was written.")
    where: str = Field(default="saved", description="saved, or memory: there for as long as the run and its machine.")
    problem: str = ""

    @property
    def condition(self) -> str:
        """What is wrong with it, or how whole it is."""
        if self.problem:
            return f"{self.state}: {self.problem}"
        return f"{self.state}, verified" if self.verified_at is not None else self.state


class CheckpointList(WireModel):
    place: str = Field(description="The directory, or the URL of a bucket, that the job saves to.")
    checkpoints: list[CheckpointView]


class FileView(WireModel):
    path: str = Field(description="From the directory that the job saves to.")
    kind: str = Field(description="file, directory or link.")
    bytes: int
    changed_at: datetime


class FileList(WireModel):
    place: str
    files: list[FileView]
    truncated: bool = Field(default=False, description="Whether there are more than are listed.")


class CleanRequest(WireModel):
    """Of which jobs that are over the checkpoints go: those that meet every condition that is given."""

    model_config = ConfigDict(extra="forbid")
    older: StorableText | None = Field(default=None, description="Ended longer ago than this: 30d.")
    larger: StorableText | None = Field(default=None, description="With more than this in all: 10GB.")
    keep_last: Annotated[int, Field(ge=0, le=10**6, description="So many newest checkpoints of each job stay.")] = 0
    dry_run: bool = Field(default=False, description="Only say what would go.")


class CleanedJob(WireModel):
    job_id: str
    name: str
    state: str
    ended_at: datetime | None
    bytes: int = Field(description="Of what went.")
    files: list[str] = Field(description="What went: checkpoints and other files, by name.")
    problem: str = ""


class CleanReport(WireModel):
    jobs: list[CleanedJob]
    bytes: int
    dry_run: bool
