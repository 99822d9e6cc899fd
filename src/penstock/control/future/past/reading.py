"""A past read from a store: what happened to jobs and nodes, who held what, and how fast jobs really were.

Only what stays in a store for good is read: entries that are no decisions, listed jobs and the devices they held. So a
past can be read while a server writes, from a copy of its database, and long after its decisions were compacted away.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from penstock.control.future.past.courses import JOB_KINDS, JobCourse, JobCourses
from penstock.control.future.past.nodes import NODE_KINDS, node_past
from penstock.control.future.past.speeds import CurveWork, curve_work, speed_of
from penstock.control.state.reading import readable
from penstock.control.state.store import History, Holding, JobRow
from penstock.core import Cluster, Event, InputError, Verdict, Work
from penstock.simulate import Past, PastJob, RealCourse, Stretch
from penstock.wire import JobPhase

MOST_JOBS = 20_000
"""In one replay."""
_MOST_LINES = 1_000_000
_LEAST_SHARE = 1e-9
"""Of its work, that a job which failed has at least left, and one that was carried over."""


def read_past(history: History, since: float, until: float) -> Past:
    """Everything between the two, of jobs that were there at some time between them."""
    lines = history.lines(NODE_KINDS, limit=_MOST_LINES)
    if not lines:
        raise InputError("this platform was never set up", "a database that a server has written", "Run a job first")
    since = max(since, lines[0].at)
    rows = {row.id: row for row in history.there(since, until, limit=MOST_JOBS + 1)} if since < until else {}
    if not rows:
        raise InputError("no jobs in this time", "a time in which the server had jobs", "Begin earlier: --since")
    if len(rows) > MOST_JOBS:
        raise InputError(f"more than {MOST_JOBS} jobs in this time", f"at most {MOST_JOBS}", "Begin later: --since")
    cluster, nodes = node_past(readable(lines), since, until)
    first = min(row.submitted_at for row in rows.values())
    courses = _courses(history, rows, first, until)
    over_at = {row.id: min(row.ended_at or math.inf, until) for row in rows.values()}
    held = _stretches(history.holdings(first, until), nodes.cluster, over_at)
    jobs = list(_jobs(courses, rows, held, since, until))
    happened = [event for event in courses.events if event.at > since]
    return Past(
        since=since, until=until, cluster=cluster, rules=nodes.rules, jobs=jobs,
        events=sorted([*nodes.events, *happened], key=_when), left_out=_left_out(len(rows) - len(jobs)),
    )  # fmt: skip


def _when(event: Event) -> float:
    return event.at


def _left_out(count: int) -> list[str]:
    return [f"{count} jobs never asked for devices, or the log does not tell how, and are left out"] if count else []


def _courses(history: History, rows: Mapping[str, JobRow], first: float, until: float) -> JobCourses:
    courses = JobCourses(rows)
    ends = sorted((row.ended_at, row.id) for row in rows.values() if row.ended_at is not None)
    over = 0
    for entry in readable(history.lines(JOB_KINDS, since=first, limit=_MOST_LINES)):
        while over < len(ends) and ends[over][0] < entry.at:
            courses.drop_over(ends[over][1])
            over += 1
        if entry.at <= until:
            courses.take(entry)
    return courses


def _stretches(holdings: Iterable[Holding], cluster: Cluster, over_at: Mapping[str, float]) -> dict[str, list[Stretch]]:
    """By job, what it held one after the other; devices that stay through a new generation are one stretch."""
    found: dict[str, list[Stretch]] = defaultdict(list)
    devices: dict[str, Sequence[int]] = {}
    for holding in (holding for holding in holdings if holding.since < over_at.get(holding.job_id, -math.inf)):
        places = [cluster.device(index) for index in holding.devices]
        ended = min(holding.until or math.inf, over_at[holding.job_id])
        stretch = Stretch(
            places[0].kind, len(places), len({place.node for place in places}), holding.since, ended
        )  # fmt: skip
        told = found[holding.job_id]
        if told and told[-1].until >= stretch.since and devices[holding.job_id] == holding.devices:
            told[-1] = told[-1]._replace(until=ended)
        else:
            told.append(stretch)
        devices[holding.job_id] = holding.devices
    return found


def _jobs(
    courses: JobCourses, rows: Mapping[str, JobRow], held: Mapping[str, Sequence[Stretch]], since: float, until: float
) -> Iterator[PastJob]:
    """Finished jobs tell their speed; others of the same fingerprint are taken to be as fast."""
    asked = {job_id: course for job_id, course in courses.by_id.items() if course.asked is not None}
    work = {
        job_id: curve_work(course.job, held.get(job_id, ()), course.failed_at, since)
        for job_id, course in asked.items()
    }
    speeds = {
        job_id: speed_of(course.job.work.iterations, work[job_id].total)
        for job_id, course in asked.items()
        if rows[job_id].state == JobPhase.FINISHED and (rows[job_id].ended_at or math.inf) <= until
    }
    usual = _usual(asked, speeds)
    for job_id, course in asked.items():
        speed = speeds.get(job_id, usual.get(course.fingerprint, 1.0))
        real = _real(rows[job_id], held.get(job_id, ()), since, until)
        yield _past_job(course, real, speed, work[job_id], since)


def _usual(asked: Mapping[str, JobCourse], speeds: Mapping[str, float]) -> dict[str, float]:
    alike: dict[str, list[float]] = defaultdict(list)
    for job_id, speed in speeds.items():
        if asked[job_id].fingerprint:
            alike[asked[job_id].fingerprint].append(speed)
    return {fingerprint: median(found) for fingerprint, found in alike.items()}


def _past_job(course: JobCourse, real: RealCourse, speed: float, work: CurveWork, since: float) -> PastJob:
    asked = course.asked or course.job
    carried = course.asked_at < since
    iterations = asked.work.iterations
    done_before = min(speed * work.before, iterations * (1 - _LEAST_SHARE)) if carried else 0.0
    done = min(speed * work.total, iterations * (1 - _LEAST_SHARE))
    job = replace(asked, work=Work(iterations - done_before))
    if carried:
        job = replace(job, curve=course.job.curve, costs=course.job.costs, goal=course.job.goal)
    return PastJob(
        job=job, arrives_at=max(course.asked_at, since), curve=course.job.curve, real=real,
        speed=speed, undone=iterations - done if real.ending == JobPhase.FAILED else 0.0,
        after=() if carried else course.submission.after, lag_s=max(0.0, course.asked_at - course.ready_at),
        carried=carried,
    )  # fmt: skip


def _real(row: JobRow, held: Sequence[Stretch], since: float, until: float) -> RealCourse:
    inside = [stretch._replace(since=max(stretch.since, since)) for stretch in held if stretch.until > since]
    is_over = row.ended_at is not None and row.ended_at <= until
    return RealCourse(
        ending=row.state if is_over else JobPhase.RUNNING,
        started_at=math.nan if row.started_at is None else max(row.started_at, since),
        ended_at=row.ended_at if row.ended_at is not None and is_over else math.nan,
        promised=row.quote is not None and row.quote.get("verdict") == Verdict.PROMISED, stretches=tuple(inside),
    )  # fmt: skip
