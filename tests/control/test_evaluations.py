"""Checkpoints that are evaluated beside training: which ones, by whom, what becomes of the results, and what never
happens twice."""

from pathlib import Path
from typing import Any

import pytest

from penstock.control.notify.notices import NoticeKind, notices_of
from penstock.control.state.evaluations import evaluated_job, evaluation_id, evaluations_of
from penstock.core import MetricSeries, ReportKind
from penstock.wire import JobPhase
from tests.control.build import ADMIN, Platform, platform
from tests.control.test_dependencies import until


def train(world: Platform, **evaluate: Any) -> str:
    """A job on one device that asks for evaluations; every run here takes a hundred steps, one a second."""
    job_id = world.submit(name="night", work=100, at_most=1, evaluate={"steps": 10, **evaluate})
    world.passes()
    return job_id


def save(world: Platform, job_id: str, step: int) -> None:
    run_id = world.record(job_id).run_id
    world.backend.tell(run_id, ReportKind.CHECKPOINTED, step=step, path=f"/saved/{step}")
    world.passes()


def find(world: Platform, job_id: str, step: int, **values: float) -> str:
    """An evaluation has told its results."""
    evaluation = evaluation_id(job_id, step)
    series = []
    for metric, value in values.items():
        series.append(MetricSeries(f"arc/{metric}"))
        series[-1].add(1, world.clock(), value)
    world.backend.metric_series[f"{evaluation}.1"] = series
    return evaluation


def finish(world: Platform, evaluation: str) -> None:
    """The run of an evaluation ends well."""
    run = world.backend.all_runs[f"{evaluation}.1"]
    run.alive = False
    world.backend.tell(f"{evaluation}.1", ReportKind.FINISHED, code=0)
    world.passes()


def evaluate(world: Platform, job_id: str, step: int, accuracy: float) -> str:
    save(world, job_id, step)
    evaluation = find(world, job_id, step, accuracy=accuracy)
    finish(world, evaluation)
    return evaluation


def told(world: Platform, job_id: str) -> list[str]:
    return [note.text for note in world.platform.why(job_id, ADMIN).entries]


def steps(world: Platform, job_id: str) -> list[tuple[int, str]]:
    return [(each.step, each.state) for each in world.platform.evaluations(job_id, ADMIN).evaluations]


def submissions(world: Platform) -> list[str | None]:
    lines = world.journal.store.log.page(limit=1000)
    return [line.job_id for line in lines if line.kind == "Submitted" and (line.job_id or "").startswith("e-")]


def test_ids_say_which_step_of_which_job_they_are_of() -> None:
    for job_id in ("j-23456789", "j-23456789-17"):
        assert evaluated_job(evaluation_id(job_id, 1200)) == job_id
        assert evaluation_id(job_id, 1200).startswith(f"{evaluations_of(job_id)}-")
        assert evaluated_job(job_id) is None


def test_checkpoints_that_are_due_are_evaluated_and_results_are_curves_of_the_job(world: Platform) -> None:
    job_id = train(world)
    save(world, job_id, 9)
    assert submissions(world) == [], "every ten steps"
    save(world, job_id, 12)
    evaluation = evaluation_id(job_id, 12)
    record = world.record(evaluation)
    assert world.phase(evaluation) is JobPhase.RUNNING
    assert record.submission.evaluates is not None
    assert (record.submission.evaluates.checkpoint, record.job.tenant) == ("/saved/12", "default")
    assert f"its checkpoint of step 12 is evaluated by {evaluation}" in told(world, job_id)
    finish(world, find(world, job_id, 12, accuracy=0.5, loss_at=2.0))
    evaluate(world, job_id, 22, accuracy=0.7)
    metrics = world.platform.metrics(job_id, ADMIN)
    assert (metrics["eval/arc/accuracy"].steps, metrics["eval/arc/accuracy"].values) == ([12, 22], [0.5, 0.7])
    assert metrics["eval/arc/loss_at"].values == [2.0]
    assert steps(world, job_id) == [(12, "finished"), (22, "finished")]
    assert world.drafts.earlier == ["", f"/checkpoints/{evaluation}"], "the next one knows how long the last one took"
    assert "the checkpoint of step 22 was evaluated: arc/accuracy 0.7" in told(world, job_id)


