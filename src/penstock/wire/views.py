"""What the API shows, typed on both sides of the wire. Times are RFC 3339 in UTC, durations and sizes base units."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from penstock.core import LATEST, TENANT_NAME, format_duration
from penstock.wire.diagnosis_views import DiagnosisView
from penstock.wire.texts import StorableText, storable


def stamp(at: float | str | None) -> datetime | None:
    """A moment as people exchange it; never and unknown are both ``None``.

    Calendars end with the year 9999: whatever comes later is shown as the last day that every time zone has.
    """
    if at is None or not math.isfinite(float(at)):
        return None
    return datetime.fromtimestamp(min(max(float(at), 0.0), LATEST), UTC)


def rounded_up(moment: datetime, to_s: int = 1) -> datetime:
    """The next whole second (or whole ``to_s`` seconds), so that a deadline written so is not before it."""
    return datetime.fromtimestamp(math.ceil(moment.timestamp() / to_s) * to_s, UTC)


class WireModel(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class QuoteView(WireModel):
    verdict: str
    reason: str
    deadline: datetime | None = Field(default=None, description="What is promised.")
    finish_at: datetime | None = Field(default=None, description="When it is done at the latest by the plan behind it.")
    devices: int = 0
    device_seconds: float = 0.0
    counter_offer: datetime | None = Field(default=None, description="The earliest deadline that can be promised.")
    offer_until: datetime | None = Field(
        default=None,
        description="Until when the counter-offer is held: the same job, submitted by then with that deadline or a "
        "later one, is promised. Absent if it is not held.",
    )
    answer_by: datetime | None = Field(
        default=None,
        description="By when a deferred job has its final answer; absent while it runs, which it may do until it ends "
        "or its deadline has passed.",
    )
    expected_at: datetime | None = Field(default=None, description="When it will probably be done, as of now.")
    speed: str | None = Field(default=None, description="What it rests on: measured, predicted or guessed speed.")
    forecast_only: bool = Field(
        default=False, description="Whether an engine's own queue decides when devices are there: nothing is promised."
    )


class ProgressView(WireModel):
    """Where the run stands; ``remaining`` is in iterations and projected where the run has not told yet."""

    remaining: float
    work: float
    step: int | None = None
    total: int | None = None
    loss: float | None = None
    samples_per_s: float | None = None
    saved_step: int | None = None
    told_at: datetime | None = None


class StopView(WireModel):
    """What a job trains until, how far its metric is, and when that will end it; nothing is expected without values."""

    rule: str = Field(description='"val_acc >= 0.92", or "val_loss stops falling for 500 steps".')
    metric: str
    best: float | None = None
    best_step: int | None = None
    expected_steps: float | None = Field(default=None, description="Of all its work, what it is expected to do.")
    safe_steps: float | None = Field(default=None, description="What suffices in nine of ten cases.")
    reach: float | None = Field(default=None, description="The probability that its rule ends it before its work does.")
    expected_at: datetime | None = None
    safe_at: datetime | None = Field(default=None, description="When it is over in nine of ten cases, on what it has.")

    def words(self, clock: Callable[[datetime], str]) -> str:
        """How sure what is expected is, with moments as somebody reads them."""
        if self.expected_steps is None or self.safe_steps is None or self.reach is None:
            return "nothing can be said about its end before it has told some values"
        by, safe = f"{self.expected_steps:.0f} steps in all", f"within {self.safe_steps:.0f}"
        if self.expected_at is not None and self.safe_at is not None:
            by, safe = f"by {clock(self.expected_at)}", f"by {clock(self.safe_at)}"
        never = round(100 * (1.0 - self.reach))
        sure = f"{by}, nine of ten {safe}"
        return f"{sure}; {never} % that it never gets there" if never else sure


class JobView(WireModel):
    id: str
    number: int
    name: str
    tenant: str
    state: str
    submitted_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    expected_at: datetime | None = Field(default=None, description="When it will probably be done, as of now.")
    quote: QuoteView | None = None
    promise: str = Field(default="none", description="kept, broken, open, given up, failed, refused or none.")
    late_s: float | None = Field(
        default=None,
        description="Of a promise that is kept or broken: seconds after its deadline at its end, or by now; below 0 "
        "before it. Absent if the job ended without finishing.",
    )
    devices: list[int] = []
    run_id: str | None = None
    failures: int = 0
    reason: str = ""
    tail: list[str] = []


def promise_words(job: JobView) -> str:
    """What has become of its promise: "promise broken, 12s late", "promise kept, 3m early"; empty while it is open."""
    if job.promise not in ("kept", "broken"):
        return ""
    if job.late_s is None:
        return f"promise {job.promise}"
    margin = f"{format_duration(abs(job.late_s))} {'late' if job.late_s > 0 else 'early'}"
    return f"promise {job.promise}, {margin}{'' if job.ended_at else ' so far'}"


class StintView(WireModel):
    run_id: str
    generation: int
    kind: str
    devices: list[int]
    since: datetime
    until: datetime | None = None


class UsageView(WireModel):
    """What the processes of a job use together, and the most they used; device figures only where a driver tells."""

    at: datetime
    cpu_percent: float = Field(description="100 is one core.")
    memory_bytes: int
    device_percent: float | None = None
    device_memory_bytes: int | None = None
    power_w: float | None = None
    peak_cpu_percent: float
    peak_memory_bytes: int
    peak_device_memory_bytes: int | None = None
    memory_limit_bytes: int | None = Field(default=None, description="The most it may hold, where that is enforced.")
    unlimited: str = Field(default="", description="Why limits that the job has are not enforced.")


class ValueStepView(WireModel):
    until: datetime
    value: float = Field(description="Share of its value that the job has when it is done by then.")


class JobDetail(JobView):
    spec: dict[str, Any] = {}
    deadline: datetime | None = None
    values: list[ValueStepView] = Field(default=[], description="What it is worth after its deadline, in steps.")
    expected_value: float | None = Field(
        default=None, description="Share of its value that it will probably have, or had at its end."
    )
    progress: ProgressView | None = None
    generation: int = 0
    workers: list[str] = []
    retry_at: datetime | None = None
    exit_code: int | None = Field(default=None, description="Of the last failed run.")
    diagnosis: DiagnosisView | None = Field(default=None, description="What its last failure was found to mean.")
    history: list[StintView] = []
    until: StopView | None = Field(default=None, description="For a job that ends when its metric says so.")
    usage: UsageView | None = Field(default=None, description="As its backend told lately; none where it never did.")
    resumable: bool = Field(default=True, description="Whether it goes on from where it was when its devices change.")
    notices: list[str] = Field(
        default=[], description="What is seen in its run now: workers that are slow or stuck, a loss that went wrong."
    )


QUIET_S = 20.0
NO_PROGRESS = "none told yet; print lines such as `penstock: step=3 total=100` and its end can be foreseen"


def share_is_guessed(job: JobDetail) -> bool:
    """Whether what is believed to be done rests on a speed that nobody has measured and on no word of the script."""
    told = job.progress is not None and job.progress.step is not None
    return not told and job.quote is not None and job.quote.speed == "guessed"


def tells_nothing(job: JobDetail, now: float) -> bool:
    """Whether a job has run for a while without a word about its progress."""
    holds = job.state == "running" or (job.state == "asking" and bool(job.devices))
    if not holds or job.started_at is None or (job.progress is not None and job.progress.step is not None):
        return False
    return now - job.started_at.timestamp() > QUIET_S


class ArrayView(WireModel):
    """A job array as one line; ``number`` is that of its last job."""

    id: str
    name: str
    tenant: str
    number: int
    submitted_at: datetime
    jobs: int = Field(description="How many there are in all.")
    states: dict[str, int] = Field(description="How many of them stand where.")
    devices: int = Field(default=0, description="What they hold together.")
    expected_at: datetime | None = Field(default=None, description="When the last of them will probably be done.")


class JobPage(WireModel):
    jobs: list[JobView]
    arrays: list[ArrayView] = Field(default=[], description="Arrays instead of their jobs, where that was asked for.")
    next: str | None = Field(default=None, description="The cursor of the next page; none on the last.")


class Submission(WireModel):
    """The answer to a submission; ``again`` if this request had been answered before."""

    job: JobDetail
    again: bool = False


class ArrayRequest(WireModel):
    """A job file and the indices to submit it for."""

    model_config = ConfigDict(extra="forbid")
    job: Annotated[dict[str, Any], AfterValidator(storable), Field(description="A job file as JSON.")]
    array: Annotated[StorableText, Field(description="FIRST..LAST, both included.", max_length=40)]


class ArraySubmission(WireModel):
    """The jobs of an array in the order of their indices; ``again`` if this request had been answered before."""

    id: str
    jobs: list[str]
    again: bool = False


class NoteView(WireModel):
    at: datetime
    text: str


class StoryView(WireModel):
    job_id: str
    entries: list[NoteView]
    now: str


class EventView(WireModel):
    seq: int
    at: datetime
    kind: str
    job_id: str | None = None
    payload: dict[str, Any]


class EventPage(WireModel):
    events: list[EventView]
    next: int = Field(description="Ask for events after this number to go on.")


class NodeView(WireModel):
    name: str
    kind: str
    devices: list[int]
    state: str = Field(description="up, lost, drained, or draining while jobs that cannot resume end on it")
    jobs: list[str] = []
    unusable: list[str] = Field(default=[], description="Why it was drained, or devices of it cannot be used.")
    checked: str = Field(default="", description="How thorough the last check was that it passed: quick or full.")
    checked_at: datetime | None = Field(default=None, description="When it passed that check.")


class DrainRequest(WireModel):
    model_config = ConfigDict(extra="forbid")
    now: bool = Field(default=False, description="Also stop jobs that cannot resume; otherwise they end there first.")
    reason: Annotated[StorableText, Field(max_length=1000, description="Why, for whoever looks at the node.")] = ""
    force: bool = Field(default=False, description="Even if that endangers promises.")


class DrainedJob(WireModel):
    """A job on a node that is to be drained."""

    id: str
    name: str
    resumable: bool
    lost_s: float = Field(description="Seconds of work that it would lose if it were stopped now.")
    elsewhere: bool = Field(description="Whether any other node that it may use is in use.")

    def happens(self, *, now: bool) -> str:
        """What draining the node does to it, in words."""
        then = "goes on elsewhere" if self.elsewhere else "waits, for no other node that it may use is in use"
        if self.resumable:
            return f"saves its state and {then}"
        lost = f"{format_duration(self.lost_s)} of work"
        if now:
            return f"cannot resume: it loses {lost} and begins again"
        return f"cannot resume: it ends there first (stopped now it would lose {lost})"


class LogPage(WireModel):
    text: str
    next: str = Field(description="The cursor to go on from.")
    complete: bool = Field(description="Whether the job is over and nothing more will come.")


class TokenView(WireModel):
    id: str
    name: str
    role: str
    tenant: str
    created_at: datetime
    scope: list[str] = Field(default=[], description="What it may be used for; empty: all that its role may do.")
    expires_at: datetime | None = Field(default=None, description="When it stops being valid; none: never.")
    last_used_at: datetime | None = Field(default=None, description="To the minute.")
    origin: str = Field(default="", description="The identity provider that vouched for its holder, if one did.")
    secret: str | None = Field(default=None, description="Shown once, when it is made.")


class PauseRequest(WireModel):
    model_config = ConfigDict(extra="forbid")
    anyway: bool = Field(default=False, description="Also if the job cannot resume and loses its work.")
    at_checkpoint: bool = Field(default=False, description="Wait for its next checkpoint; only a job that can resume.")


class ResumeRequest(WireModel):
    model_config = ConfigDict(extra="forbid")
    deadline: StorableText | None = None
    best_effort: bool = False
    from_scratch: bool = Field(default=False, description="Begin again at step 0, saving to an empty directory.")


class EditRequest(WireModel):
    """New values for keys of a job file; what is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")
    deadline: StorableText | None = None
    then: dict[StorableText, StorableText] | None = Field(
        default=None, description="With a deadline: what late is still worth, such as 8h: 50%."
    )
    best_effort: bool | None = None
    devices: StorableText | int | None = Field(default=None, description='A number, or bounds: "1..8", "2..".')
    priority: int | None = None
    name: StorableText | None = None


