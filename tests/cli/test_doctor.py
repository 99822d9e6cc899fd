"""``penstock doctor`` and ``penstock signatures`` as they are typed: for logs without any server, and for jobs."""

import io
from pathlib import Path

import pytest

from penstock.core import InputError, Remedy
from penstock.diagnose import Category, add_signature, catalogue_with
from tests.cli.conftest import Penstock
from tests.control.build import Platform

OOM = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
NEW = {
    "id": "site.badge.1",
    "category": "site.badge",
    "regex": "badge reader (offline|gone)",
    "anchors": ("badge reader",),
    "example": "E: badge reader offline",
}
SITE = Category(name="site.badge", group="infrastructure", cause="no badge", fix="Get one", action=Remedy.RETRY)
ADD = (
    "signatures", "add", "--id", "site.badge.1", "--category", "site.badge", "--regex", "badge reader (offline|gone)",
    "--anchor", "badge reader", "--example", "E: badge reader offline", "--cause", "no badge", "--fix", "Get one",
)  # fmt: skip


def test_a_file_is_diagnosed_in_words_and_as_json(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(f"step 1\n{OOM}")
    told = penstock("doctor", "run.log")
    assert told.code == 0
    assert "category: mem.gpu_oom" in told.out
    assert "run.log:2, rank 1: torch.OutOfMemoryError" in told.out
    assert "similar: https://github.com/" in told.out
    found = penstock("doctor", "run.log", "--json").json()
    assert (found["category"], found["action"], found["culprit"]["rank"]) == ("mem.gpu_oom", "fix_config", 1)
    assert set(found) >= {"category", "confidence", "evidence", "culprit", "action", "cause", "fix", "similar"}


def test_standard_input_and_an_exit_code_are_taken(penstock: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"step 1\n")))
    assert "mem.host_oom" in penstock("doctor", "-", "--exit-code", "-9").out


def test_a_path_that_is_not_there_is_named(penstock: Penstock) -> None:
    ended = penstock("doctor", "logs/no.log")
    assert (ended.code, "logs/no.log: no such file" in ended.err) == (2, True)
    ended = penstock("doctor", "no.log")
    assert (ended.code, "no.log: no such file" in ended.err) == (2, True), "no server is asked for a job of that name"


def test_a_failed_job_is_asked_of_its_server(world: Platform, penstock: Penstock) -> None:
    job = world.submit(name="night-run", work=1e6)
    world.passes(2)
    refused = penstock("doctor", job)
    assert (refused.code, "has not failed" in refused.err) == (2, True)
    world.backend.output[f"{job}.1"] = OOM.encode()
    world.backend.fail(f"{job}.1")
    world.passes(2)
    assert penstock("doctor", "night-run", "--json").json()["category"] == "mem.gpu_oom"
    assert "category: mem.gpu_oom" in penstock("show", job).out
    assert "mem.gpu_oom" in penstock("why", job).out


def test_a_signature_is_added_and_used_and_a_bad_one_changes_nothing(penstock: Penstock, tmp_path: Path) -> None:
    assert penstock(*ADD).code == 0
    (tmp_path / "run.log").write_text("E: badge reader gone\n")
    assert "category: site.badge" in penstock("doctor", "run.log").out
    kept = (tmp_path / "data" / "signatures.toml").read_text()
    assert "is taken" in penstock(*ADD).err
    assert (tmp_path / "data" / "signatures.toml").read_text() == kept
    tested = penstock("signatures", "test", "--json").json()
    assert tested["faults"] == {}
    assert "site.badge.1" in penstock("signatures", "list", "--category", "site.badge").out
    assert "new" in penstock(*[word.replace("site.badge", "other.kind") for word in ADD[:-4]]).err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"regex": "badge reader ("}, "does not compile"),
        ({"example": "all is well"}, "does not find its example"),
        ({"regex": "badge|reader", "anchors": ()}, "Name anchors"),
        ({"anchors": ("badge",)}, "anchor 'badge'"),
        ({"regex": "badge reader (a+)+$", "example": "badge reader aaaa", "anchors": ()}, "takes more than"),
        ({"example": ""}, "no example"),
    ],
)
def test_what_is_wrong_with_a_signature_is_said(tmp_path: Path, change: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        add_signature(tmp_path, NEW | change, SITE)
    assert not (tmp_path / "signatures.toml").exists()


def test_a_file_of_signatures_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "signatures.toml").write_text("[[signature]\n")
    with pytest.raises(InputError, match=r"signatures\.toml"):
        catalogue_with(tmp_path)


def test_categories_are_listed_with_their_causes(penstock: Penstock) -> None:
    assert "mem.gpu_oom" in penstock("signatures", "list").out
    assert "mem.gpu_oom" in penstock("signatures", "list", "--category", "x.y").err
    assert penstock("signatures", "list", "--category", "mem.shm", "--json").json()


def test_what_is_read_is_said_and_an_empty_word_is_refused(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "req").mkdir()
    (tmp_path / "req" / "rank0.log").write_text("step 1")
    assert "reading the logs in the directory req, not a job of that name" in penstock("doctor", "req").err
    assert penstock("doctor", "./req").err == ""
    refused = penstock("doctor", "")
    assert (refused.code, "'' names no job and no path" in refused.err) == (2, True)