def test_the_last_checkpoint_is_evaluated_when_the_job_has_finished(world: Platform) -> None:
    job_id = train(world, steps=1000)
    save(world, job_id, 99)
    assert submissions(world) == []
    until(world, JobPhase.FINISHED, job_id)
    evaluation = find(world, job_id, 99, accuracy=0.9)
    assert submissions(world) == [evaluation]
    assert job_id not in world.journal.state.jobs, "the job itself is archived by now"
    finish(world, evaluation)
    assert world.platform.metrics(job_id, ADMIN)["eval/arc/accuracy"].values == [0.9]
    assert "the checkpoint of step 99 was evaluated: arc/accuracy 0.9" in told(world, job_id)
    world.restart()
    world.passes(20)
    assert submissions(world) == [evaluation]


def test_while_one_runs_the_newest_waits_and_those_between_are_passed_over(world: Platform) -> None:
    job_id = train(world)
    for step in (10, 20, 30):
        save(world, job_id, step)
    assert submissions(world) == [evaluation_id(job_id, 10)]
    finish(world, find(world, job_id, 10, accuracy=0.5))
    assert submissions(world) == [evaluation_id(job_id, 10), evaluation_id(job_id, 30)]
    waited = evaluation_id(job_id, 30)
    assert f"its checkpoint of step 30 is evaluated by {waited}; passed over meanwhile: step 20" in told(world, job_id)
    assert world.platform.evaluations(job_id, ADMIN).evaluations[-1].passed_over == [20]


def test_one_that_waits_for_devices_gives_way_to_a_newer_checkpoint(world: Platform) -> None:
    job_id = train(world)
    other = world.submit(work=1000, at_least=3, at_most=3)
    world.passes()
    save(world, job_id, 10)
    stale = evaluation_id(job_id, 10)
    assert world.phase(stale) is JobPhase.PENDING
    save(world, job_id, 20)
    assert world.phase(stale) is JobPhase.CANCELLED
    assert world.record(stale).reason == "the newer checkpoint of step 20 is evaluated instead"
    newer = evaluation_id(job_id, 20)
    assert world.phase(newer) is JobPhase.PENDING
    assert {world.phase(job_id), world.phase(other)} == {JobPhase.RUNNING}, "training is not stopped for it"
    world.commands.cancel(other, ADMIN)
    until(world, JobPhase.RUNNING, newer)


def test_time_may_lie_between_two_evaluations_instead_of_steps(world: Platform) -> None:
    job_id = train(world, steps=None, seconds=30)
    save(world, job_id, 1)
    world.passes(40)
    save(world, job_id, 2)
    assert submissions(world) == [evaluation_id(job_id, 2)]


@pytest.mark.parametrize("when", ["before", "running", "over"])
def test_a_server_that_is_killed_loses_and_repeats_no_evaluation(world: Platform, when: str) -> None:
    job_id = train(world)
    if when == "before":
        world.backend.tell(world.record(job_id).run_id, ReportKind.CHECKPOINTED, step=10, path="/saved/10")
        world.restart()
        world.passes()
    save(world, job_id, 10)
    evaluation = find(world, job_id, 10, accuracy=0.5)
    if when == "running":
        world.restart()
        world.passes()
    finish(world, evaluation)
    if when == "over":
        world.restart()
    world.passes(3)
    assert submissions(world) == [evaluation]
    assert world.backend.calls.count(("launch", f"{evaluation}.1")) == 1
    assert world.platform.metrics(job_id, ADMIN)["eval/arc/accuracy"].values == [0.5]
    assert [line.kind for line in world.journal.store.log.page(job_id=evaluation, limit=100)].count("Evaluated") == 1


def test_it_is_cancelled_with_its_job_and_not_paused_with_it(world: Platform) -> None:
    job_id = train(world)
    save(world, job_id, 10)
    evaluation = evaluation_id(job_id, 10)
    world.commands.pause(job_id, ADMIN)
    world.passes()
    assert world.phase(evaluation) is JobPhase.RUNNING
    world.commands.cancel(job_id, ADMIN)
    world.passes()
    assert world.phase(evaluation) is JobPhase.CANCELLED
    assert world.record(evaluation).reason == f"the job {job_id} was cancelled"
    world.restart()
    assert world.phase(evaluation) is JobPhase.CANCELLED
    assert world.backend.alive() == []


