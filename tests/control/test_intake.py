"""The rooms beside us: job files become jobs, and runs teach the platform how fast they are."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.control.loop.preparation import LiveIntake
from penstock.control.state.entries import Submitted
from penstock.control.state.records import JobRecord
from penstock.core import Cluster, Curve, Deadline, DeviceSlot, Grant, InputError, Report, ReportKind

NOW = 1_000_000.0
PLACES = (DeviceSlot("node-0", 0), DeviceSlot("node-0", 1))


@pytest.fixture
def intake(tmp_path: Path) -> LiveIntake:
    return LiveIntake(tmp_path / "data", lambda: Cluster.parse("1x4"))


@pytest.fixture
def spec(tmp_path: Path) -> dict[str, object]:
    (tmp_path / "train.py").write_text("print('hello')")
    return {"script": "train.py", "work": "500 steps", "environment": {"working_dir": str(tmp_path)}}


Runner = Callable[[Report], Curve | None]


@pytest.fixture
def tell(intake: LiveIntake, spec: dict[str, object]) -> Runner:
    """What a run of the job on two devices teaches."""
    prepared = intake.prepare(spec, job_id="j-1", tenant="blue", now=NOW)
    entry = Submitted(at=NOW, job=prepared.job, name="x", recipe=prepared.recipe, spec={})
    record = JobRecord("j-1", 1, entry, prepared.job)
    record.take(Grant("j-1", "gpu", (0, 1), 1), PLACES, NOW)
    return lambda report: intake.learn(report, record).curve


def test_a_job_file_becomes_a_job_and_a_recipe(intake: LiveIntake, spec: dict[str, object], tmp_path: Path) -> None:
    full = spec | {"deadline": "6h", "devices": "1..2", "retries": {"max": 5, "backoff": "2s"}, "tenant": "red"}
    prepared = intake.prepare(full, job_id="j-1", tenant="blue", now=NOW)
    job, recipe = prepared.job, prepared.recipe
    assert (job.id, job.tenant, job.work.iterations, job.at_most) == ("j-1", "blue", 500.0, 2)
    assert job.goal == Deadline(NOW + 6 * 3600)
    assert recipe.command[1:] == ("train.py",)
    assert recipe.working_dir == str(tmp_path)
    assert recipe.checkpoint_dir == str(tmp_path / "data" / "checkpoints" / "j-1")
    assert (recipe.max_retries, recipe.backoff_s, prepared.name) == (5, 2.0, "train")
    again = intake.prepare(prepared.spec, job_id="j-1", tenant="blue", now=NOW)
    assert again == prepared


def test_a_relative_directory_means_nothing_to_a_server(intake: LiveIntake) -> None:
    with pytest.raises(InputError, match="an absolute path"):
        intake.prepare({"command": "python x.py", "work": "1 steps"}, job_id="j", tenant="t", now=NOW)


def test_a_misspelt_key_is_explained(intake: LiveIntake, spec: dict[str, object]) -> None:
    with pytest.raises(InputError, match="deadline"):
        intake.prepare(spec | {"dead_line": "6h"}, job_id="j", tenant="t", now=NOW)


def _progress(second: float, step: int, run: str = "j-1.1") -> Report:
    return Report(run_id=run, seq=1, at=NOW + second, kind=ReportKind.PROGRESS, step=step, total=500, width=2)


def test_a_run_teaches_its_speed_once_and_the_next_job_knows_it(
    intake: LiveIntake, spec: dict[str, object], tell: Runner
) -> None:
    assert intake.prepare(spec, job_id="j-2", tenant="t", now=NOW).job.curve.rate(2, "gpu") < 3
    learned = [tell(_progress(second, 5 * second)) for second in range(40)]
    curves = [curve for curve in learned if curve is not None]
    assert curves
    assert curves[0].rate(2, "gpu") == pytest.approx(5.0, rel=0.1)
    assert intake.prepare(spec, job_id="j-3", tenant="t", now=NOW).job.curve.rate(2, "gpu") == pytest.approx(
        5.0, rel=0.1
    )


def test_reports_of_another_run_teach_nothing(tell: Runner) -> None:
    assert [tell(_progress(second, 5 * second, "j-1.0")) for second in range(40)] == [None] * 40


@pytest.fixture
def run(intake: LiveIntake, spec: dict[str, object]) -> tuple[LiveIntake, JobRecord, dict[str, object]]:
    """A run on two devices that were given to it at NOW."""
    prepared = intake.prepare(spec, job_id="j-1", tenant="blue", now=NOW)
    entry = Submitted(at=NOW, job=prepared.job, name="x", recipe=prepared.recipe, spec={})
    record = JobRecord("j-1", 1, entry, prepared.job)
    record.take(Grant("j-1", "gpu", (0, 1), 1), PLACES, NOW)
    return intake, record, spec


def test_a_run_teaches_how_long_it_takes_to_start_and_to_end(
    run: tuple[LiveIntake, JobRecord, dict[str, object]],
) -> None:
    intake, record, spec = run
    for second in range(12, 40):
        intake.learn(_progress(second, 5 * (second - 12) + 1), record)
    ended = Report(run_id="j-1.1", seq=9, at=NOW + 115.0, kind=ReportKind.FINISHED)
    lesson = intake.learn(_progress(112.0, 500), record), intake.learn(ended, record)
    assert lesson[1].costs is not None
    costs = intake.prepare(spec, job_id="j-2", tenant="t", now=NOW).job.costs
    assert costs.start.likely == pytest.approx(11.8)
    assert costs.end.likely == pytest.approx(3.0)
    assert costs.start.most > costs.start.likely


def test_a_change_in_place_costs_its_pause_and_a_restart_what_it_takes(
    run: tuple[LiveIntake, JobRecord, dict[str, object]],
) -> None:
    intake, record, _ = run
    for second in range(3, 20):
        intake.learn(_progress(second, 5 * second), record)
    record.reshape(Grant("j-1", "gpu", (0, 1), 1), PLACES, NOW + 20.0)
    resized = Report(
        run_id="j-1.1", seq=9, at=NOW + 21.0, kind=ReportKind.RESIZED, generation=record.generation, width=2,
        pause_s=0.25, in_place=True,
    )  # fmt: skip
    learned = intake.learn(resized, record).costs
    assert learned is not None
    assert learned.resize.likely == pytest.approx(0.25)
    record.reshape(Grant("j-1", "gpu", (0, 1), 1), PLACES, NOW + 30.0)
    intake.learn(replace(resized, at=NOW + 33.0, in_place=False, generation=record.generation), record)
    lessons = [intake.learn(_progress(39.0 + second, 96 + 5 * second), record).costs for second in range(3)]
    told = [costs for costs in lessons if costs is not None]
    assert told[0].resize.most > 8.0
