"""What jobs saved: listed, checked, fetched and cleaned up, and nothing else of the disk."""

import hashlib
import json
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.client import Client
from penstock.control.platform import checkpoint_cleaning
from penstock.control.platform.checkpoint_listing import list_checkpoints
from penstock.control.platform.job_files import FilePlaces, open_file
from penstock.core import InputError
from penstock.tools import remove_tree
from penstock.wire import CheckpointList, CleanRequest, ConflictError, MissingError, ResumeRequest
from tests.control.build import ADMIN, Platform
from tests.control.serving import serving, until
from tests.tools.deep import nested


@pytest.fixture
def world(world: Platform, tmp_path: Path) -> Platform:
    world.restart(files_at=tmp_path / "saved")
    return world


def saved(world: Platform, job: str, step: int, content: bytes = b"weights", *, below: str = "") -> Path:
    """A checkpoint as ``penstock.elastic`` writes it."""
    place = world.files_at / job / below / f"step-{step:010d}"
    place.mkdir(parents=True)
    files = {"model.bin": content, "state.json": b"", "extras.bin": b""}
    for name, each in files.items():
        (place / name).write_bytes(each)
    sums = [
        {"name": name, "bytes": len(each), "sha256": hashlib.sha256(each).hexdigest()} for name, each in files.items()
    ]
    manifest = {"step": step, "directory": place.name, "made_at": 1.0, "files": sums}
    place.with_suffix(".json").write_text(json.dumps(manifest))
    return place


def test_checkpoints_are_listed_with_step_size_and_state(world: Platform) -> None:
    job = world.submit(work=400)
    files = world.platform.files
    assert files.checkpoints(job, ADMIN).checkpoints == []
    saved(world, job, 5)
    (saved(world, job, 20) / "model.bin").write_bytes(b"short")
    (saved(world, job, 30) / "model.bin").write_bytes(b"WEIGHTS")
    (saved(world, job, 40) / "model.bin").unlink()
    (world.files_at / job / "epoch-7.ckpt").write_bytes(b"plain")
    (world.files_at / job / ".stop-0-1-53675").write_bytes(b"mark")
    found = {each.step: each for each in files.checkpoints(job, ADMIN).checkpoints}
    assert list(found) == [40, 30, 20, 7, 5]
    assert [each.state for each in found.values()] == ["damaged", "whole", "damaged", "unchecked", "whole"]
    assert (found[20].problem, found[40].problem) == ("model.bin has 5 bytes, not 7", "model.bin is missing")
    assert found[7].bytes == 5
    verified = {each.step: each.problem for each in files.checkpoints(job, ADMIN, verify=True).checkpoints}
    assert (verified[30], verified[5]) == ("model.bin differs from what was written", "")


def test_a_checkpoint_of_an_earlier_format_or_set_aside_is_not_listed_as_whole(world: Platform) -> None:
    job = world.submit(work=400)
    old = saved(world, job, 5).with_suffix(".json")
    manifest = json.loads(old.read_text())
    for file in manifest["files"]:
        file["name"] = file["name"].replace("state.json", ".metadata")
    old.write_text(json.dumps(manifest | {"verified_at": 2.0}))
    for path in (saved(world, job, 7), world.files_at / job / "step-0000000007.json"):
        path.rename(path.with_name(f"unreadable-{path.name}"))
    found = world.platform.files.checkpoints(job, ADMIN).checkpoints
    assert [(each.step, each.state) for each in found] == [(7, "damaged"), (5, "damaged")]
    assert "pickled metadata, which is no longer read" in found[1].problem
    assert "set aside" in found[0].problem


