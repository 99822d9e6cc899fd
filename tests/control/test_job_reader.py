"""The rooms beside us: job files become jobs, and runs teach the platform how fast they are."""

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.control.loop.job_reader import JobReader
from penstock.control.loop.learning import Learner
from penstock.control.loop.learning_stores import LearningStores
from penstock.control.platform.job_logs import JobOutput, LogCursor
from penstock.control.state.entries import Submitted
from penstock.control.state.records import JobRecord
from penstock.core import (
    INTERPRETER,
    Cluster,
    Container,
    Curve,
    Deadline,
    DeviceSlot,
    Grant,
    InputError,
    Mount,
    Recipe,
    Report,
    ReportKind,
    ResourceLimits,
    Source,
)
from penstock.policies import weakest_source
from tests.control.fake_backend import FakeBackend

NOW = 1_000_000.0
PLACES = (DeviceSlot("node-0", 0), DeviceSlot("node-0", 1))


@pytest.fixture
def stores(tmp_path: Path) -> LearningStores:
    return LearningStores(tmp_path / "data", lambda: Cluster.parse("1x4"))


@pytest.fixture
def reader(stores: LearningStores) -> JobReader:
    return JobReader(stores)


@pytest.fixture
def learner(stores: LearningStores) -> Learner:
    return Learner(stores)


@pytest.fixture
def spec(tmp_path: Path) -> dict[str, object]:
    (tmp_path / "train.py").write_text("print('hello')")
    return {"script": "train.py", "work": "500 steps", "environment": {"working_dir": str(tmp_path)}}


Runner = Callable[[Report], Curve | None]


@pytest.fixture
def tell(reader: JobReader, learner: Learner, spec: dict[str, object]) -> Runner:
    """What a run of the job on two devices teaches."""
    prepared = reader.read(spec, job_id="j-1", tenant="blue", now=NOW)
    entry = Submitted(at=NOW, job=prepared.job, name="x", recipe=prepared.recipe, spec={})
    record = JobRecord("j-1", 1, entry, prepared.job)
    record.take(Grant("j-1", "gpu", (0, 1), 1), PLACES, NOW)
    return lambda report: learner.learn(report, record).curve


def test_a_job_file_becomes_a_job_and_a_recipe(reader: JobReader, spec: dict[str, object], tmp_path: Path) -> None:
    full = spec | {"deadline": "6h", "devices": "1..2", "retries": {"max": 5, "backoff": "2s"}, "tenant": "red"}
    prepared = reader.read(full, job_id="j-1", tenant="blue", now=NOW)
    job, recipe = prepared.job, prepared.recipe
    assert (job.id, job.tenant, job.work.iterations, job.at_most) == ("j-1", "blue", 500.0, 2)
    assert job.goal == Deadline(NOW + 6 * 3600)
    assert recipe.command == (INTERPRETER, "train.py")
    assert not prepared.needs_preparation
    assert recipe.working_dir == str(tmp_path)
    assert recipe.checkpoint_dir == str(tmp_path / "data" / "checkpoints" / "j-1")
    assert (recipe.max_retries, recipe.retries_early_exits, recipe.backoff_s) == (5, True, 2.0)
    assert (dict(recipe.env)["PENSTOCK_CHECKPOINT_EVERY"], prepared.name) == ("600", "train")
    again = reader.read(prepared.spec, job_id="j-1", tenant="blue", now=NOW)
    assert again == prepared


def test_without_a_word_about_retries_early_exits_are_final(reader: JobReader, spec: dict[str, object]) -> None:
    recipe = reader.read(spec, job_id="j-1", tenant="blue", now=NOW).recipe
    assert (recipe.max_retries, recipe.retries_early_exits) == (3, False)


def test_a_relative_directory_means_nothing_to_a_server(reader: JobReader) -> None:
    with pytest.raises(InputError, match="an absolute path"):
        reader.read({"command": "python x.py", "work": "1 steps"}, job_id="j", tenant="t", now=NOW)


def test_a_misspelt_key_is_explained(reader: JobReader, spec: dict[str, object]) -> None:
    with pytest.raises(InputError, match="deadline"):
        reader.read(spec | {"dead_line": "6h"}, job_id="j", tenant="t", now=NOW)


def _progress(second: float, step: int, run: str = "j-1.1") -> Report:
    return Report(run_id=run, seq=1, at=NOW + second, kind=ReportKind.PROGRESS, step=step, total=500, width=2)