class TerminalSize(WireModel):
    model_config = ConfigDict(extra="forbid")
    rows: int = Field(default=24, ge=1, le=10_000)
    columns: int = Field(default=80, ge=1, le=10_000)


class KeysRequest(WireModel):
    model_config = ConfigDict(extra="forbid")
    text: Annotated[str, Field(max_length=1 << 16)] = ""
    size: TerminalSize | None = None


class ExecRequest(WireModel):
    model_config = ConfigDict(extra="forbid")
    terminal: TerminalSize | None = Field(default=None, description="A terminal to run it in; none: no input.")
    command: list[StorableText] = Field(min_length=1, max_length=1000, description="A program and its arguments.")


class TokenRequest(WireModel):
    model_config = ConfigDict(extra="forbid")
    name: Annotated[StorableText, Field(min_length=1, max_length=120)]
    tenant: str = Field(min_length=1, max_length=63, pattern=f"^{TENANT_NAME}$")
    role: str = Field(default="user", pattern="^(viewer|user|tenant-admin|admin)$")
    scope: list[Annotated[str, Field(pattern="^(read|submit|steer|metrics|admin)$")]] = Field(
        default=[], max_length=5, description="What it may be used for; empty: all that its role may do."
    )
    expires: StorableText | None = Field(default=None, description="After how long (30d), or when.")


