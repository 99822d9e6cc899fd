"""What a report about real runs says, typed on both sides of the wire."""

from datetime import datetime

from pydantic import Field

from penstock.wire.views import WireModel


class SpreadView(WireModel):
    """Some durations in a few figures, in seconds."""

    count: int = 0
    total_s: float = 0.0
    p50_s: float | None = None
    p95_s: float | None = None
    most_s: float | None = None


class JobCountsView(WireModel):
    """Jobs that were there at some time of the period, by what they were at its end."""

    there: int = 0
    submitted: int = Field(default=0, description="In the period.")
    finished: int = 0
    failed: int = 0
    cancelled: int = 0
    refused: int = 0
    active: int = 0


class PromisesView(WireModel):
    """Promises that were settled in the period, and those still open at its end."""

    made: int = Field(default=0, description="To jobs submitted in the period.")
    kept: int = 0
    broken: int = 0
    given_up: int = Field(default=0, description="Cancelled by a person before the deadline could be met or missed.")
    failed: int = Field(default=0, description="Whose own scripts failed: no platform could have kept them.")
    open: int = 0
    refused: int = 0

    @property
    def kept_ratio(self) -> float | None:
        settled = self.kept + self.broken
        return self.kept / settled if settled else None


class BrokenView(WireModel):
    """A promise that was not kept, and what is known of why."""

    job_id: str
    name: str
    tenant: str
    deadline: datetime
    ended_at: datetime | None
    late_s: float | None = Field(description="So far if it has not ended; None if it ended without finishing.")
    why: str


class TenantView(WireModel):
    """What one tenant used and got."""

    tenant: str
    jobs: int
    device_seconds: float
    energy_j: float | None = Field(description="As the runs told it, else estimated; none: unknown.")
    energy_estimated: bool = Field(default=False, description="In part at least: a model's figure, not a meter's.")
    kept: int
    broken: int
    refused: int
    fairness: float | None = Field(
        default=None, description="Device-time used over deserved in the day before its end; none: it ended earlier."
    )


class FailureView(WireModel):
    reason: str
    count: int
    retried: int


class FailuresView(WireModel):
    """What went wrong, and what was lost by it."""

    by_reason: tuple[FailureView, ...] = ()
    workers_lost: int = 0
    lost_steps: int = Field(default=0, description="Done before a failure and done again; at least this many.")
    begun_again: int = Field(default=0, description="Stops for other jobs of runs that cannot resume.")
    begun_again_steps: int = Field(default=0, description="Steps that those runs had done.")
    downtime: SpreadView = Field(default=SpreadView(), description="From a failure to the next start of the job.")

    @property
    def count(self) -> int:
        return sum(failure.count for failure in self.by_reason)


class ResizesView(WireModel):
    count: int = 0
    in_place: int = 0
    pauses: SpreadView = SpreadView()


class ForecastView(WireModel):
    """Jobs that finished: when they were first expected to, and when they did.

    An error is (end - expected end) / (end - submission): 0.1 is a tenth of its life later than expected. Where the log
    does not have what was expected, it is the plan behind the promise, which is cautious.
    """

    jobs: int = 0
    unknown: int = Field(default=0, description="Finished without a forecast: their speed was not known in time.")
    median_error: float | None = None
    mean_absolute_error: float | None = None
    worst_error: float | None = None


class DayView(WireModel):
    """One stretch of the period, for a chart."""

    since: datetime
    device_seconds: float
    kept: int
    broken: int
    failures: int


class PeriodReport(WireModel):
    """A stretch of time on one platform, as far as whoever asks may see it."""

    since: datetime
    until: datetime
    tenant: str | None = Field(description="The only tenant it is about; none: all of them.")
    device_seconds: float
    capacity_device_seconds: float = Field(description="What the devices there are now could have given.")
    jobs: JobCountsView
    promises: PromisesView
    broken: list[BrokenView]
    tenants: list[TenantView]
    failures: FailuresView
    resizes: ResizesView
    forecast: ForecastView
    queue_wait: SpreadView
    stretches: list[DayView]


class JobReport(WireModel):
    """One job's life in figures."""

    job_id: str
    name: str
    tenant: str
    state: str
    submitted_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    verdict: str | None
    deadline: datetime | None
    promised_finish_at: datetime | None
    promise: str = Field(description="kept, broken, open, given up, failed, refused or none")
    late_s: float | None
    waited_s: float | None
    device_seconds: float
    energy_j: float | None
    energy_estimated: bool = False
    widest: int
    failures: FailuresView
    resizes: ResizesView
    forecast_error: float | None
    words: list[str] = Field(description="The same in sentences.")