def test_a_result_that_is_clearly_worse_is_told_once_in_the_story_and_to_people(world: Platform) -> None:
    job_id = train(world)
    for step, accuracy in ((10, 0.60), (20, 0.70), (30, 0.69)):
        evaluate(world, job_id, step, accuracy)
    assert not [text for text in told(world, job_id) if "worse" in text], "one percent of a thousand samples is noise"
    bad = evaluate(world, job_id, 40, 0.50)
    still = evaluate(world, job_id, 50, 0.49)
    said = "the checkpoint of step 40 got worse: arc/accuracy 0.5, was 0.7 at step 20"
    assert [text for text in told(world, job_id) if "worse" in text] == [said]
    [notice] = notices_of(world.record(bad), None, 0.0)
    assert (notice.kind, notice.text) == (NoticeKind.REGRESSED, f"job-eval-40 ({bad}): {said}")
    assert list(notices_of(world.record(still), None, 0.0)) == [], "nobody is told of every evaluation's end"
    assert evaluate(world, job_id, 60, 0.72)
    assert [each.worse for each in world.platform.evaluations(job_id, ADMIN).evaluations] == [
        [], [], [], ["arc/accuracy 0.5, was 0.7 at step 20"], [], [],
    ]  # fmt: skip


def test_what_cannot_be_evaluated_is_told_once_for_each_checkpoint(world: Platform) -> None:
    job_id = train(world, refused=True)
    save(world, job_id, 10)
    world.passes(5)
    said = [text for text in told(world, job_id) if "cannot be evaluated" in text]
    assert said == ["its checkpoint of step 10 cannot be evaluated: eval.py is gone. Allowed: a script. Put it back."]
    save(world, job_id, 20)
    assert len([text for text in told(world, job_id) if "cannot be evaluated" in text]) == 2
    assert world.phase(job_id) is JobPhase.RUNNING


def test_an_evaluation_that_fails_is_told_and_the_next_checkpoint_is_evaluated(world: Platform) -> None:
    job_id = train(world)
    save(world, job_id, 10)
    evaluation = evaluation_id(job_id, 10)
    world.backend.fail(f"{evaluation}.1", tail=("ModuleNotFoundError: no module lm_eval",))
    world.passes()
    assert world.phase(evaluation) is JobPhase.FAILED
    assert [text for text in told(world, job_id) if "failed" in text] == ["the evaluation of step 10 failed: exit"]
    save(world, job_id, 20)
    assert world.phase(evaluation_id(job_id, 20)) is JobPhase.RUNNING
    assert steps(world, job_id) == [(10, "failed"), (20, "running")]


def test_members_of_arrays_have_evaluations_of_their_own(tmp_path: Path) -> None:
    with platform(tmp_path) as world:
        spec = {"name": "sweep", "work": 100, "at_most": 1, "evaluate": {"steps": 10}}
        array = world.platform.submit_array(spec, "1..2", ADMIN)
        world.passes()
        for member in array.jobs:
            save(world, member, 10)
        assert submissions(world) == [evaluation_id(member, 10) for member in array.jobs]
        assert world.platform.array("sweep", ADMIN).jobs == 2, "evaluations are no members"
        assert [steps(world, member) for member in array.jobs] == [[(10, "running")]] * 2


def test_trouble_with_an_evaluation_is_its_own_and_its_run_has_ended_all_the_same(
    world: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id, other = train(world), train(world)
    save(world, job_id, 10)
    evaluation = find(world, job_id, 10, accuracy=0.5)

    def broken(_: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(world.backend, "metrics", broken)
    finish(world, evaluation)
    assert world.phase(evaluation) is JobPhase.FINISHED
    assert any(
        "evaluating its checkpoints failed: OSError: the disk is gone" in text for text in told(world, evaluation)
    )
    monkeypatch.setattr(world.drafts, "demand", broken)
    monkeypatch.setattr(world.reconciler._evaluations, "_demands", {})
    save(world, other, 10)
    assert {world.phase(job_id), world.phase(other)} == {JobPhase.RUNNING}
    assert any("evaluating its checkpoints failed" in text for text in told(world, other))


def test_evaluations_take_nobody_a_place_among_the_active_jobs(world: Platform) -> None:
    job_id = train(world)
    save(world, job_id, 10)
    assert world.phase(evaluation_id(job_id, 10)) is JobPhase.RUNNING
    assert world.journal.state.asked_for("default") == 1
    assert world.journal.state.active.count("default") == 2