class AuditView(WireModel):
    seq: int
    at: datetime
    actor: str
    token_id: str
    tenant: str
    address: str
    action: str
    target: str
    result: str = Field(description="done, or the code of the refusal.")


class AuditPage(WireModel):
    entries: list[AuditView]
    next: int | None = Field(default=None, description="Ask for entries before this number to go on; none on the last.")


class QuotaView(WireModel):
    """Limits of a tenant; ``*`` are those of every tenant without its own. None: no limit."""

    tenant: str
    active_jobs: int | None = None
    devices: int | None = None
    requests_per_s: float | None = None


class QuotaRequest(WireModel):
    model_config = ConfigDict(extra="forbid")
    active_jobs: int | None = Field(default=None, ge=0, le=10**9)
    devices: int | None = Field(default=None, ge=0, le=10**9)
    requests_per_s: float | None = Field(default=None, ge=0.01, le=10**6)


class SecretRequest(WireModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)
    value: SecretStr


class SecretView(WireModel):
    name: str
    tenant: str
    set_at: datetime | None


class VersionView(WireModel):
    version: str
    api: str = "v1"


class HealthView(WireModel):
    status: str
    trouble: str = ""
    notices: list[str] = Field(default=[], description="What is wrong with single runs or with clocks.")
    warnings: list[str] = Field(default=[], description="What an operator should look at while everything goes on.")
