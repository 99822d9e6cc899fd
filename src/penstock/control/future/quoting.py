"""What would happen if: the real scheduler, a copy of it, and one more job.

Nothing is estimated beside the policy. The copy is asked exactly as the original would be, so a quote is what a
submission at the same moment would be told.
"""

from penstock.core import (
    Admit,
    Amendment,
    Decline,
    Defer,
    Goal,
    Instruction,
    Job,
    JobAmended,
    JobResumed,
    JobSubmitted,
    Quote,
    Tick,
)
from penstock.scheduler import Scheduler

_MOST_ROUNDS = 4


def quote(stage: Scheduler, job: Job, now: float) -> Quote | None:
    """What the job would be told if it were submitted now; ``None`` if the scheduler would not say yet.

    ``stage`` is a twin of the scheduler in charge; afterwards the job is in it.
    """
    return _ask(stage, JobSubmitted(max(now, stage.now), job), job.id)


def quote_resumed(stage: Scheduler, job_id: str, goal: Goal | None, now: float) -> Quote | None:
    """What a paused job would be told if it were resumed now; ``stage`` is a twin, and the job goes on in it."""
    return _ask(stage, JobResumed(max(now, stage.now), job_id, goal), job_id)


def quote_amended(stage: Scheduler, job_id: str, amendment: Amendment, now: float) -> Quote | None:
    """What a job would be told if somebody changed it now; ``stage`` is a twin, and the job is changed in it."""
    return _ask(stage, JobAmended(max(now, stage.now), job_id, amendment, may_be_refused=True), job_id)


def _ask(stage: Scheduler, event: JobSubmitted | JobResumed | JobAmended, job_id: str) -> Quote | None:
    at = event.at
    said = _answers(stage.handle(event), job_id)
    for _ in range(_MOST_ROUNDS):
        if said is not None:
            return said
        at = max(at, stage.earliest_round(at))
        said = _answers(stage.handle(Tick(at)), job_id)
    return said or stage.quote_of(job_id)


def _answers(instructions: list[Instruction], job_id: str) -> Quote | None:
    quotes = [i.quote for i in instructions if isinstance(i, Admit | Defer | Decline) and i.quote.job_id == job_id]
    return quotes[-1] if quotes else None
