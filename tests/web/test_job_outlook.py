"""What the start page begins with: the jobs of now, the most urgent first, and what they use."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from penstock.core import Usage
from penstock.web.pages.job_facts import ending_html, goal_text, notices_html, usage_tiles
from penstock.web.pages.job_hotspots import hotspots_html
from penstock.web.pages.job_outlook import summary_html, table_of
from penstock.web.pages.job_usage import lines_of
from penstock.web.view_models import ActiveJob, ForecastBand, JobOverview, Risk, UrgentJobs, most_urgent
from penstock.wire import (
    JobDetail,
    JobGlance,
    JobHotspotsView,
    JobMetricsView,
    MetricView,
    QuoteView,
    UsageView,
    ValueStepView,
)
from tests.control.build import ADMIN
from tests.web.world import Seen, seen

EVIL = "<img src=x>"
NOW = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Seen]:
    with seen(tmp_path) as found:
        yield found


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(NOW.timestamp() + seconds, UTC)


def glance(number: int, *, deadline_s: float | None = None, devices: int = 1, forecast_s: float = 60.0) -> JobGlance:
    return JobGlance(
        id=f"j-{number}", number=number, name=EVIL, tenant="blue", state="running" if devices else "pending",
        devices=devices, share_done=0.25, submitted_at=NOW, started_at=NOW,
        deadline=None if deadline_s is None else at(deadline_s), promised=deadline_s is not None,
        forecast_at=at(forecast_s), step=5, total=20, loss=0.5, failures=0,
    )  # fmt: skip


def active(number: int, likely_s: float = 60.0, late_s: float = 70.0, **options: float | int | None) -> ActiveJob:
    base = NOW.timestamp()
    band = ForecastBand(early=base, likely=base + likely_s, late=base + late_s)
    return ActiveJob(view=glance(number, forecast_s=likely_s, **options), band=band)  # type: ignore[arg-type]


def test_the_goal_says_what_a_late_result_is_worth() -> None:
    job = JobDetail(
        id="j-1", number=1, name="n", tenant="t", state="running", submitted_at=NOW, expected_value=0.5,
        values=[ValueStepView(until=at(60.0), value=0.5)],
    )  # fmt: skip
    said = goal_text(cast("JobOverview", SimpleNamespace(deadline=NOW.timestamp(), detail=job)))
    assert "then worth 50% until" in said
    assert said.endswith("expected: 50% of its value")


def test_risk_is_where_the_forecast_lies_beside_the_deadline() -> None:
    assert active(1).risk is Risk.NO_DEADLINE
    assert active(1, deadline_s=100.0).risk is Risk.ON_TIME
    assert active(1, deadline_s=65.0).risk is Risk.TIGHT
    assert active(1, deadline_s=50.0).risk is Risk.LATE
    assert ActiveJob(view=glance(1, deadline_s=50.0), band=None).risk is Risk.UNKNOWN


def test_what_runs_comes_first_and_what_may_be_late_before_the_rest() -> None:
    jobs = [active(1), active(2, deadline_s=100.0), active(3, deadline_s=50.0), active(4, deadline_s=65.0, devices=0)]
    assert [job.view.number for job in most_urgent(jobs, 9)] == [3, 2, 1, 4]
    assert [job.view.number for job in most_urgent(jobs, 2)] == [3, 2]


def test_a_line_says_deadline_end_and_outlook_and_escapes_names() -> None:
    jobs = (active(1, deadline_s=50.0), active(2, deadline_s=400.0))
    table = table_of(UrgentJobs(now=NOW.timestamp(), jobs=jobs, left_out=3, free=1))
    assert "<img" not in table
    for words in ("late", "10s too late", "on time", "5m 40s to spare", "step 5 of 20", "in 1m", "3 jobs more"):
        assert words in table
    assert "1 late" in summary_html(UrgentJobs(now=NOW.timestamp(), jobs=jobs, left_out=0, free=1))


def test_a_person_sees_their_own_jobs_and_how_many_devices_are_free(there: Seen) -> None:
    world = there.world
    world.submit(there.people["ada"], name="hers", at_least=1)
    world.submit(there.people["eve"], name="not-hers", at_least=1)
    world.passes(3)
    found = there.viewer("ada").active_jobs()
    assert [job.view.name for job in found.jobs] == ["hers"]
    everything = there.viewer("admin").active_jobs()
    assert {job.view.name for job in everything.jobs} == {"hers", "not-hers"}
    held = sum(job.view.devices for job in everything.jobs)
    assert found.free == world.journal.state.scheduler.cluster.device_count - held


def test_usage_is_the_latest_with_the_peak_of_all_answers(there: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    world, answers = there.world, [Usage(cpu_percent=150.0, memory_bytes=10), Usage(cpu_percent=50.0, memory_bytes=30)]
    job = world.submit(ADMIN, name="hungry")
    world.passes(2)
    assert there.viewer("admin").job(job).detail.usage is None
    monkeypatch.setattr(world.backend, "usage", lambda _: answers.pop(0))
    world.readings.look()
    world.readings.look()
    used = there.viewer("admin").job(job).detail.usage
    assert used is not None
    assert (used.cpu_percent, used.peak_cpu_percent, used.memory_bytes, used.peak_memory_bytes) == (50, 150, 30, 30)
    assert used.device_percent is None


def job(state: str, **fields: object) -> JobDetail:
    base = {"id": "j-1", "number": 1, "name": "n", "tenant": "blue", "state": state, "submitted_at": NOW}
    return JobDetail.model_validate(base | fields)


def test_what_is_seen_in_a_run_and_where_its_time_goes() -> None:
    assert notices_html(job("running")) == ""
    shown = notices_html(job("running", notices=[f"worker {EVIL} is slow"]))
    assert "Seen in its run" in shown
    assert "<img" not in shown
    parts = {
        "step_s": 0.5,
        "input_s": 0.1,
        "host_s": 0.1,
        "kernels_s": 0.2,
        "communication_s": 0.1,
        "checkpoint_s": 0.0,
    }
    operators = [{"name": EVIL, "seconds": 0.2, "calls": 4.0}]
    profile = {"step": 1, "steps": 3, "device": "cpu", "cost": 0.001, "operators": operators, **parts}
    times = {"step": 9, "step_s": 0.5, "compute_s": 0.3, "input_s": 0.1, "wait_s": 0.1, "slower": 1.8}
    workers = [{"worker": "w1", "rank": 1, "place": "node-0/1", **times}]
    found = JobHotspotsView.model_validate({"job_id": "j-1", "name": "n", "profile": profile, "workers": workers})
    table = hotspots_html(found)
    for words in ("kernels", "200 ms", "40%", "1.8x slower", "&lt;img"):
        assert words in table
    assert "<img" not in table


def test_a_failed_job_begins_with_its_reason_and_the_authors_lines() -> None:
    tail = ["Traceback (most recent call last):", '  File "train.py", line 3, in <module>', f"ValueError: {EVIL}"]
    shown = ending_html(job("failed", reason=f"ValueError: {EVIL}", tail=tail))
    assert "Why it failed" in shown
    assert "train.py&quot;, line 3" in shown
    assert "<img" not in shown
    offer = QuoteView(verdict="refused", reason="too soon", counter_offer=at(600))
    refused = ending_html(job("declined", reason="too soon", quote=offer))
    assert "2026-07-01 12:10 or later could be promised" in refused
    assert ending_html(job("running")) == ""


def test_a_failed_job_says_what_the_doctor_found_and_nothing_is_markup() -> None:
    found = {"category": "mem.gpu_oom", "confidence": 0.9, "cause": f"no memory {EVIL}", "fix": "a smaller batch",
             "action": "fix_config"}  # fmt: skip
    shown = ending_html(job("failed", reason="exit", diagnosis=found))
    assert "mem.gpu_oom: no memory" in shown
    assert "90% sure" in shown
    assert "a smaller batch" in shown
    assert EVIL not in shown


def test_usage_of_a_job_that_has_ended_is_its_peak() -> None:
    used = UsageView(
        at=NOW, cpu_percent=50, memory_bytes=2 * 10**9, device_percent=80, device_memory_bytes=10**9, power_w=200,
        peak_cpu_percent=150, peak_memory_bytes=3 * 10**9, peak_device_memory_bytes=4 * 10**9,
    )  # fmt: skip
    running = {name: value for name, value, _ in usage_tiles(job("running", usage=used))}
    assert running == {"CPU": "50 %", "Memory": "2.0GB", "GPU": "80 %", "GPU memory": "1.0GB", "Power": "200 W"}
    over = {name: value for name, value, _ in usage_tiles(job("finished", usage=used))}
    assert over == {"CPU": "150 %", "Memory": "3.0GB", "GPU memory": "4.0GB"}
    assert list(usage_tiles(job("running"))) == []


def test_usage_is_drawn_once_there_are_two_points() -> None:
    def curve(name: str, points: int) -> MetricView:
        values = [float(value) for value in range(points)]
        return MetricView(
            name=name, count=points, last=1.0, low=0.0, high=1.0, steps=list(range(points)), times=values,
            values=values, lows=values, highs=values,
        )  # fmt: skip

    used = JobMetricsView(job_id="j", name="j", metrics=[curve("device_percent", 2), curve("cpu_percent", 1)])
    figures = (("cpu_percent", "CPU"), ("device_percent", "GPU"), ("power_w", "power"))
    assert [label for label, _ in lines_of(used, figures)] == ["GPU"]
