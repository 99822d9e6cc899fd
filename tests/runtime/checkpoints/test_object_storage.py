"""Checkpoints below a URL are whole or not there, as on a disk: on a real S3-compatible server."""

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.core import CheckpointSaved, InputError, StateSuspended, SuspendOrder
from penstock.elastic import Checkpoints
from penstock.runtime.checkpoints.checkpoint import NotSaved, Saved
from tests.runtime.agent import Agent
from tests.runtime.buckets import BUCKET, Bucket
from tests.runtime.checkpoints.test_checkpoints import parts_with, weight
from tests.runtime.curves import assert_same_curve, curve


def save(files: Checkpoints, step: int, value: float) -> Saved:
    files.begin(parts_with(value).capture(step))
    saved = files.settle()
    assert isinstance(saved, Saved), saved
    return saved


def newest_step(files: Checkpoints) -> int | None:
    manifest = files.newest()
    return None if manifest is None else manifest.step


def test_another_machine_finds_the_newest_one_and_reads_it(bucket: Bucket) -> None:
    here = Checkpoints(bucket.url)
    for step in (1, 2, 3):
        assert save(here, step, float(step)).path == f"{bucket.url}/step-{step:010d}"
    there, parts = Checkpoints(bucket.url + "/"), parts_with(9.0)
    manifest = there.newest()
    assert manifest is not None
    assert manifest.step == 3
    there.load(manifest, parts)
    assert weight(parts) == weight(parts_with(3.0))
    steps = ("step-0000000002", "step-0000000003")
    assert bucket.names() == {*steps, *(f"{step}.json" for step in steps)}, "the oldest is gone, the others are whole"


def test_nothing_of_what_was_copied_stays_on_the_machine(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    files = Checkpoints(bucket.url)
    save(files, 1, 1.0)
    manifest = files.newest()
    assert manifest is not None
    assert len(list(tmp_path.iterdir())) == 1
    files.load(manifest, parts_with(2.0))
    assert list(tmp_path.iterdir()) == []
    bucket.replace(bucket.keys("step-0000000001/")[0], lambda content: content + b"!")
    assert files.newest() is None
    assert list(tmp_path.iterdir()) == [], "the copy of a damaged checkpoint is removed too"


@pytest.mark.parametrize("damage", ["flip", "cut", "missing file", "bad manifest", "no manifest"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(bucket: Bucket, damage: str) -> None:
    files = Checkpoints(bucket.url)
    save(files, 1, 1.0)
    save(files, 2, 2.0)
    data = next(key for key in bucket.keys("step-0000000002/") if key.endswith(".bin"))
    manifest = f"{bucket.prefix}/step-0000000002.json"
    match damage:
        case "flip":
            bucket.replace(data, lambda content: content[:-1] + bytes([content[-1] ^ 1]))
        case "cut":
            bucket.replace(data, lambda content: content[:-1])
        case "missing file":
            bucket.delete(data)
        case "bad manifest":
            bucket.replace(manifest, lambda content: content[: len(content) // 2])
        case "no manifest":
            bucket.delete(manifest)
    assert newest_step(Checkpoints(bucket.url)) == 1


def test_a_step_written_again_replaces_the_damaged_one_in_one_write(bucket: Bucket) -> None:
    files = Checkpoints(bucket.url)
    save(files, 2, 2.0)
    bucket.replace(bucket.keys("step-0000000002/")[0], lambda content: content + b"!")
    assert newest_step(files) is None
    assert save(files, 2, 4.0).path.endswith("step-0000000002.1")
    again, parts = Checkpoints(bucket.url), parts_with(1.0)
    manifest = again.newest()
    assert manifest is not None
    again.load(manifest, parts)
    assert weight(parts) == weight(parts_with(4.0))
    assert bucket.names() == {"step-0000000002.1", "step-0000000002.json"}
    assert save(files, 2, 5.0).path.endswith("step-0000000002")


def test_what_a_run_did_not_finish_is_swept(bucket: Bucket) -> None:
    files = Checkpoints(bucket.url)
    save(files, 1, 1.0)
    bucket.client.put_object(Bucket=BUCKET, Key=f"{bucket.prefix}/step-0000000007/shard-00000.bin", Body=b"half")
    bucket.client.put_object(Bucket=BUCKET, Key=f"{bucket.prefix}/notes.txt", Body=b"somebody's")
    files.sweep()
    assert bucket.names() == {"step-0000000001", "step-0000000001.json", "notes.txt"}


def test_a_place_that_is_not_there_is_told_and_costs_nothing_else(bucket: Bucket) -> None:
    files = Checkpoints("s3://nobody-has-this-bucket/jobs/1")
    assert files.newest() is None
    files.begin(parts_with(1.0).capture(1))
    outcome = files.settle()
    assert isinstance(outcome, NotSaved)
    assert "bucket" in outcome.reason.lower()


@pytest.mark.parametrize("url", ["nonsense://bucket/job", "s4://bucket/job"])
def test_a_url_of_an_unknown_kind_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="fsspec"):
        Checkpoints(url)


def test_a_file_url_is_a_directory(tmp_path: Path) -> None:
    save(Checkpoints(f"file://{tmp_path}"), 1, 1.0)
    assert newest_step(Checkpoints(tmp_path)) == 1


@pytest.mark.parametrize(
    ("strategy", "before", "after"), [("ddp", ["w0"], ["w0", "w1"]), ("fsdp2", ["w0", "w1"], ["w0"])]
)
def test_a_run_is_suspended_into_a_bucket_and_goes_on_in_another_width(
    launch: Callable[..., Agent], bucket: Bucket, strategy: str, before: list[str], after: list[str]
) -> None:
    plain = launch("--steps", "24")
    plain.start("w0")
    agent = launch("--steps", "24", "--sleep", "0.02", "--strategy", strategy)
    agent.checkpoints, agent.env = bucket.url, bucket.env
    agent.start(*before)
    agent.wait_joined()
    for worker in before:
        agent.send(worker, SuspendOrder())
    assert {one["code"] for one in agent.wait_exits()} == {0}, agent.errors()
    step = agent.heard(StateSuspended)[0].step
    assert step == max(curve(agent)) + 1 < 24
    assert agent.heard(CheckpointSaved)[-1].path.startswith(f"{bucket.url}/step-")
    agent.start(*after)
    assert {one["code"] for one in (*agent.wait_exits(), *plain.wait_exits())} == {0}, agent.errors()
    assert_same_curve(agent, plain)
