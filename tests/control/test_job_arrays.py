"""Job arrays: one request, a job for each index, all or nothing, and sent again the same jobs."""

import pytest

from penstock.control.state.journal import SetAsideError
from penstock.core import InputError
from penstock.spec import read_array
from penstock.wire import ConflictError, JobPhase
from tests.control.build import ADMIN, Platform
from tests.control.serving import serving


@pytest.mark.parametrize(("text", "first", "last"), [("1..500", 1, 500), (" 0 .. 0 ", 0, 0), ("7..9", 7, 9)])
def test_indices(text: str, first: int, last: int) -> None:
    assert list(read_array(text)) == list(range(first, last + 1))


@pytest.mark.parametrize("text", ["", "5", "1..", "9..1", "1..1001", "-1..4", "a..b", "1..99999999999", 5])
def test_what_is_no_array_is_refused(text: object) -> None:
    with pytest.raises(InputError, match="is not a job array"):
        read_array(text)


def test_a_job_for_each_index_in_one_commit(world: Platform) -> None:
    before = world.journal.seq
    answer = world.platform.submit_array({"name": "train", "work": 10, "at_most": 1}, "3..6", ADMIN)
    assert answer.jobs == [f"{answer.id}-{index}" for index in (3, 4, 5, 6)]
    kinds = [line.kind for line in world.journal.store.log.read(after=before)]
    assert kinds == ["Submitted"] * 4 + ["Decided"]
    world.passes(110)
    for index, job_id in zip((3, 4, 5, 6), answer.jobs, strict=True):
        record = world.record(job_id)
        assert world.phase(job_id) is JobPhase.FINISHED
        assert record.submission.name == f"train-{index}"
        assert dict(record.recipe.env)["PENSTOCK_ARRAY_INDEX"] == str(index)
        assert record.recipe.checkpoint_dir == f"/checkpoints/{job_id}"


def test_all_or_nothing(world: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError):
        world.platform.submit_array({"name": "train", "colour": "red"}, "1..4", ADMIN)
    with pytest.raises(InputError, match="at most 63 characters"):
        world.platform.submit_array({"name": "t" * 62}, "1..4", ADMIN)
    sound = world.journal.state.apply

    def apply(entry: object) -> None:
        if getattr(entry, "name", "") == "train-3":
            raise RuntimeError("not three")
        sound(entry)  # type: ignore[arg-type]

    monkeypatch.setattr(world.journal.state, "apply", apply)
    with pytest.raises(SetAsideError, match="so none was: RuntimeError: not three"):
        world.platform.submit_array({"name": "train"}, "1..4", ADMIN)
    assert world.journal.state.jobs == {}
    world.restart()
    assert world.journal.state.jobs == {}


def test_the_same_request_again_is_the_same_array(world: Platform) -> None:
    with serving(world) as served, served.client() as client:
        first = client.submit_array({"name": "train", "work": 10}, "1..3", key="once")
        again = client.submit_array({"name": "train", "work": 10}, "1..3", key="once")
        assert (again.jobs, first.again, again.again) == (first.jobs, False, True)
        with pytest.raises(ConflictError, match="was used for another job"):
            client.submit_array({"name": "train", "work": 10}, "1..4", key="once")
        listed = {job.name: job.id for job in client.jobs().jobs}
        assert listed == {f"train-{index}": job_id for index, job_id in zip((1, 2, 3), first.jobs, strict=True)}
        with pytest.raises(InputError, match="is not a job array"):
            client.submit_array({"work": 10}, "1..5000")