def test_a_run_teaches_its_speed_once_and_the_next_job_knows_it(
    reader: JobReader, spec: dict[str, object], tell: Runner
) -> None:
    assert reader.read(spec, job_id="j-2", tenant="blue", now=NOW).job.curve.rate(2, "gpu") < 3
    learned = [tell(_progress(second, 5 * second)) for second in range(40)]
    curves = [curve for curve in learned if curve is not None]
    assert curves
    assert curves[0].rate(2, "gpu") == pytest.approx(5.0, rel=0.1)
    assert reader.read(spec, job_id="j-3", tenant="blue", now=NOW).job.curve.rate(2, "gpu") == pytest.approx(5, rel=0.1)
    assert reader.read(spec, job_id="j-4", tenant="red", now=NOW).job.curve.rate(2, "gpu") < 3, "not of its own runs"


def test_reports_of_another_run_teach_nothing(tell: Runner) -> None:
    assert [tell(_progress(second, 5 * second, "j-1.0")) for second in range(40)] == [None] * 40


@pytest.fixture
def record(reader: JobReader, spec: dict[str, object]) -> JobRecord:
    """A run on two devices that were given to it at NOW."""
    prepared = reader.read(spec, job_id="j-1", tenant="blue", now=NOW)
    entry = Submitted(at=NOW, job=prepared.job, name="x", recipe=prepared.recipe, spec={})
    record = JobRecord("j-1", 1, entry, prepared.job)
    record.take(Grant("j-1", "gpu", (0, 1), 1), PLACES, NOW)
    return record


def test_a_run_teaches_how_long_it_takes_to_start_and_to_end(
    reader: JobReader, learner: Learner, record: JobRecord, spec: dict[str, object]
) -> None:
    for second in range(12, 40):
        learner.learn(_progress(second, 5 * (second - 12) + 1), record)
    ended = Report(run_id="j-1.1", seq=9, at=NOW + 115.0, kind=ReportKind.FINISHED)
    lesson = learner.learn(_progress(112.0, 500), record), learner.learn(ended, record)
    assert lesson[1].costs is not None
    costs = reader.read(spec, job_id="j-2", tenant="blue", now=NOW).job.costs
    assert costs.start.likely == pytest.approx(11.8)
    assert costs.end.likely == pytest.approx(3.0)
    assert costs.start.most > costs.start.likely


def test_a_change_in_place_costs_its_pause_and_a_restart_what_it_takes(learner: Learner, record: JobRecord) -> None:
    for second in range(3, 20):
        learner.learn(_progress(second, 5 * second), record)
    record.reshape(Grant("j-1", "gpu", (0, 1), 1), PLACES, NOW + 20.0)
    resized = Report(
        run_id="j-1.1", seq=9, at=NOW + 21.0, kind=ReportKind.RESIZED, generation=record.generation, width=2,
        pause_s=0.25, in_place=True,
    )  # fmt: skip
    learned = learner.learn(resized, record).costs
    assert learned is not None
    assert learned.resize.likely == pytest.approx(0.25)
    record.reshape(Grant("j-1", "gpu", (0, 1), 1), PLACES, NOW + 30.0)
    learner.learn(replace(resized, at=NOW + 33.0, in_place=False, generation=record.generation), record)
    lessons = [learner.learn(_progress(39.0 + second, 96 + 5 * second), record).costs for second in range(3)]
    told = [costs for costs in lessons if costs is not None]
    assert told[0].resize.most > 8.0


MODEL = "raise SystemExit('it was imported')\n\ndef penstock_model(batch):\n    return None\n"


def test_what_is_not_known_yet_is_said_and_nothing_is_run_to_know_it(
    reader: JobReader, spec: dict[str, object], tmp_path: Path
) -> None:
    def note(**changes: object) -> tuple[bool, str]:
        draft = reader.read(spec | changes, job_id="j", tenant="t", now=NOW)
        return draft.needs_preparation, draft.note

    assert note() == (False, "its speed is not known yet: measured when it first runs")
    (tmp_path / "train.py").write_text(MODEL)
    assert note(global_batch=32) == (
        True, "its speed is not known yet: predicted from its penstock_model when it is prepared",
    )  # fmt: skip
    needs, why = note()
    assert (needs, "gives no global_batch" in why) == (False, True)
    only_here = JobReader(reader._stores, predicts=False)
    assert not only_here.read(spec | {"global_batch": 32}, job_id="j", tenant="t", now=NOW).needs_preparation


