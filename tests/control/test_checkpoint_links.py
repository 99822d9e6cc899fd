"""Checkpoints that outlive their job's clearing up, for as long as an evaluation needs them."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.control.evaluation.checkpoint_links import CheckpointLinks
from penstock.control.state.entries import Submitted
from penstock.control.state.records import JobRecord
from penstock.core import BestEffort, Job, Recipe, Work
from tests.control.build import PROPORTIONAL

EVALUATION = "e-23456789-7"


@pytest.fixture
def record(tmp_path: Path) -> JobRecord:
    job = Job(id="j-23456789", work=Work(1.0), curve=PROPORTIONAL, goal=BestEffort())
    recipe = Recipe(command=("train",), checkpoint_dir=str(tmp_path / "j-23456789"))
    return JobRecord(job.id, 1, Submitted(at=0.0, job=job, name="job", recipe=recipe, spec={}), job)


@pytest.fixture
def saved(record: JobRecord) -> Path:
    step = Path(record.recipe.checkpoint_dir, "step-0000000007")
    (step / "shards").mkdir(parents=True)
    (step / "shards" / "0").write_text("tensors")
    step.with_suffix(".json").write_text("{}")
    return step


def test_it_is_there_after_its_job_has_removed_it_and_gone_when_nobody_needs_it(
    tmp_path: Path, record: JobRecord, saved: Path
) -> None:
    links = CheckpointLinks(tmp_path)
    kept = Path(links.keep(record, str(saved), EVALUATION))
    assert links.keep(record, str(saved), EVALUATION) == str(kept), "once more changes nothing"
    shutil.rmtree(saved)
    assert (kept / "shards" / "0").read_text() == "tensors"
    assert kept.with_suffix(".json").is_file()
    links.release(lambda _: True)
    assert kept.exists()
    CheckpointLinks(tmp_path).release(lambda _: False)
    assert not kept.exists(), "also what an earlier server linked"


def test_a_file_is_a_checkpoint_too(tmp_path: Path, record: JobRecord, saved: Path) -> None:
    file = saved / "shards" / "0"
    kept = CheckpointLinks(tmp_path).keep(record, str(file), EVALUATION)
    assert Path(kept).samefile(file)
    assert kept != str(file)


def test_nothing_is_linked_that_does_not_lie_in_the_jobs_own_directory(
    tmp_path: Path, record: JobRecord, saved: Path
) -> None:
    outside = tmp_path / "secret"
    outside.mkdir()
    (outside / "key").write_text("1")
    saved.with_name("step-8").symlink_to(outside)
    links = CheckpointLinks(tmp_path)
    own = record.recipe.checkpoint_dir
    for path in (
        str(outside), f"{own}/step-8", f"{own}/step-8/key", f"{own}/../secret/key", own, f"{own}/none", "s3://bucket/7",
    ):  # fmt: skip
        assert links.keep(record, path, EVALUATION) == path
    assert not (tmp_path / EVALUATION).exists()
    away = replace(record.submission, recipe=replace(record.recipe, checkpoint_dir="s3://bucket/job"))
    record.submission = away
    assert links.keep(record, str(saved), EVALUATION) == str(saved)
