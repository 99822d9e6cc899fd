"""Job arrays: one request, a job for each index, all or nothing, and sent again the same jobs."""

import pytest

from penstock.control.state.journal import SetAsideError
from penstock.control.state.store import Principal, Role
from penstock.core import InputError
from penstock.spec import read_array
from penstock.wire import ConflictError, JobPhase, MissingError, ResumeRequest
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


def test_an_array_is_one_line_where_lists_are_grouped(world: Platform) -> None:
    before = world.submit(work=10)
    array = world.platform.submit_array({"name": "train", "work": 10, "at_most": 1}, "1..6", ADMIN)
    after = world.submit(work=10)
    page = world.platform.jobs(ADMIN, grouped=True)
    assert [job.id for job in page.jobs] == [after, before]
    (line,) = page.arrays
    assert (line.id, line.name, line.jobs, sum(line.states.values())) == (array.id, "train", 6, 6)
    assert page.jobs[0].number > line.number > page.jobs[1].number
    world.passes(30)
    stored = world.platform.jobs(ADMIN, grouped=True)
    assert [job.id for job in stored.jobs] == [after, before]
    assert sum(stored.arrays[0].states.values()) == 6
    members = world.platform.jobs(ADMIN, array="train" if stored.arrays[0].states.get("finished", 0) < 6 else array.id)
    assert [job.id for job in members.jobs] == array.jobs[::-1]


def test_a_grouped_list_is_turned_line_by_line(world: Platform) -> None:
    """However few lines a page has, every job and every array comes once."""
    expected = []
    for number in range(3):
        expected.append(world.platform.submit_array({"name": f"a{number}", "work": 10}, "1..7", ADMIN).id)
        expected.append(world.submit(work=10))
    for _ in range(2):
        met, cursor = [], None
        while True:
            page = world.platform.jobs(ADMIN, grouped=True, limit=2, cursor=cursor)
            lines = sorted([*page.jobs, *page.arrays], key=lambda line: -line.number)
            met += [line.id for line in lines]
            assert len(lines) <= 2
            if (cursor := page.next) is None:
                break
        assert met == expected[::-1]
        world.journal.publish()


def test_an_array_is_steered_in_one_request_and_one_commit(world: Platform) -> None:
    with serving(world) as served, served.client() as client:
        array = client.submit_array({"name": "train", "work": 1000, "at_most": 1}, "1..5")
        client.submit({"name": "other", "work": 1000})
        paused = client.pause_array("train")
        assert (paused.id, paused.states) == (array.id, {"paused": 5})
        assert client.pause_array(array.id).states == {"paused": 5}
        before = world.journal.seq
        assert "paused" not in client.resume_array(array.id, best_effort=True).states
        assert [line.kind for line in world.journal.store.log.read(after=before)].count("Resumed") == 5
        assert client.cancel_array("train").states == {"cancelled": 5}
        assert client.cancel_array(array.id).states == {"cancelled": 5}
        with pytest.raises(ConflictError, match=r"every job of array .* is over"):
            client.pause_array(array.id)
        assert client.array(array.id).jobs == 5
        assert [job.name for job in client.jobs(states=["pending", "running", "asking"]).jobs] == ["other"]


def test_what_is_no_array_of_ones_own_is_unknown(world: Platform) -> None:
    array = world.platform.submit_array({"name": "train", "work": 1000}, "1..2", ADMIN)
    stranger = Principal(id="s", name="s", role=Role.USER, tenant="elsewhere")
    for name in (array.id, "train", "j-nowhere", "%", ""):
        with pytest.raises(MissingError, match="There is no job array"):
            world.platform.cancel_array(name, stranger)
    world.platform.submit_array({"name": "train", "work": 1000}, "1..2", ADMIN)
    with pytest.raises(ConflictError, match="2 arrays are called 'train'"):
        world.platform.cancel_array("train", ADMIN)
    assert world.platform.cancel_array(array.id, ADMIN).states == {"cancelled": 2}


def test_an_array_begins_again_in_directories_of_its_jobs(world: Platform) -> None:
    array = world.platform.submit_array({"name": "train", "work": 1000, "at_most": 1}, "1..2", ADMIN)
    world.platform.pause_array(array.id, ADMIN)
    world.platform.resume_array(array.id, ADMIN, ResumeRequest(from_scratch=True))
    jobs = [job.id for job in world.platform.jobs(ADMIN).jobs]
    places = [world.platform.files.checkpoints(job, ADMIN).place for job in jobs]
    assert places == [str(world.files_at / job / "from-scratch-1") for job in jobs]


def test_an_array_with_a_deadline_that_passed_stays_paused(world: Platform) -> None:
    array = world.platform.submit_array({"name": "train", "work": 10, "within": 500, "at_most": 1}, "1..3", ADMIN)
    world.platform.pause_array(array.id, ADMIN)
    world.clock.time += 1000
    with pytest.raises(ConflictError, match="passed while it was paused"):
        world.platform.resume_array(array.id, ADMIN)
    assert world.platform.array(array.id, ADMIN).states == {"paused": 3}
    resumed = world.platform.resume_array(array.id, ADMIN, ResumeRequest(best_effort=True))
    assert "paused" not in resumed.states
