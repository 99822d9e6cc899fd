"""What comes out of the scheduler: what the world must do now."""

from dataclasses import dataclass, field

from penstock.core.promises import Grant, Quote


@dataclass(frozen=True, slots=True)
class Admit:
    """The job is in; the quote says what it is promised."""

    quote: Quote


@dataclass(frozen=True, slots=True)
class Defer:
    """No answer yet; the quote says until when."""

    quote: Quote


@dataclass(frozen=True, slots=True)
class Decline:
    """The job is out; the quote says why and what could be promised instead."""

    quote: Quote


@dataclass(frozen=True, slots=True)
class Withdraw:
    """A promise is taken back without the job's doing; the quote says why and what holds instead."""

    quote: Quote


@dataclass(frozen=True, slots=True)
class Start:
    """Run for the first time on these devices."""

    grant: Grant


@dataclass(frozen=True, slots=True)
class Resize:
    """Keep running, on these devices instead (more, fewer, or others)."""

    grant: Grant


@dataclass(frozen=True, slots=True)
class Suspend:
    """Save state and give all devices back; ``why`` is for whom, and when it is expected to go on, if that is known."""

    job_id: str
    why: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Resume:
    """Load state and run on these devices."""

    grant: Grant


@dataclass(frozen=True, slots=True)
class Stop:
    """End the job for good and forget its state."""

    job_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Wake:
    """Send a Tick at this time if nothing else happens before."""

    at: float


Instruction = Admit | Defer | Decline | Withdraw | Start | Resize | Suspend | Resume | Stop | Wake
