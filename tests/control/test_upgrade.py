"""A stored server of the version before decisions were logged: the same jobs, promises and history, and it goes on."""

import gzip
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic_core import to_jsonable_python
from sqlalchemy import text

from penstock.control.platform.failure_line import failure_line
from penstock.control.state.listed_outcomes import _reopen
from penstock.control.state.records import stint_of
from penstock.control.state.rules import new_scheduler
from penstock.control.state.store import Line, Store
from penstock.control.state.store.tables import snapshots
from penstock.core import InputError, Job, JobSubmitted, Node, Quote, Verdict, build
from penstock.policies import KindView
from penstock.policies.deadline import DeadlinePolicy
from penstock.wire import JobPhase
from tests.control.build import ADMIN, Platform, TestClock, platform
from tests.control.test_replay import nobody_decides

STORED = Path(__file__).with_name("fixtures") / "before_decisions"
ACTIVE = {"running", "suspended", "pending", "asking"}


def unpack(name: str, folder: Path) -> tuple[str, dict[str, Any]]:
    """The address of a copy of a stored database, and what its server answered before it stopped."""
    file = folder / "penstock.db"
    file.write_bytes(gzip.decompress((STORED / f"{name}.db.gz").read_bytes()))
    answers = json.loads(gzip.decompress((STORED / f"{name}.answers.json.gz").read_bytes()))
    for job in answers["jobs"]:  # the word for a failure is told as a sentence since
        job["reason"] = failure_line(job["reason"], job["tail"], job.get("exit_code"))
    for report in (answers["report"], *answers["reports"].values()):
        _count_failed_runs_only(report)
    return f"sqlite:///{file}", answers


def _count_failed_runs_only(report: dict[str, Any]) -> None:
    """Every worker that was lost died with its run: that is a failed run since, and no lost worker beside it."""
    lost = report["failures"]["workers_lost"]
    report["failures"]["workers_lost"] = 0
    if "words" in report:
        report["words"] = [line.replace(f" and {lost} lost workers", " and 0 lost workers") for line in report["words"]]


@contextmanager
def upgraded(name: str, folder: Path) -> Iterator[tuple[Platform, dict[str, Any]]]:
    url, answers = unpack(name, folder)
    with platform(folder, clock=TestClock(_last_at(url) + 1.0), nodes=(_node(url),)) as world:
        yield world, answers


def _last_at(url: str) -> float:
    store = Store(url)
    line = store.log.last()
    store.close()
    assert line is not None
    return line.at


def _node(url: str) -> Node:
    store = Store(url)
    first = next(iter(store.log.read()))
    store.close()
    node: Node = build(Node, first.payload["nodes"][0])
    return node


