"""A promise that is kept or broken is shown so, as soon as its deadline has passed: lists, pages, report, metrics."""

import pytest
from prometheus_client import generate_latest

from penstock.cli.terminal.format import deadline_line, promise_of
from penstock.control.state.entries import CurveLearned
from penstock.core import Curve
from penstock.web.pages.job_facts import facts_html, tiles_html
from penstock.web.pages.jobs import row_of
from penstock.web.view_models import JobOverview, JobTableRow
from penstock.wire import JobDetail, JobPhase, promise_words
from tests.control.build import ADMIN, Platform
from tests.metrics.exposition import read


@pytest.fixture
def late(world: Platform) -> str:
    """A promised job that turns out half as fast, 30 s after its deadline."""
    world.backend.total = 10_000
    job = world.submit(work=100, within=130, at_most=1)
    world.passes(2)
    slow = Curve.from_table({1: 0.5, 2: 1.0, 4: 2.0})
    world.journal.record(CurveLearned(at=world.clock(), job_id=job, curve=slow))
    world.passes(160, every=5.0)
    assert not world.record(job).over
    return job


def _detail(world: Platform, job: str) -> JobDetail:
    return world.platform.job(job, ADMIN)


def _broken(world: Platform) -> float:
    return read(generate_latest(world.metrics.registry).decode()).total("penstock_promises_broken_total")


def test_a_promise_past_its_deadline_is_broken_before_its_job_ends(world: Platform, late: str) -> None:
    shown = _detail(world, late)
    assert (shown.state, shown.promise) == ("running", "broken")
    assert shown.late_s is not None
    assert 25 < shown.late_s < 35
    assert shown.quote is not None
    assert shown.quote.finish_at is None, "no plan in the past"
    assert promise_words(shown).startswith("promise broken, 3")
    assert promise_words(shown).endswith("s late so far")
    report = world.platform.period_report(ADMIN, since="1h")
    assert (report.promises.open, report.promises.broken, report.promises.made) == (0, 1, 1)
    assert [each.job_id for each in report.broken] == [late]
    assert report.broken[0].ended_at is None
    assert report.tenants[0].broken == 1
    assert sum(each.broken for each in report.stretches) == 1
    assert _broken(world) == 1


def test_when_it_ends_it_stays_broken_and_is_counted_once(world: Platform, late: str) -> None:
    world.backend.total = 100
    world.passes(60, every=5.0)
    assert world.phase(late) is JobPhase.FINISHED
    shown = _detail(world, late)
    assert shown.promise == "broken"
    assert promise_of(shown).startswith("broken, ")
    assert "so far" not in promise_words(shown)
    assert _broken(world) == 1
    assert world.platform.period_report(ADMIN, since="1h").promises.broken == 1


def test_pages_mark_broken_and_kept_promises(world: Platform, late: str) -> None:
    for state, tone in (("broken", "ps-bad"), ("kept", "ps-good")):
        shown = _detail(world, late).model_copy(update={"promise": state})
        assert shown.deadline is not None
        overview = JobOverview(
            now=world.clock(), detail=shown, story=world.platform.why(late, ADMIN), samples=[], band=None,
            deadline=1.0, kind="gpu", predicted=(), measured=(),
        )  # fmt: skip
        assert tone in tiles_html(overview)
        assert f"promise {state}" in facts_html(overview)
        row = row_of(JobTableRow(view=shown, share=0.5, deadline=1.0), world.clock())
        assert row["promise"].startswith(f"promise {state}")
        assert f"ps-{row['promised']}" == tone
        assert promise_words(shown) in deadline_line(shown.deadline, promise_words(shown))


def test_a_kept_promise_is_shown_as_kept(world: Platform) -> None:
    job = world.submit(work=100, within=300)
    world.passes(60, every=5.0)
    shown = _detail(world, job)
    assert shown.promise == "kept"
    assert shown.late_s is not None
    assert shown.late_s < 0
    assert promise_words(shown).endswith(" early")
    listed = world.platform.jobs(ADMIN).jobs[0]
    assert listed.promise == "kept"
