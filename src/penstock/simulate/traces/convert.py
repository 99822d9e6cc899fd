"""From what a trace says to what a scheduler needs: a curve, an amount of work and a goal for every job.

What the trace leaves open is drawn, once and for all: each draw depends on the seed, on what is drawn and on the job's
id, not on the order of jobs or on what else is in the trace. Taking jobs out changes nothing about those that stay.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from penstock.core import (
    BestEffort,
    Curve,
    Deadline,
    Goal,
    InputError,
    Job,
    Strictness,
    TraceError,
    UnknownNameError,
    ValueStep,
    Work,
)
from penstock.simulate.traces.draws import uniform_draw
from penstock.simulate.traces.records import TraceJob
from penstock.simulate.traces.tables import ProfileKey, Profiles

Bounds = tuple[float, float]


def jobs_of(
    records: Iterable[TraceJob],
    profiles: Profiles,
    *,
    seed: int = 0,
    deadlines: Bounds | None = None,
    caps: bool = False,
) -> Iterator[Job]:
    """The jobs of a trace, or of any stream of records, one by one."""
    return (to_job(record, profiles, seed=seed, deadlines=deadlines, caps=caps) for record in records)


def to_job(
    record: TraceJob,
    profiles: Profiles,
    *,
    seed: int = 0,
    deadlines: Bounds | None = None,
    caps: bool = False,
) -> Job:
    """A record as a job, with what is missing drawn as in :func:`with_model` and :func:`with_deadline`.

    ``caps`` keeps an elastic policy below the number of devices the simulator published with ElasticFlow allowed the
    model and batch size, for comparisons with its results.
    """
    whole = with_model(record, profiles, seed=seed)
    if deadlines is not None:
        whole = with_deadline(whole, deadlines, seed=seed)
    return Job(
        id=whole.id,
        work=Work(whole.iterations or 0.0),
        curve=_curve(whole, profiles),
        goal=_goal(whole),
        tenant=whole.tenant,
        submitted_at=whole.submitted_at,
        requested=whole.devices,
        at_least=whole.devices if whole.rigid else 1,
        at_most=whole.devices if whole.rigid else _cap(whole, profiles) if caps else None,
        model=whole.model,
        batch=whole.batch,
        statistics=profiles.statistics.get(whole.model),
    )


def with_model(record: TraceJob, profiles: Profiles, *, seed: int = 0) -> TraceJob:
    """The record with its model, batch size and iterations known, and its duration where the profiles tell it.

    A record without a model gets one of the profiles that run on its devices, each equally likely; a record with a
    model but no batch size gets one of that model's. Iterations follow from the duration, or the other way round.
    """
    try:
        return _completed(record, profiles, seed)
    except UnknownNameError as problem:
        raise UnknownNameError(f"job {record.id!r}: {problem.given}", problem.allowed, problem.hint) from None


def elastic(record: TraceJob, profiles: Profiles) -> TraceJob:
    """The record as a job that may run on any number of devices; a model without tables is forgotten, to be drawn."""
    if not record.rigid:
        return record
    known = record.model in profiles.names
    return replace(record, rigid=False, model=record.model if known else "", batch=record.batch if known else 0)


def with_deadline(record: TraceJob, bounds: Bounds, *, seed: int = 0) -> TraceJob:
    """A record without a deadline gets one: submission + lambda x duration, lambda uniform between the bounds."""
    low, high = bounds
    if not 0 < low <= high < math.inf:
        raise InputError(f"deadlines of {low:g} to {high:g} durations", "0 < low <= high", 'Try "0.5..1.5"')
    if record.deadline is not None:
        return record
    if record.duration_s is None:
        raise TraceError(
            f"job {record.id!r} has no duration to draw a deadline from",
            "a duration",
            "Give profiles that tell how long it takes on the devices it asks for",
        )
    slack = low + (high - low) * uniform_draw(seed, "deadline", record.id)
    return replace(record, deadline=record.submitted_at + slack * record.duration_s)


def _completed(record: TraceJob, profiles: Profiles, seed: int) -> TraceJob:
    if _runs_as_told(record, profiles):
        return replace(record, iterations=record.duration_s)
    if not record.batch:
        model, batch = _draw_profile(record, profiles, seed)
        record = replace(record, model=model, batch=batch)
    rate = profiles.curve(record.model, record.batch).rate(record.devices)
    if record.iterations is None and record.duration_s is None:
        record = replace(record, iterations=profiles.work.get((record.model, record.batch)))
    if record.iterations is None:
        return replace(record, iterations=_iterations(record, rate))
    if record.duration_s is None and rate:
        return replace(record, duration_s=record.iterations / rate)
    return record


def _runs_as_told(record: TraceJob, profiles: Profiles) -> bool:
    """Whether the duration is all that says how fast a rigid job is; its work is then counted in seconds."""
    if not record.rigid or record.duration_s is None:
        return False
    return record.iterations is None or (record.model, record.batch) not in profiles.curves


def _curve(record: TraceJob, profiles: Profiles) -> Curve:
    return _told(record.devices) if _runs_as_told(record, profiles) else profiles.curve(record.model, record.batch)


@lru_cache(maxsize=1024)
def _told(devices: int) -> Curve:
    """One iteration per second on exactly so many devices of any kind."""
    return Curve.from_table({devices: 1.0})


def _goal(record: TraceJob) -> Goal:
    if record.deadline is None:
        return BestEffort()
    steps = tuple(ValueStep(at, value) for at, value in record.then)
    return Deadline(record.deadline, Strictness.SOFT if record.soft else Strictness.HARD, steps)


def _draw_profile(record: TraceJob, profiles: Profiles, seed: int) -> ProfileKey:
    fitting = profiles.fitting(record.devices, record.model)
    if not fitting:
        raise _too_few(record)
    return fitting[int(uniform_draw(seed, "profile", record.id) * len(fitting))]


def _iterations(record: TraceJob, rate: float) -> float:
    if record.duration_s is None:
        raise TraceError(
            f"job {record.id!r} has neither a duration nor iterations", "at least one of the two",
            "Give the profiles that were published with the trace (--profiles)",
        )  # fmt: skip
    if not rate:
        raise _too_few(record)
    return record.duration_s * rate


def _too_few(record: TraceJob) -> TraceError:
    what = f"{record.model or 'any model'}" + (f" at batch size {record.batch}" if record.batch else "")
    return TraceError(
        f"job {record.id!r} asks for {record.devices} devices, too few for {what}",
        "a number of devices the throughput tables cover",
        "Ask for more devices, or give other profiles",
    )


def _cap(record: TraceJob, profiles: Profiles) -> int:
    from penstock.simulate.replicas.elasticflow.caps import cap, family

    return cap(family(profiles.names), record.model, record.batch)