def test_packages_are_named_and_not_installed(reader: JobReader, spec: dict[str, object], tmp_path: Path) -> None:
    place = {"working_dir": str(tmp_path)}
    listed = reader.read(
        spec | {"environment": place | {"requirements": ["no-such-package==0"]}}, job_id="j", tenant="t", now=NOW
    )
    assert listed.needs_preparation
    assert (listed.recipe.requirements, listed.recipe.requirements_file) == (("no-such-package==0",), "")
    named = reader.read(spec | {"environment": place | {"requirements": "needs.txt"}}, job_id="j", tenant="t", now=NOW)
    assert (named.recipe.requirements, named.recipe.requirements_file) == ((), "needs.txt")
    assert not (tmp_path / "data" / "environments").exists()


@pytest.mark.parametrize("key", ["script", "requirements", "model", "args"])
def test_a_pipe_or_a_huge_file_keeps_no_request_waiting(reader: JobReader, tmp_path: Path, key: str) -> None:
    pipe, huge = tmp_path / "pipe.json", tmp_path / "huge.json"
    os.mkfifo(pipe)
    with huge.open("wb") as file:
        file.truncate(1 << 40)
    for path in (pipe, huge):
        about: dict[str, object] = {"working_dir": str(tmp_path)}
        spec: dict[str, object] = {"work": "5 steps", "environment": about, "global_batch": 4}
        if key == "requirements":
            about["requirements"] = str(path)
        spec |= {"model": str(path)} if key == "model" else {"script": str(path) if key == "script" else "train.py"}
        spec |= {"args": [str(path)]} if key == "args" else {}
        with contextlib.suppress(InputError):
            reader.read(spec, job_id="j-1", tenant="t", now=NOW)


def told(seq: int, kind: ReportKind, at: float, **more: Any) -> Report:
    return Report(run_id="j-1.1", seq=seq, at=NOW + at, kind=kind, **more)


def test_a_silent_run_teaches_how_long_it_took(tell: Runner, reader: JobReader, spec: dict[str, object]) -> None:
    assert tell(told(1, ReportKind.LAUNCHED, 1.0)) is None
    curve = tell(told(2, ReportKind.FINISHED, 50.0))
    assert curve is not None
    assert curve.rate(2, "gpu") == pytest.approx(10.0, rel=0.01)
    assert weakest_source(reader.read(spec, job_id="j-2", tenant="blue", now=NOW).job) is not Source.GUESSED


def test_speeds_are_kept_in_the_steps_of_the_script(tell: Runner, reader: JobReader, spec: dict[str, object]) -> None:
    """The file says 500 steps, the script counts to 60 and makes one step a second."""
    curves = [tell(told(k, ReportKind.PROGRESS, float(k), step=k, total=60)) for k in range(1, 20)]
    learned = [curve for curve in curves if curve is not None][-1]
    assert learned.rate(2, "gpu") == pytest.approx(500 / 60, rel=0.05), "of this job, in the unit of its file"
    known = reader.read({**spec, "work": "60 steps"}, job_id="j-2", tenant="blue", now=NOW).job.curve
    assert known.rate(2, "gpu") == pytest.approx(1.0, rel=0.05), "of the next, in steps of the script"


def test_an_environment_and_limits_reach_the_recipe(reader: JobReader, spec: dict[str, Any], tmp_path: Path) -> None:
    def recipe(environment: dict[str, object], **more: object) -> Recipe:
        asked = {**spec, "environment": {**spec["environment"], **environment}, **more}
        draft = reader.read(asked, job_id="j-1", tenant="default", now=NOW)
        assert draft.needs_preparation is bool(environment)
        return draft.recipe

    plain = recipe({}, limits={"memory": "1GiB", "cpus": 2})
    assert plain.limits == ResourceLimits(memory_bytes=2**30, cpus=2.0)
    assert plain.preparation_log == ""
    conda = recipe({"conda": "torch", "setup": ["make", "make install"]})
    assert (conda.conda, conda.setup, conda.prepared_parts) == ("torch", "make\nmake install", ("conda", "setup"))
    assert conda.preparation_log == str(tmp_path / "data" / "preparations" / "j-1.log")
    assert recipe({"image": "a", "mounts": ["/d"]}).container == Container(
        image="a", mounts=(Mount(source="/d", target="/d"),)
    )


