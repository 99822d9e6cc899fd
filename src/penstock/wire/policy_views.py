"""The policy in force on the wire, and the wish for another."""

from datetime import datetime

from pydantic import Field

from penstock.wire.texts import StorableText
from penstock.wire.views import WireModel


class PolicyParameterView(WireModel):
    name: str
    value: str
    default: str
    allowed: str
    meaning: str


class PromiseRiskView(WireModel):
    """A promise that the new policy endangers; without ``expected_at`` it is withdrawn."""

    job_id: str
    deadline: datetime | None
    expected_at: datetime | None = None


class PolicyView(WireModel):
    policy: str
    written: str = Field(description="The name with its settings, as it can be written again.")
    parameters: list[PolicyParameterView]
    slot_s: float
    since: datetime | None
    by: str | None = Field(default=None, description="Who chose it while the server ran.")
    configured: str = Field(description="What the server's configuration says.")
    keeps_promises: bool
    promises: int = Field(description="Promises to jobs that are not over.")
    endangered: list[PromiseRiskView] = Field(default_factory=list, description="By the switch that was just made.")


class PolicyRequest(WireModel):
    policy: StorableText = Field(description="A name, with settings where wanted: themis:lease_s=600.")
    slot: StorableText | None = Field(default=None, description="Shortest time between decisions, if another.")
    force: bool = Field(default=False, description="Even if promises are endangered or withdrawn.")