def test_what_was_verified_and_what_lies_in_memory_is_told(world: Platform, tmp_path: Path) -> None:
    job = world.submit(work=400)
    place = saved(world, job, 5).with_suffix(".json")
    place.write_text(json.dumps(json.loads(place.read_text()) | {"verified_at": 2.0}))
    memory = tmp_path / "memory"
    for rank, step in ((0, 9), (1, 9), (0, 8)):
        record = {"set": "s", "rank": rank, "size": 2, "step": step, "bytes": 10, "made_at": 3.0 + step}
        (memory / "s").mkdir(parents=True, exist_ok=True)
        (memory / "s" / f"r0000{rank}.{step % 2}.json").write_text(json.dumps(record))
    for number, nonsense in enumerate(("nonsense", json.dumps(record | {"made_at": 1e300}), '{"step": Infinity}')):
        (memory / "s" / f"r0010{number}.0.json").write_text(nonsense)
    odd = saved(world, job, 4).with_suffix(".json")
    odd.write_text(json.dumps(json.loads(odd.read_text()) | {"verified_at": 1e300}))
    found = list_checkpoints(
        FilePlaces(root=world.files_at, memory_of=lambda run: memory if run.startswith(job) else None),
        world.platform.files._find(job, ADMIN),
    )
    told = [(each.step, each.where, each.state, each.bytes) for each in found.checkpoints]
    assert told[:2] == [(9, "memory", "whole", 20), (8, "memory", "damaged", 10)]
    assert (told[2][:3], found.checkpoints[1].problem) == ((5, "saved", "whole"), "1 of 2 shards are on this machine")
    assert [each.verified_at is not None for each in found.checkpoints] == [False, False, True, False]
    assert "its manifest cannot be read" in found.checkpoints[3].problem


def test_files_are_listed_and_fetched_whole(world: Platform, tmp_path: Path) -> None:
    job = world.submit(work=400, name="night")
    content = os.urandom(3_000_000)
    saved(world, job, 5, content)
    with serving(world) as served, served.client() as client:
        listed = client.files("night")
        assert [(each.path, each.kind) for each in listed.files] == [
            ("step-0000000005", "directory"), ("step-0000000005.json", "file"), ("step-0000000005/extras.bin", "file"),
            ("step-0000000005/model.bin", "file"), ("step-0000000005/state.json", "file"),
        ]  # fmt: skip
        assert client.fetch_file(job, "step-0000000005/model.bin", tmp_path / "copy") == len(content)
        assert (tmp_path / "copy").read_bytes() == content
        assert len(client.files(job, "step-0000000005").files) == 3
        with pytest.raises(MissingError, match="has no file 'nothing'"):
            client.fetch_file(job, "nothing", tmp_path / "other")
        assert not (tmp_path / "other").exists()
        with served.client("eve") as eve, pytest.raises(MissingError, match="There is no job"):
            eve.files(job)


@pytest.mark.parametrize("path", ["../secret", "a/../../secret", "/etc/passwd", "out/secret", "secret", "out", "x/.."])
def test_no_path_leads_out_of_the_directory_of_a_job(world: Platform, path: str) -> None:
    job = world.submit(work=400)
    place = world.files_at / job
    place.mkdir(parents=True)
    (world.files_at / "secret").write_text("of somebody else")
    (place / "out").symlink_to(world.files_at)
    (place / "secret").symlink_to(world.files_at / "secret")
    with pytest.raises((InputError, MissingError)) as caught:
        world.platform.files.read(job, ADMIN, path)
    assert "somebody" not in str(caught.value)
    listed = world.platform.files.files(job, ADMIN).files
    assert {(each.path, each.kind) for each in listed} == {("out", "link"), ("secret", "link")}


def test_only_plain_files_are_read(world: Platform) -> None:
    job = world.submit(work=400)
    (world.files_at / job / "folder").mkdir(parents=True)
    os.mkfifo(world.files_at / job / "pipe")
    for name in ("folder", "pipe"):
        with pytest.raises(InputError, match="not a plain file"):
            world.platform.files.read(job, ADMIN, name)


def test_directories_that_job_files_name_are_looked_into_only_where_jobs_run_here(
    world: Platform, tmp_path: Path
) -> None:
    own, ours = tmp_path / "mine", tmp_path / "data"
    for place in (own, ours):
        place.mkdir()
        (place / "file").write_bytes(b"x")
    named = world.record(world.submit(work=400, dir=str(own)))
    secret = world.record(world.submit(work=400, dir=str(ours)))
    bucket = world.record(world.submit(work=400, dir="s3://bucket/job"))
    places = FilePlaces(root=world.files_at, elsewhere=True, closed=(ours,))
    assert b"".join(open_file(places, named, "file").chunks) == b"x"
    for record, where in ((secret, places), (named, replace(places, elsewhere=False))):
        with pytest.raises(ConflictError, match="where this server does not look"):
            open_file(where, record, "file")
    with pytest.raises(ConflictError, match="saves to s3://bucket/job"):
        open_file(places, bucket, "file")


