"""The job that evaluates a checkpoint, from the job file of the job that saved it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.control.evaluation.checkpoint_links import CheckpointLinks
from penstock.control.evaluation.drafts import EvaluationDrafts, SavedCheckpoint, evaluation_priority
from penstock.control.loop.job_reader import JobReader
from penstock.control.loop.learning_stores import LearningStores
from penstock.control.state.entries import Submitted
from penstock.control.state.records import JobRecord
from penstock.core import SCORING_COMMAND, BestEffort, Cluster, EvaluationBrief, EvaluationSet, InputError
from tests.control.test_job_reader import NOW

JOB = "j-23456789"


@pytest.fixture
def reader(tmp_path: Path) -> JobReader:
    stores = LearningStores(tmp_path / "data", lambda: Cluster.parse("1x4"))
    return JobReader(stores, checkpoints=tmp_path / "saved")


def submitted(reader: JobReader, folder: Path, evaluate: Any, **more: Any) -> JobRecord:
    (folder / "train.py").touch()
    spec = {
        "script": "train.py", "work": "500 steps", "tenant": "blue", "deadline": "6h", "evaluate": evaluate,
        "environment": {"working_dir": str(folder), "env": {"A": "1"}}, **more,
    }  # fmt: skip
    draft = reader.read(spec, job_id=JOB, tenant="blue", now=NOW)
    entry = Submitted(at=NOW, job=draft.job, name=draft.name, recipe=draft.recipe, spec=draft.spec)
    return JobRecord(JOB, 1, entry, draft.job)


def test_it_is_told_what_to_evaluate_and_is_promised_nothing(reader: JobReader, tmp_path: Path) -> None:
    asked = {
        "script": "eval.py",
        "sets": {"arc": 100},
        "metric": "python score.py",
        "metric_per": "shard",
        "devices": 2,
    }
    record = submitted(reader, tmp_path, asked)
    saved = SavedCheckpoint(step=7, at=NOW, path="/elsewhere/7.pt")
    made = EvaluationDrafts(reader).draft(record, saved, earlier="/before", now=NOW)
    assert (made.step, made.checkpoint) == (7, "/elsewhere/7.pt")
    draft = made.job
    env = dict(draft.recipe.env)
    assert EvaluationBrief.parse(env["PENSTOCK_EVALUATION"]) == EvaluationBrief(
        step=7, checkpoint="/elsewhere/7.pt", sets=(EvaluationSet(name="arc", samples=100),),
        metric=("python", "score.py"), metric_by_shard=True, earlier="/before",
    )  # fmt: skip
    assert (env["PENSTOCK_CHECKPOINT"], env["PENSTOCK_CHECKPOINT_STEP"], env["A"]) == ("/elsewhere/7.pt", "7", "1")
    assert (draft.job.id, draft.name, draft.job.tenant) == ("e-23456789-7", "train-eval-7", "blue")
    assert (draft.job.goal, draft.job.work.iterations, draft.job.at_most) == (BestEffort(), 100.0, 2)
    assert draft.recipe.checkpoint_dir == str(tmp_path / "saved" / "e-23456789-7")
    assert draft.recipe.command[1:] == ("eval.py",)
    assert draft.recipe.cpu_command == SCORING_COMMAND, "metrics are computed without a device"


def test_the_checkpoint_is_linked_or_else_the_jobs_own_directory_is_told(reader: JobReader, tmp_path: Path) -> None:
    record = submitted(reader, tmp_path, "eval.py")
    place = Path(record.recipe.checkpoint_dir)
    place.mkdir(parents=True)
    (place / "7.pt").write_text("weights")
    drafts = EvaluationDrafts(reader, CheckpointLinks(tmp_path / "saved"))
    draft = drafts.draft(record, SavedCheckpoint(step=7, at=NOW, path=str(place / "7.pt")), earlier="", now=NOW)
    linked = Path(draft.checkpoint)
    assert linked == tmp_path / "saved" / "e-23456789-7" / "checkpoint" / "7.pt"
    drafts.release(lambda _: False)
    assert not linked.exists()
    untold = drafts.draft(record, SavedCheckpoint(step=8, at=NOW, path=""), earlier="", now=NOW)
    assert untold.checkpoint == str(place)


def test_where_it_stands_depends_on_what_it_would_take_from_its_job(reader: JobReader, tmp_path: Path) -> None:
    job = replace(submitted(reader, tmp_path, "eval.py").job, priority=30)
    elastic = replace(job, resumable=True, at_most=None)
    assert evaluation_priority(elastic, None) == 30
    assert evaluation_priority(replace(elastic, at_least=2, at_most=2), None) == -1
    assert evaluation_priority(replace(elastic, resumable=False), None) == -1
    assert evaluation_priority(job, 70) == 70


def test_quotas_bound_it_and_a_job_file_that_does_not_do_any_more_is_refused(reader: JobReader, tmp_path: Path) -> None:
    record = submitted(reader, tmp_path, {"script": "eval.py", "devices": "1..8", "every": "100 steps"})
    drafts = EvaluationDrafts(reader, fitted=lambda job: replace(job, at_most=3))
    saved = SavedCheckpoint(step=7, at=NOW, path="/7")
    assert drafts.draft(record, saved, earlier="", now=NOW).job.job.at_most == 3
    demand = drafts.demand(record.submission.spec)
    assert [demand.is_due(saved, last, NOW) for last in (0, 7)] == [False, False]
    assert demand.is_due(replace(saved, step=100), 0, NOW)
    record.submission = replace(record.submission, spec={**record.submission.spec, "work": "none"})
    with pytest.raises(InputError, match="is not an amount of work"):
        drafts.draft(record, saved, earlier="", now=NOW)


def test_evaluations_of_two_checkpoints_share_one_speed(reader: JobReader, tmp_path: Path) -> None:
    record = submitted(reader, tmp_path, "lm_eval --of {checkpoint} --out {step}.json")
    drafts = EvaluationDrafts(reader)
    made = [
        drafts.draft(record, SavedCheckpoint(step=step, at=NOW, path=f"/{step}"), earlier="", now=NOW).job.recipe
        for step in (7, 8)
    ]
    assert made[0].command == ("lm_eval", "--of", "/7", "--out", "7.json")
    assert made[0].command != made[1].command
    assert made[0].cpu_command == (), "without a metric step nothing is left to do without devices"
    assert made[0].fingerprint == made[1].fingerprint != record.recipe.fingerprint
