"""A what-if study on the wire: what should have been otherwise, and what would have come of it."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from penstock.wire.texts import StorableText
from penstock.wire.views import WireModel


class WhatIfRequest(WireModel):
    """What should have been otherwise. Every policy is replayed with all other changes; the rest is as it was."""

    since: StorableText = Field(default="30d", description="How long ago the past begins, or when.")
    until: StorableText | None = Field(default=None, description="When it ends; without it, now.")
    policies: Annotated[list[StorableText], Field(max_length=20)] = Field(
        default_factory=list, description="Policies as names, with settings where wanted; none: those that really ran."
    )
    devices: StorableText = Field(default="", description="+8, -8, or 64 in all.")
    cluster: StorableText = Field(default="", description="Another cluster altogether: 4x8.")
    shares: dict[StorableText, float] = Field(default_factory=dict, description="Shares of tenants.")
    anyway: bool = Field(default=False, description="Compare even where the past is not reproduced.")


class FiguresView(WireModel):
    """What a past amounts to; nothing where there is nothing to average."""

    finished: int
    refused: int
    promised: int
    kept: int
    broken: int
    completion_mean_s: float | None
    completion_p90_s: float | None
    waiting_mean_s: float | None
    device_seconds: float
    use: float | None
    resizes: int
    suspensions: int
    fairness: float | None = Field(
        default=None, description="Long-term fairness of the tenant that fared worst, over time; of replays only."
    )


class ReplayView(WireModel):
    label: str
    figures: FiguresView


class DeviationView(WireModel):
    """A job that the calibrating replay does not reproduce."""

    job_id: str
    real_s: float
    replayed_s: float | None
    why: str


class CalibrationView(WireModel):
    """How well a replay under the rules that really ran reproduces what happened."""

    errors: dict[str, float | None] = Field(description="By figure, the share by which the replay is off.")
    typical: float | None = Field(description="Differences of single jobs as a share of all completion times.")
    deviations: list[DeviationView]


class WhatIfReport(WireModel):
    """``baseline`` is the replay under the rules that really ran; differences are between replays only."""

    since: datetime
    until: datetime
    jobs: int
    devices: int
    policy: str
    conclusive: bool
    doubts: list[str] = Field(description="Why nothing is concluded.")
    notes: list[str]
    real: FiguresView
    baseline: ReplayView
    calibration: CalibrationView
    replays: list[ReplayView]