def test_cleaning_takes_what_is_old_and_large_of_jobs_that_are_over(world: Platform) -> None:
    small, large, going, named = (
        world.submit(work=10), world.submit(work=10), world.submit(work=1e9), world.submit(work=10, dir="/elsewhere"),
    )  # fmt: skip
    for job, size in ((small, 10), (large, 5000), (going, 5000)):
        for step in (1, 2, 3):
            saved(world, job, step, bytes(size))
    for job in (small, large, named):
        world.commands.cancel(job, ADMIN)
    world.clock.time += 100.0
    clean = world.platform.files.clean
    assert clean(CleanRequest(older="1h"), ADMIN).jobs == []
    would = clean(CleanRequest(older="1m", larger="4KB", dry_run=True), ADMIN)
    assert [(job.job_id, len(job.files)) for job in would.jobs] == [(large, 3)]
    assert (world.files_at / large / "step-0000000001").exists()
    went = clean(CleanRequest(older="1m", larger="4KB", keep_last=1), ADMIN)
    assert [job.files for job in went.jobs] == [["step-0000000002", "step-0000000001"]]
    assert went.bytes > 10_000
    assert sorted(path.name for path in (world.files_at / large).iterdir()) == [
        "step-0000000003",
        "step-0000000003.json",
    ]
    assert {job.job_id for job in clean(CleanRequest(older="0s"), ADMIN).jobs} == {small, large}
    assert sorted(path.name for path in world.files_at.iterdir()) == [going]
    audit = world.platform.administration.audit(ADMIN, before=None, limit=100, action="clean")
    assert [entry.target for entry in audit.entries] == ["2 jobs", "1 jobs", "0 jobs"]


def test_a_job_that_began_again_saves_elsewhere_and_is_cleaned_whole(world: Platform) -> None:
    job = world.submit(work=400)
    saved(world, job, 5)
    world.commands.pause(job, ADMIN)
    world.commands.resume(job, ADMIN, ResumeRequest(from_scratch=True))
    saved(world, job, 2, below="from-scratch-1")
    files = world.platform.files
    listed = files.checkpoints(job, ADMIN)
    assert listed.place == str(world.files_at / job / "from-scratch-1")
    assert [each.step for each in listed.checkpoints] == [2]
    assert (world.files_at / job / "step-0000000005").is_dir(), "what was saved before is kept"
    world.commands.cancel(job, ADMIN)
    world.clock.time += 100.0
    files.clean(CleanRequest(older="1m"), ADMIN)
    assert list((world.files_at / job).rglob("step-*")) == []


def test_bad_conditions_clean_nothing(world: Platform) -> None:
    job = world.submit(work=10)
    saved(world, job, 1)
    world.commands.cancel(job, ADMIN)
    for wanted in (CleanRequest(), CleanRequest(older="soon"), CleanRequest(larger="much")):
        with pytest.raises(InputError):
            world.platform.files.clean(wanted, ADMIN)
    assert (world.files_at / job / "step-0000000001").exists()


def test_nobody_cleans_up_after_others(world: Platform) -> None:
    job = world.submit(work=10)
    saved(world, job, 1)
    world.commands.cancel(job, ADMIN)
    with serving(world) as served:
        eve: Client
        with served.client("eve") as eve:
            assert eve.clean(older="0s").jobs == []
    assert (world.files_at / job).exists()


def test_cleaning_removes_a_checkpoint_that_is_a_plain_file_or_a_link_and_nothing_that_a_link_names(
    world: Platform, tmp_path: Path
) -> None:
    job = world.submit(work=10)
    place, outside = saved(world, job, 1).parent, tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"kept")
    (place / "epoch-7.ckpt").write_bytes(b"plain")
    (place / "epoch-8.ckpt").symlink_to(outside)
    world.commands.cancel(job, ADMIN)
    [cleaned] = world.platform.files.clean(CleanRequest(older="0s"), ADMIN).jobs
    assert (cleaned.problem, sorted(cleaned.files)) == ("", ["epoch-7.ckpt", "epoch-8.ckpt", "step-0000000001"])
    assert not place.exists()
    assert (outside / "precious").read_bytes() == b"kept"


def test_a_pipe_among_snapshots_in_memory_is_not_waited_for(world: Platform, tmp_path: Path) -> None:
    record = world.record(world.submit(work=400))
    pipe = tmp_path / "memory" / "s" / "r00000.0.json"
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    places = FilePlaces(root=world.files_at, memory_of=lambda _run: tmp_path / "memory")
    found: list[CheckpointList] = []
    asking = threading.Thread(target=lambda: found.append(list_checkpoints(places, record)), daemon=True)
    asking.start()
    asking.join(10)
    os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))  # lets go of whoever waits
    assert [each.checkpoints for each in found] == [[]]


