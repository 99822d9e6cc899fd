"""What `penstock report` says about real entries in a real database, asked over a real socket."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from penstock.client import Client
from penstock.control.observe.device_readings import full_load_w
from penstock.control.reports.page import report_page, sentences
from penstock.control.reports.period import UNEXPLAINED, JobFacts, failures, why_broken
from penstock.control.state.entries import CurveLearned, Launched, Paused, RunFailed, WorkerLost
from penstock.core import Curve, InputError, Node, PowerModel, ReportKind, Usage
from penstock.core.codec import decode, encode
from penstock.wire import JobPhase, MissingError
from tests.control.build import Platform, platform
from tests.control.serving import Served, serving


@pytest.fixture
def served(world: Platform) -> Iterator[Served]:
    with serving(world) as running:
        yield running


@pytest.fixture
def admin(served: Served) -> Iterator[Client]:
    with served.client() as client:
        yield client


def test_an_empty_platform_has_an_empty_report(admin: Client) -> None:
    report = admin.report(since="1h")
    assert report.jobs.there == 0
    assert report.promises.kept_ratio is None
    assert report.device_seconds == 0
    assert dict(sentences(report))["No promise fell due"].startswith("0 kept, 0 broken")


def test_a_kept_promise_and_the_device_time_it_took(served: Served, admin: Client) -> None:
    job = served.world.submit(work=100, within=500)
    served.world.passes(200)
    report = admin.report(since="1h")
    assert (report.promises.made, report.promises.kept, report.promises.broken) == (1, 1, 0)
    assert report.jobs.finished == 1
    assert report.tenants[0].tenant == "default"
    assert report.tenants[0].device_seconds == pytest.approx(100, rel=0.1)
    assert report.device_seconds == report.tenants[0].device_seconds
    assert report.forecast.jobs == 1
    assert report.forecast.mean_absolute_error is not None
    one = admin.job_report(job)
    assert one.promise == "kept"
    assert one.device_seconds == report.device_seconds
    assert one.forecast_error == report.forecast.median_error
    assert one.words[0].startswith("Its promise was kept: it ended ")
    assert one.words[0].endswith("early.")


def test_a_refused_job_is_no_broken_promise(served: Served, admin: Client) -> None:
    job = served.world.submit(work=1000, within=10)
    report = admin.report(since="1h")
    assert (report.promises.refused, report.promises.broken, report.promises.made) == (1, 0, 0)
    assert report.jobs.refused == 1
    assert admin.job_report(job).words[0].startswith("It was refused: ")


def test_failures_lost_steps_and_the_time_until_the_next_start(served: Served, admin: Client) -> None:
    world = served.world
    job = world.submit(work=100, within=300, backoff=5.0)
    world.passes(10)
    (run,) = world.backend.alive()
    world.backend.fail(run)
    world.passes(100)
    report = admin.report(since="1h")
    assert [(one.reason, one.count, one.retried) for one in report.failures.by_reason] == [("exit", 1, 1)]
    assert report.failures.downtime.count == 1
    assert report.failures.downtime.most_s is not None
    assert report.failures.downtime.most_s >= 5.0
    assert report.failures.lost_steps > 0
    assert report.jobs.finished == 1
    told = " ".join(admin.job_report(job).words)
    assert "1 failed run (1 x exit)" in told
    assert "steps were done twice" in told


def test_a_broken_promise_is_listed_with_what_the_log_knows(served: Served, admin: Client) -> None:
    world = served.world
    job = world.submit(work=100, within=60, name="doomed")
    world.passes(3)
    while not world.record(job).over:
        for run in world.backend.alive():
            world.backend.vanish(run)
        world.passes(4)
    report = admin.report(since="1h")
    (broken,) = report.broken
    assert (broken.job_id, broken.name, broken.late_s) == (job, "doomed", None)
    assert broken.why == "it failed for good: lost"
    assert report.promises.kept_ratio == 0
    assert "never finished" in admin.job_report(job).words[0]


def test_a_pause_is_among_the_causes_of_a_broken_promise(world: Platform) -> None:
    job = world.submit(work=100, within=150)
    with world.journal.reading() as state:
        facts = JobFacts.of(world.record(job), state, world.clock())
    assert why_broken(facts, [Paused(at=1.0, job_id=job, by="ann")]) == "somebody paused it 1 time"
    assert why_broken(facts, []) == UNEXPLAINED


def test_a_speed_below_the_planned_one_is_named_with_what_to_do(served: Served, admin: Client) -> None:
    world = served.world
    world.backend.total = 10_000
    job = world.submit(work=100, within=130, at_most=1)
    world.passes(2)
    slow = Curve.from_table({1: 0.5, 2: 1.0, 4: 2.0})
    world.journal.record(CurveLearned(at=world.clock(), job_id=job, curve=slow))
    world.passes(150)
    world.backend.total = 100
    world.passes(60, every=5.0)
    assert world.phase(job) is JobPhase.FINISHED
    why = (
        "it was slower than planned: its speed on 1 device is 0.5 iterations a second, not 1; `penstock quote"
        " --measure` measures it before a promise"
    )
    assert why in admin.job_report(job).words[0]
    assert [one.why for one in admin.report(since="1h").broken] == [why]


def test_a_script_that_fails_by_itself_is_no_promise_broken_by_the_platform(served: Served, admin: Client) -> None:
    world = served.world
    job = world.submit(work=100, within=60, name="doomed", retries=0)
    world.passes(3)
    world.backend.fail(*world.backend.alive())
    world.passes(2)
    report = admin.report(since="1h")
    assert (report.promises.made, report.promises.failed, report.promises.broken) == (1, 1, 0)
    assert report.broken == []
    assert admin.job_report(job).words[0] == "Its deadline was promised, and its own script failed."


def test_a_worker_with_which_its_run_failed_did_not_die_under_one_that_went_on() -> None:
    def lost(at: float) -> WorkerLost:
        return WorkerLost(at=at, job_id="j", run_id="j.1", worker="w0", code=1)

    failed = RunFailed(at=50.2, job_id="j", run_id="j.1", reason="exit", code=1)
    assert failures([lost(20.0), lost(50.0), failed], since=0.0).workers_lost == 1


def test_work_that_is_thrown_away_for_a_promise_is_counted(served: Served, admin: Client) -> None:
    world = served.world
    world.backend.total, world.backend.saves = 1000, False
    long = world.submit(work=1000, at_least=4, resumable=False)
    world.passes(10)
    world.submit(work=80, within=22, at_least=4)
    world.passes(3)
    report = admin.report(since="1h")
    assert report.failures.begun_again == 1
    assert report.failures.begun_again_steps > 20
    told = " ".join(admin.job_report(long).words)
    assert f"It was stopped 1 time for others and cannot resume: {report.failures.begun_again_steps} steps" in told
    assert "it begins again" in " ".join(note.text for note in admin.why(long).entries)


def test_a_restart_counts_until_the_first_step_of_the_new_workers(
    served: Served, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = served.world
    world.backend.total = 10_000
    job = world.submit(work=10_000, at_most=4)
    world.passes(4)
    (run,) = world.backend.alive()
    record, worker_count = world.record(job), len(world.record(job).workers)
    world.backend.tell(
        run, ReportKind.RESIZED, generation=record.generation, width=worker_count, pause_s=1.2, in_place=False
    )
    with monkeypatch.context() as standing:
        standing.setattr(world.backend, "_advance", lambda _: None)
        world.passes(40, every=10.0)
    world.passes(3)
    pauses = admin.job_report(job).resizes.pauses
    assert pauses.total_s == pytest.approx(41.2, abs=2.0)
    assert admin.report(since="1h").resizes.pauses.total_s == pytest.approx(pauses.total_s)
    assert "training stood still for 4" in " ".join(admin.job_report(job).words)


def test_resizes_and_their_pauses(served: Served, admin: Client) -> None:
    world = served.world
    long = world.submit(work=10_000)
    world.passes(3)
    world.submit(work=100, within=60)
    world.passes(5)
    report = admin.report(since="1h")
    assert report.resizes.count == report.resizes.in_place == report.resizes.pauses.count > 0
    assert report.resizes.pauses.p50_s == pytest.approx(0.1)
    assert admin.job_report(long).resizes.count > 0


def test_only_what_lies_in_the_period_counts(served: Served, admin: Client) -> None:
    world = served.world
    world.submit(work=100, within=500)
    world.passes(200)
    world.clock.time += 10_000
    world.submit(work=100, within=500)
    world.passes(200)
    assert admin.report(since="1h").promises.kept == 1
    whole, late = admin.report(since="2d"), admin.report(since="300s")
    assert whole.promises.kept == 2
    assert whole.device_seconds == pytest.approx(2 * late.device_seconds, rel=0.1)
    assert sum(one.kept for one in whole.stretches) == 2
    assert sum(one.device_seconds for one in whole.stretches) == pytest.approx(whole.device_seconds)
    moment = datetime.fromtimestamp(world.clock.time - 5000, UTC).isoformat()
    assert admin.report(since="2d", until=moment).promises.kept == 1


def test_a_user_sees_only_their_tenant(served: Served, admin: Client) -> None:
    with served.client("ada") as ada, served.client("eve") as eve:
        hers = ada.submit({"work": 100, "within": 500}).job.id
        eve.submit({"work": 100, "within": 800})
        served.world.passes(300)
        assert [one.tenant for one in ada.report(since="1h").tenants] == ["blue"]
        assert ada.report(since="1h").promises.kept == 1
        assert ada.report(since="1h", tenant="red").jobs.there == 0
        assert {one.tenant for one in admin.report(since="1h").tenants} == {"blue", "red"}
        assert [one.tenant for one in admin.report(since="1h", tenant="red").tenants] == ["red"]
        assert eve.job_report(eve.jobs().jobs[0].id).tenant == "red"
        with pytest.raises(MissingError, match="no job"):
            eve.job_report(hers)


def test_energy_is_modelled_where_the_power_is_known(tmp_path_factory: pytest.TempPathFactory) -> None:
    node = Node(name="node-0", device_count=4, power=PowerModel(idle_w=50.0, peak_w=400.0))
    with platform(tmp_path_factory.mktemp("powered"), nodes=(node,)) as world, serving(world) as served:
        world.submit(work=100, within=500)
        world.passes(200)
        with served.client() as client:
            (tenant,) = client.report(since="1h").tenants
        assert tenant.energy_j == pytest.approx(400.0 * tenant.device_seconds)
        assert tenant.energy_estimated


def test_energy_is_what_the_runs_told_and_stays_so_after_a_restart(world: Platform) -> None:
    world.backend.usage = lambda _: Usage(energy_j=1234.0)  # type: ignore[method-assign]
    with serving(world) as served, served.client() as client:
        job = world.submit(work=100, within=500)
        world.passes(200)
        before = client.report(since="1h")
        assert (before.tenants[0].energy_j, before.tenants[0].energy_estimated) == (1234.0, False)
        assert "It drew 1,234 J." in client.job_report(job).words
    world.restart()
    with serving(world) as served, served.client() as client:
        assert client.report(since="1h").tenants == before.tenants


def test_who_runs_still_is_reckoned_by_the_power_of_those_that_told(world: Platform) -> None:
    world.backend.usage = lambda _: Usage(energy_j=100.0, estimated=True)  # type: ignore[method-assign]
    with serving(world) as served, served.client("ada") as ada, served.client() as admin:
        world.submit(work=100, at_most=4)
        world.passes(100)
        told = admin.report(since="1h").tenants[0]
        ada.submit({"work": 100_000})
        world.passes(50)
        running = next(one for one in admin.report(since="1h").tenants if one.tenant == "blue")
    assert told.energy_estimated
    assert running.energy_estimated
    assert running.energy_j == pytest.approx(running.device_seconds * 100.0 / told.device_seconds)


def test_processor_slots_are_estimated(tmp_path_factory: pytest.TempPathFactory) -> None:
    node = Node(name="node-0", device_count=4, kind="cpu", power=PowerModel(peak_w=3.5))
    assert full_load_w(node) == 3.5
    assert full_load_w(Node(name="node-0", device_count=4, kind="something")) is None
    with platform(tmp_path_factory.mktemp("slots"), nodes=(node,)) as world, serving(world) as served:
        world.submit(work=100)
        world.passes(200)
        with served.client() as client:
            (tenant,) = client.report(since="1h").tenants
    assert (tenant.energy_j, tenant.energy_estimated) == (pytest.approx(3.5 * tenant.device_seconds), True)


def test_forecasts_are_judged_by_what_was_first_expected_also_without_a_promise(world: Platform) -> None:
    world.restart(foreseeing=True)
    with serving(world) as served, served.client() as client:
        job = world.submit(work=100)
        world.passes(2)
        expected = world.record(job).expected_at
        assert expected is not None
        world.passes(200)
        ended = world.record(job).ended_at
        assert ended is not None
        error = (ended - expected) / (ended - world.record(job).submission.at)
        assert client.job_report(job).forecast_error == pytest.approx(error)
        assert client.report(since="1h").forecast.jobs == 1
        assert any(words.endswith("than first expected.") for words in client.job_report(job).words)
    world.restart()
    assert world.record(job).expected_at == expected


def test_logs_of_older_servers_are_still_read(world: Platform) -> None:
    """They have neither what was expected nor what was drawn."""
    job = world.submit(work=100, within=500)
    world.passes(200)
    entries = [decode(line.payload) for line in world.journal.store.log.page(after=0)]
    assert any(isinstance(entry, Launched) for entry in entries)
    for entry in entries:
        told = {key: value for key, value in encode(entry).items() if key not in ("expected_at", "energy_j")}
        told.pop("energy_estimated", None)
        assert decode(told) == replace(
            entry, **{key: None for key in ("expected_at", "energy_j") if hasattr(entry, key)}
        )
    assert world.record(job).expected_at is None
    with serving(world) as served, served.client() as client:
        assert client.job_report(job).forecast_error is not None, "the plan behind the promise has to do"


def test_unknown_power_is_said_to_be_unknown(served: Served, admin: Client) -> None:
    served.world.submit(work=100)
    served.world.passes(200)
    assert admin.report(since="1h").tenants[0].energy_j is None


@pytest.mark.parametrize("since", ["yesterday", "7 parsecs", "2999-01-01"])
def test_a_period_that_cannot_be_is_refused(admin: Client, since: str) -> None:
    with pytest.raises(InputError, match="Try"):
        admin.report(since=since)


def test_the_report_survives_a_restart(world: Platform) -> None:
    with serving(world) as served, served.client() as client:
        world.submit(work=100, within=500)
        world.passes(200)
        before = client.report(since="1h")
    world.restart()
    with serving(world) as served, served.client() as client:
        after = client.report(since="1h")
    assert after.promises == before.promises
    assert after.tenants == before.tenants


def test_the_page_says_the_same_and_escapes_what_people_wrote(served: Served, admin: Client) -> None:
    world = served.world
    job = world.submit(work=100, within=60, name="<script>alert(1)</script>")
    world.passes(3)
    while not world.record(job).over:
        for run in world.backend.alive():
            world.backend.vanish(run)
        world.passes(4)
    page = report_page(admin.report(since="1h"))
    assert "0.0% of the promises were kept" in page
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert(1)" not in page
    assert "default-src 'none'" in page