def test_output_begins_with_what_was_said_in_the_preparation(tmp_path: Path) -> None:
    backend = FakeBackend(lambda: NOW)
    backend.output["j.1"] = b"[0] step 1\n"
    log = tmp_path / "preparation.log"
    log.write_text("installing\n")

    def read(output: JobOutput, worker: str | None = None) -> tuple[str, bool]:
        pages, cursor = [], LogCursor()
        while (page := output.page(worker=worker, cursor=cursor, limit=4)).text:
            pages.append(page.text)
            cursor = LogCursor.parse(page.next)
        return "".join(pages), page.complete

    preparing = JobOutput(backend=backend, runs=(), over=False, preparation_log=str(log))
    assert read(preparing) == ("installing\n", False)
    assert read(replace(preparing, runs=("j.1",), over=True)) == ("installing\n[0] step 1\n", True)
    assert read(replace(preparing, runs=("j.1",)), worker="w0") == ("[0] step 1\n", False)
    assert read(replace(preparing, runs=("j.1",), preparation_log="")) == ("[0] step 1\n", False)
    assert read(replace(preparing, preparation_log=str(tmp_path / "gone"))) == ("", False)


def test_output_since_a_moment_begins_in_the_run_that_wrote_it(tmp_path: Path) -> None:
    backend = FakeBackend(lambda: NOW)
    backend.output = {"j.1": b"one\ntwo\n", "j.2": b"three\n"}
    backend.written = {"j.1": [(100.0, 0), (200.0, 4)], "j.2": [(300.0, 0)]}
    log = tmp_path / "preparation.log"
    log.write_text("installing\n")
    os.utime(log, (50.0, 50.0))
    output = JobOutput(backend=backend, runs=("j.1", "j.2"), over=False, preparation_log=str(log))
    found = {moment: str(output.since(moment, worker=None)) for moment in (40.0, 60.0, 150.0, 250.0, 350.0)}
    assert found == {40.0: "0:0", 60.0: "1:0", 150.0: "1:4", 250.0: "2:0", 350.0: "2:6"}
    assert str(replace(output, preparation_log="").since(150.0, worker="w0")) == "0:4"
    assert str(replace(output, runs=()).since(60.0, worker=None)) == "1:0"


def test_a_job_that_has_saved_saves_as_often_as_loses_the_least_time_and_says_so(
    reader: JobReader, learner: Learner, record: JobRecord, spec: dict[str, object]
) -> None:
    before = reader.read(spec, job_id="j-2", tenant="blue", now=NOW)
    assert before.job.checkpoint_every_s == 600.0
    for second in range(3):
        saved = Report(run_id="j-1.1", seq=2, at=NOW + second, kind=ReportKind.CHECKPOINTED, step=9, blocking_s=0.05)
        learner.learn(saved, record)
    after = reader.read(spec, job_id="j-3", tenant="blue", now=NOW)
    assert after.job.checkpoint_every_s == pytest.approx(600.0)
    assert float(dict(after.recipe.env)["PENSTOCK_CHECKPOINT_EVERY"]) == pytest.approx(600.0)
    assert after.note.endswith("saves every 10m: each costs 0.05 s, failures about every 41d 16h")
    assert after.recipe.fingerprint == before.recipe.fingerprint
    assert "checkpoint" not in after.spec

    learner.learn(Report(run_id="j-1.1", seq=3, at=NOW + 9, kind=ReportKind.FAILED, reason="lost"), record)
    again = reader.read(spec, job_id="j-4", tenant="blue", now=NOW)
    assert again.job.checkpoint_every_s == pytest.approx(600.0 / 2**0.5, rel=1e-3)
    told = reader.read(spec | {"checkpoint": {"every": "10m"}}, job_id="j-5", tenant="blue", now=NOW)
    assert (told.job.checkpoint_every_s, "saves every" in told.note) == (600.0, False)
    other = reader.read(spec, job_id="j-6", tenant="red", now=NOW)
    assert (other.job.checkpoint_every_s, "saves every" in other.note) == (600.0, False)


def test_a_run_that_was_told_to_stop_has_not_failed(
    reader: JobReader, learner: Learner, record: JobRecord, spec: dict[str, object]
) -> None:
    learner.learn(Report(run_id="j-1.1", seq=1, at=NOW, kind=ReportKind.CHECKPOINTED, step=9, blocking_s=0.05), record)
    learner.learn(Report(run_id="j-1.1", seq=2, at=NOW + 9, kind=ReportKind.FAILED, reason="stopped"), record)
    assert "41d 16h" in reader.read(spec, job_id="j-2", tenant="blue", now=NOW).note
