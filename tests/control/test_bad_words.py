"""What runs tell is checked where it enters: nonsense of one run is told, ignored, ended, and stops nobody."""

from typing import Any

import pytest

from penstock.control.loop.report_intake import MOST_NONSENSE
from penstock.control.loop.run_troubles import MOST_NOTES
from penstock.control.state.entries import RunFailed, SaveFailed, job_of
from penstock.core import InputError, Report, ReportKind, decode
from penstock.wire import JobPhase
from tests.control.build import Platform
from tests.control.serving import serving

_UNREADABLE = [{"step": "abc"}, {"step": "5"}, {"reason": "\0"}, {"reason": "\ud800"}, {"step": float("nan")}]


def entries(world: Platform, job_id: str) -> list[Any]:
    found = (decode(line.payload) for line in world.journal.store.log.read())
    return [entry for entry in found if job_of(entry) == job_id]


def texts(world: Platform, job_id: str) -> list[str]:
    return [note.text for note in world.journal.state.story(world.record(job_id)).entries]


def forge(world: Platform, run_id: str, **said: Any) -> None:
    """A report as no agent would write it."""
    world.backend.tell(run_id, ReportKind.PROGRESS, step=1)
    for name, value in said.items():
        object.__setattr__(world.backend.all_runs[run_id].reports[-1], name, value)


@pytest.mark.parametrize(
    "said",
    [
        {"kind": ReportKind.SUSPENDED, "step": 10**400, "total": 1},
        {"kind": ReportKind.RESIZED, "generation": "abc"},
        {"kind": ReportKind.CHECKPOINT_FAILED, "step": "abc"},
    ],
    ids=lambda said: str(said["kind"]),
)
def test_one_run_that_tells_the_impossible_stops_nobody(world: Platform, said: dict[str, Any]) -> None:
    mad, sane = world.submit(work=100, at_most=1), world.submit(work=100, at_most=1)
    world.passes(2)
    forge(world, f"{mad}.1", **said)
    later = world.submit(work=10, at_most=1)
    world.passes(30)
    assert f"{later}.1" in world.backend.all_runs
    world.passes(100)
    assert [world.phase(job) for job in (sane, later)] == [JobPhase.FINISHED] * 2
    assert any("cannot be taken in" in note.text and "ignored" in note.text for note in world.record(mad).notes)
    before = [job.id for job in world.journal.records()]
    world.restart()
    assert [job.id for job in world.journal.records()] == before


def test_a_run_whose_reports_cannot_be_read_is_named_and_the_others_go_on(
    world: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    mad, sane = world.submit(work=100, at_most=1), world.submit(work=100, at_most=1)
    world.passes(2)
    sound = world.backend.reports

    def reports(run_id: str, after_seq: int) -> tuple[Report, ...]:
        if run_id == f"{mad}.1":
            raise RuntimeError("the reports are gone")
        return sound(run_id, after_seq)

    monkeypatch.setattr(world.backend, "reports", reports)
    world.passes(5)
    assert [notice for notice in world.reconciler.notices if f"{mad}.1" in notice and "are gone" in notice]
    with serving(world) as served, served.http() as http:
        ready = http.get("/readyz")
        assert (ready.status_code, ready.json()["trouble"]) == (200, "")
        assert f"{mad}.1" in ready.json()["notices"][0]
    assert sum("are gone" in text for text in texts(world, mad)) == 1
    world.passes(110)
    assert world.phase(sane) is JobPhase.FINISHED
    monkeypatch.undo()
    world.passes(2)
    assert world.phase(mad) is JobPhase.FINISHED
    assert world.reconciler.notices == []


def test_a_run_that_talks_nonsense_is_told_so_and_ended(world: Platform) -> None:
    mad = world.submit(work=1000, at_most=1, retries=0)
    world.passes(2)
    for _ in range(MOST_NONSENSE - 1):
        world.backend.tell(f"{mad}.1", ReportKind.NONSENSE, reason="worker w0 said what cannot be: a step of -1")
    world.passes(2)
    assert world.phase(mad) is JobPhase.RUNNING
    told = [text for text in texts(world, mad) if "a step of -1" in text]
    assert len(told) == MOST_NOTES
    world.backend.tell(f"{mad}.1", ReportKind.NONSENSE, reason="again")
    world.passes(3)
    assert world.phase(mad) is JobPhase.FAILED
    assert world.record(mad).reason == "nonsense"
    assert world.backend.alive() == []


@pytest.mark.parametrize("said", _UNREADABLE, ids=str)
def test_what_could_not_be_read_again_is_not_written(world: Platform, said: dict[str, Any]) -> None:
    job_id = world.submit(work=100)
    world.passes(2)
    before = [line.seq for line in world.journal.store.log.read()]
    entry = SaveFailed(at=world.journal.now(), job_id=job_id, run_id=f"{job_id}.1", **said)
    if said == {"step": "5"}:
        world.journal.record(entry)
    else:
        with pytest.raises(InputError, match="SaveFailed cannot be written to the log"):
            world.journal.record(entry)
        assert [line.seq for line in world.journal.store.log.read()] == before
    world.restart()
    world.passes(110)
    assert world.phase(job_id) is JobPhase.FINISHED


def test_nothing_of_a_submission_that_cannot_be_written_is_kept(world: Platform) -> None:
    with pytest.raises(InputError, match="Submitted cannot be written"):
        world.submit(name="zero\0byte")
    assert world.journal.state.jobs == {}


def test_a_job_that_failed_two_thousand_times_is_tried_again(world: Platform) -> None:
    job_id = world.submit(work=100, retries=5000)
    world.passes(2)
    record = world.journal.state.jobs[job_id]
    record.streak = 2000
    world.backend.fail(f"{job_id}.1")
    world.passes(2)
    failed = [entry for entry in entries(world, job_id) if isinstance(entry, RunFailed)]
    assert failed[-1].retry_at is not None


def test_offers_beyond_the_calendar_are_shown_and_lists_stay_whole(world: Platform) -> None:
    with serving(world) as served, served.client() as client:
        refused = client.submit({"work": 9e11, "within": 3600.0, "at_most": 1})
        endless = client.submit({"work": 9e11, "at_most": 1})
        assert refused.job.quote is not None
        assert refused.job.quote.counter_offer is not None
        assert refused.job.quote.counter_offer.year == 9999
        world.passes(4)
        assert {job.id for job in client.jobs().jobs} == {refused.job.id, endless.job.id}
        with served.http() as http:
            paths = ("/v1/jobs", "/v1/overview", "/v1/report", "/v1/events", f"/v1/jobs/{endless.job.id}", "/metrics")
            assert {path: http.get(path).status_code for path in paths} == dict.fromkeys(paths, 200)
    world.restart()
    with serving(world) as served, served.client() as client:
        assert len(client.jobs().jobs) == 2