def test_one_verification_for_each_tenant_which_ends_with_its_client(world: Platform) -> None:
    large, small = world.submit(work=400, tenant="blue"), world.submit(work=400, tenant="blue")
    saved(world, small, 1)
    huge = saved(world, large, 1) / "model.bin"
    os.truncate(huge, 1 << 36)
    manifest = huge.parent.with_suffix(".json")
    said = json.loads(manifest.read_text())
    said["files"][0]["bytes"] = 1 << 36
    manifest.write_text(json.dumps(said))
    path, under_way = "/v1/jobs/{}/checkpoints?verify=true", world.platform.files._verifications._jobs
    with serving(world) as served, served.http("ada") as http:
        with served.connection("ada", path.format(large)):
            until(lambda: large in under_way.values(), "the first to begin")
            answer = http.get(path.format(small))
            assert answer.status_code == 429
            assert f"having checkpoints of job '{large}' verified" in answer.text
            assert http.get(f"/v1/jobs/{large}/checkpoints").status_code == 200
        until(lambda: not under_way, "the end of the first")
        assert http.get(path.format(small)).status_code == 200
        with served.connection("ada", path.format(large)):
            until(lambda: large in under_way.values(), "another to begin")
            world.platform.stopping.set()
            until(lambda: not under_way, "its end with the server")


def test_directories_and_manifests_that_are_too_deep_disturb_nothing_else(world: Platform) -> None:
    deep, whole, link = (world.submit(work=10) for _ in range(3))
    saved(world, whole, 1)
    saved(world, deep, 1)
    manifest = world.files_at / deep / "step-0000000002.json"
    manifest.write_text("[" * 200_000)
    (world.files_at / link).symlink_to(world.files_at / whole)
    nested(world.files_at / deep / "nested", 1200)
    try:
        files = world.platform.files
        listed = files.files(deep, ADMIN)
        assert listed.truncated
        assert max(each.path.count("/") for each in listed.files) == 31
        found = {each.path: each for each in files.checkpoints(deep, ADMIN).checkpoints}
        assert found["step-0000000001"].state == "whole"
        assert "cannot be read: JSON of more than 100 levels" in found["step-0000000002"].problem
        for job in (deep, whole, link):
            world.commands.cancel(job, ADMIN)
        report = {each.job_id: each for each in files.clean(CleanRequest(older="0s"), ADMIN).jobs}
        assert set(report) == {deep, whole}, "a link is no directory of a job"
        assert [each.problem for each in report.values()] == ["", ""]
        assert sorted(path.name for path in world.files_at.iterdir()) == [link]
    finally:
        if (world.files_at / deep).exists():
            remove_tree(world.files_at / deep)


def test_cleaning_names_a_job_that_cannot_be_looked_at_and_goes_on(
    world: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd, whole = world.submit(work=10), world.submit(work=10)
    for job in (odd, whole):
        saved(world, job, 1)
        world.commands.cancel(job, ADMIN)
    monkeypatch.setattr(
        checkpoint_cleaning, "list_checkpoints",
        lambda places, record: list_checkpoints(places, record) if record.id == whole else record.nothing,
    )  # fmt: skip
    report = world.platform.files.clean(CleanRequest(older="0s"), ADMIN)
    problems = {each.job_id: each.problem for each in report.jobs}
    assert problems == {odd: "not looked at: 'JobRecord' object has no attribute 'nothing'", whole: ""}
    assert [path.name for path in world.files_at.iterdir()] == [odd]


def test_a_directory_that_cannot_be_opened_is_said(world: Platform) -> None:
    job = world.submit(work=10)
    world.files_at.mkdir(exist_ok=True)
    (world.files_at / job).write_text("no directory")
    with pytest.raises(ConflictError, match="cannot be opened: Not a directory"):
        world.platform.files.files(job, ADMIN)


def test_what_is_read_of_all_manifests_together_is_bounded(world: Platform) -> None:
    job = world.submit(work=10)
    for step in (1, 2, 3):
        saved(world, job, step).with_suffix(".json").write_bytes(b" " * (12 << 20) + b"[]")
    problems = [each.problem for each in world.platform.files.checkpoints(job, ADMIN).checkpoints]
    assert ["of all manifests" in problem for problem in problems] == [False, False, True]
