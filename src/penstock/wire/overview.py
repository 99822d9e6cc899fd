"""The platform at a glance: one answer with everything a screen full of it needs, so that looking costs one request."""

from datetime import datetime

from pydantic import Field

from penstock.wire.views import EventView, WireModel

BOOKKEEPING = frozenset({"Ticked", "Decided", "CostsLearned"})
"""Entries of the log that only the platform itself cares about; people are not shown them unless they ask."""


class DeviceView(WireModel):
    """One device and what is known of it; a job of somebody else's tenant has no name here."""

    index: int
    state: str = Field(description="held, free, lost, draining or drained")
    job_id: str | None = None
    utilisation: float | None = None
    power_w: float | None = None
    memory_bytes: float | None = None


class NodeGlance(WireModel):
    name: str
    kind: str
    state: str
    devices: list[DeviceView]


class JobGlance(WireModel):
    """An active job: where it stands, what it was promised and what is expected of it now."""

    id: str
    number: int
    name: str
    tenant: str
    state: str
    devices: int
    share_done: float
    submitted_at: datetime
    started_at: datetime | None
    deadline: datetime | None
    promised: bool
    forecast_at: datetime | None
    step: int | None
    total: int | None
    loss: float | None
    failures: int

    @property
    def slack_s(self) -> float | None:
        """From the expected end to the deadline; negative means that it will be late."""
        if self.deadline is None or self.forecast_at is None:
            return None
        return (self.deadline - self.forecast_at).total_seconds()


class OverviewView(WireModel):
    now: datetime
    policy: str
    trouble: str = Field(description="Why the platform does not do its work; empty while it does.")
    warnings: list[str] = Field(default=[], description="What an operator should look at while the platform works.")
    counts: dict[str, int] = Field(description="Jobs by state, as far as they may be seen.")
    held: int
    devices: int = Field(description="Those of nodes that are up.")
    utilisation: float | None = Field(description="Mean over the devices that tell.")
    power_w: float | None
    oldest_wait_s: float | None = Field(description="Of the job that waits longest for its start.")
    nodes: list[NodeGlance]
    jobs: list[JobGlance] = Field(description="Active ones, those that run first, then in order of arrival.")
    left_out: int = Field(description="Active jobs beyond the limit.")
    events: list[EventView] = Field(description="The latest entries of the log, the newest last.")