def by_name(answers: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {job["name"]: job for job in answers["jobs"]}


def shown(world: Platform) -> dict[str, Any]:
    """What the API answers now."""
    ask, jobs = world.platform, world.platform.jobs(ADMIN, limit=1000).jobs
    pages: dict[str, Any] = {
        "jobs": jobs,
        "details": {job.id: ask.job(job.id, ADMIN) for job in jobs},
        "why": {job.id: ask.why(job.id, ADMIN) for job in jobs},
        "events": ask.events(ADMIN, limit=1000).events,
        "reports": {job.id: ask.job_report(job.id, ADMIN) for job in jobs},
        "report": ask.period_report(ADMIN, since="2h"),
        "nodes": ask.nodes(ADMIN),
        "tokens": ask.administration.tokens(ADMIN),
    }
    return to_jsonable_python(pages)


def _told(job: dict[str, Any]) -> dict[str, Any]:
    """A listed job without what a forecast says of it, and without what jobs and quotes of that time did not have."""
    since = ("expected_at", "deadline", "forecast_only", "offer_until")
    quote = job["quote"] and {name: value for name, value in job["quote"].items() if name not in since}
    shown = {name: value for name, value in job.items() if name not in ("promise", "late_s")}
    return {**shown, "quote": quote, "expected_at": None}


def _but_speeds(story: dict[str, Any]) -> list[dict[str, Any]]:
    """Without what a new speed is told as: in figures now, and only where it matters. A drain is named as one since."""
    notes = [note for note in story["entries"] if not note["text"].startswith(("its curve changed", "its speed on"))]
    texts = [note["text"].replace("vm was lost;", "node vm was drained;") for note in notes]
    texts = [re.sub(r"[\d,.]+(?= iterations)", _rounded, text) for text in texts]
    return [{**note, "text": text} for note, text in zip(notes, texts, strict=True)]


def _rounded(found: re.Match[str]) -> str:
    return f"{float(found[0].replace(',', '')):.0f}"


def _of_that_time(figures: Any, answer: Any) -> Any:
    """Without what reports of that time did not count, and which is nothing for them."""
    if not isinstance(figures, dict):
        return figures
    assert not any(figures[name] for name in figures.keys() - answer.keys())
    return {name: value for name, value in figures.items() if name in answer}


def _told_figures(report: dict[str, Any]) -> dict[str, Any]:
    """Without what reports of that time did not count.

    Nor the energy of a job that told none: nodes of that time did not say what they draw.
    """
    failures = {name: value for name, value in report["failures"].items() if not name.startswith("begun_again")}
    told = {**report, "failures": failures}
    return told if report["state"] != "cancelled" else {**told, "energy_j": 0, "energy_estimated": 0, "words": 0}


@pytest.mark.parametrize("name", ["running", "drained"])
def test_jobs_promises_and_history_are_the_same(tmp_path: Path, name: str) -> None:
    with upgraded(name, tmp_path) as (world, answers):
        now = shown(world)
        assert [_told(job) for job in now["jobs"]] == [_told(job) for job in answers["jobs"]]
        assert [event for event in now["events"] if event["payload"]["v"] == 1] == answers["events"]
        whole = {"scope": [], "expires_at": None, "last_used_at": None, "origin": ""}
        assert now["tokens"] == [{**token, **whole} for token in answers["tokens"]]
        fresh = {"unusable": [], "checked": "", "checked_at": None}
        assert now["nodes"] == [{**node, **fresh} for node in answers["nodes"]]
        for job_id, told in answers["why"].items():
            assert _but_speeds(now["why"][job_id]) == _but_speeds(told), job_id
        for job_id, told in answers["details"].items():
            for key in ("spec", "generation", "workers", "retry_at", "exit_code", "history"):
                assert now["details"][job_id][key] == told[key], (job_id, key)
            if told["ended_at"] is not None:
                assert _told_figures(now["reports"][job_id]) == _told_figures(answers["reports"][job_id])
        for key in ("promises", "broken", "failures", "resizes", "forecast"):
            assert _of_that_time(now["report"][key], answers["report"][key]) == answers["report"][key], key


@pytest.mark.parametrize("name", ["running", "drained"])
def test_a_second_start_reads_the_snapshot_only_and_decides_nothing(tmp_path: Path, name: str) -> None:
    with upgraded(name, tmp_path) as (world, _):
        before = shown(world)
        with nobody_decides():
            world.restart()
        assert world.journal._kept > 0
        assert shown(world)["details"] == before["details"]
        assert shown(world)["why"] == before["why"]


def test_ids_are_those_of_the_jobs_and_deadlines_as_hard_as_they_were(tmp_path: Path) -> None:
    with upgraded("running", tmp_path) as (world, answers):
        state, names = world.journal.state, by_name(answers)
        assert not [job_id for job_id in state.scheduler.active() if "+" in job_id]
        assert state.scheduler.paused() == [names["paused"]["id"]]
        promise = state.scheduler.job(names["promise"]["id"])
        assert promise.hard
        quote = state.scheduler.quote_of(promise.id)
        assert quote is not None
        assert quote.verdict is Verdict.PROMISED
        state.scheduler.validate()


@pytest.mark.parametrize("name", ["running", "drained"])
def test_the_server_goes_on(tmp_path: Path, name: str) -> None:
    with upgraded(name, tmp_path) as (world, answers):
        names = by_name(answers)
        world.backend.total = 20
        if name == "drained":
            world.commands.undrain("vm")
        new = world.submit(work=20)
        world.commands.resume(names["paused"]["id"], ADMIN)
        world.passes(400, every=5.0)
        assert world.phase(new) is JobPhase.FINISHED
        states = {job["name"]: world.phase(job["id"]) for job in answers["jobs"]}
        assert {states[each["name"]] for each in answers["jobs"] if each["state"] in ACTIVE} == {JobPhase.FINISHED}
        over = {each["name"]: each["state"] for each in answers["jobs"] if each["state"] not in {*ACTIVE, "paused"}}
        assert {each: states[each].value for each in over} == over


def test_where_todays_policies_differ_what_was_told_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that has changed its mind refuses everybody with a deadline and starts nobody."""

    def refuse(self: DeadlinePolicy, view: KindView, rows: Any) -> list[Quote]:
        return [_refusal(view.jobs[row]) for row in rows.tolist()]

    def _refusal(job: Job) -> Quote:
        verdict = Verdict.REFUSED if job.deadline < float("inf") else Verdict.BEST_EFFORT
        return Quote(job_id=job.id, verdict=verdict, reason="another mind")

    url, answers = unpack("running", tmp_path)
    node, clock = _node(url), TestClock(_last_at(url) + 1.0)
    with monkeypatch.context() as patch:
        patch.setattr(DeadlinePolicy, "admit", refuse)
        with platform(tmp_path, clock=clock, nodes=(node,)) as world:
            now = shown(world)
    assert [_told(job) for job in now["jobs"]] == [_told(job) for job in answers["jobs"]]
    with platform(tmp_path, clock=clock, nodes=(node,)) as world:
        world.journal.state.scheduler.validate()
        promise = by_name(answers)["promise"]
        assert world.record(promise["id"]).run_id == promise["run_id"]
        world.backend.total = 20
        world.passes(400, every=5.0)
        assert world.phase(promise["id"]) is JobPhase.FINISHED


@pytest.mark.parametrize("name", ["running", "drained"])
def test_no_run_has_the_name_of_an_earlier_one_where_jobs_stay_longer_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("penstock.control.state.upgrade.new_scheduler", lambda entry, **_: new_scheduler(entry))
    with upgraded(name, tmp_path) as (world, answers):
        for job in answers["jobs"]:
            if job["run_id"] is not None:
                assert world.record(job["id"]).stint >= stint_of(job["run_id"]), job["name"]


def test_an_upgrade_that_was_interrupted_begins_again(tmp_path: Path) -> None:
    url, answers = unpack("running", tmp_path)
    with platform(tmp_path, clock=TestClock(_last_at(url) + 1.0), nodes=(_node(url),)) as world:
        with world.journal.store._engine.begin() as connection:
            connection.execute(snapshots.delete())
        world.restart()
        assert [_told(job) for job in shown(world)["jobs"]] == [_told(job) for job in answers["jobs"]]


def test_a_log_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    with platform(tmp_path) as world:
        world.submit(work=100)
        world.journal.store.log.append(Line(at=world.clock.time, kind="Later", payload={"v": 3, "type": "Later"}))
        with pytest.raises(InputError, match="newer version"):
            world.restart()


def test_a_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    with platform(tmp_path) as world:
        with world.journal.store._engine.begin() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        with pytest.raises(InputError, match="newer version"):
            world.restart()


@pytest.mark.parametrize("clocks", [(5.0, 7.0), (7.0, 5.0)])
def test_a_job_is_reopened_at_the_later_of_the_clocks_of_log_and_scheduler(
    clocks: tuple[float, float], tmp_path: Path
) -> None:
    applied: list[JobSubmitted] = []
    with platform(tmp_path) as world:
        record = world.record(world.submit())
        world.commands.cancel(record.id, ADMIN)
        record = world.record(record.id).copy()
    scheduler = SimpleNamespace(now=clocks[1], apply=applied.append)
    _reopen(SimpleNamespace(at=clocks[0], scheduler=scheduler, adopt=lambda _: None), record)  # type: ignore[arg-type]
    assert applied == [JobSubmitted(7.0, record.job)]
    assert (record.over, record.ended_at, record.reason) == (False, None, "")
