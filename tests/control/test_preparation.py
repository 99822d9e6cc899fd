"""Preparing a job is a state that people see, outside of every request, and survives whatever happens meanwhile."""

from pathlib import Path

import pytest

from penstock.backends import LocalBackend, PreparationError, fake_devices
from penstock.control.state.store import Key
from penstock.core import INTERPRETER, Deadline, Recipe
from penstock.wire import ConflictError, JobPhase
from tests.control.build import ADMIN, Platform
from tests.control.fake_backend import Crash

PACKAGES = ("gear==1.0",)


def story(world: Platform, job: str) -> list[str]:
    return [note.text for note in world.journal.state.story(world.record(job)).entries]


def test_a_job_with_packages_is_there_at_once_and_asks_when_it_is_prepared(world: Platform) -> None:
    job = world.submit(work=50, within=1000, packages=PACKAGES)
    assert world.backend.calls == [], "the request prepared something"
    assert world.phase(job) is JobPhase.PREPARING
    assert world.record(job).quote is None
    world.passes(5)
    assert world.phase(job) is JobPhase.PREPARING
    assert world.journal.state.story(world.record(job)).now == "waiting to be prepared"
    world.prepare()
    assert "packing its bags" in story(world, job)
    world.passes(3)
    assert world.phase(job) is JobPhase.RUNNING
    assert world.record(job).quote is not None
    launched = world.backend.all_runs[f"{job}.1"].launch
    assert ("PREPARED", "yes") in launched.env, "the run starts by the prepared recipe"


def test_what_is_being_done_is_seen_while_it_is_done(world: Platform) -> None:
    seen: list[tuple[str, str]] = []
    prepare = world.backend.prepare

    def slow(recipe: Recipe, tell: object) -> Recipe:
        done = prepare(recipe, tell)  # type: ignore[arg-type]
        record = world.record(job)
        seen.append((world.journal.row(record).state, world.journal.row(record).reason))
        seen.append(("now", world.journal.state.story(record).now))
        return done

    world.backend.prepare = slow  # type: ignore[method-assign]
    job = world.submit(work=50, packages=PACKAGES)
    world.passes(2)
    world.prepare()
    assert seen == [("preparing", "packing its bags"), ("now", "being prepared: packing its bags")]
    assert world.record(job).reason == ""


def test_a_deadline_counts_from_the_submission(world: Platform) -> None:
    begun = world.clock.time
    job = world.submit(work=50, within=1000, packages=PACKAGES)
    world.passes(300)
    world.prepare()
    world.passes(2)
    record = world.record(job)
    assert record.job.goal == Deadline(begun + 1000)
    assert record.job.submitted_at == begun
    assert record.quote is not None
    assert record.quote.finish_at <= begun + 1000
    assert any(text.startswith("prepared after 5m") for text in story(world, job))


def test_a_preparation_that_cannot_succeed_fails_the_job_with_its_last_lines(world: Platform) -> None:
    world.backend.refuse["prepare"] = PreparationError("no such package\nmore", tail=("ERROR: gear", "pip ended"))
    job = world.submit(work=50, packages=PACKAGES)
    world.passes(2)
    world.prepare()
    record = world.record(job)
    assert (world.phase(job), record.reason) == (JobPhase.FAILED, "no such package")
    assert record.tail == ("ERROR: gear", "pip ended")
    assert any("could not be prepared: no such package" in text for text in story(world, job))
    world.backend.refuse.clear()
    world.passes(5)
    assert world.preparations == []


def test_an_unexpected_error_fails_the_job_and_nobody_else(world: Platform) -> None:
    world.backend.refuse["prepare"] = OSError("disk on fire")
    job, other = world.submit(work=50, packages=PACKAGES), world.submit(work=5)
    world.passes(2)
    world.prepare()
    assert (world.phase(job), world.record(job).reason) == (JobPhase.FAILED, "OSError: disk on fire")
    assert world.phase(other) is JobPhase.RUNNING


def test_cancelled_while_it_is_prepared_it_stays_cancelled(world: Platform) -> None:
    job = world.submit(work=50, packages=PACKAGES)
    world.passes(2)
    world.commands.cancel(job, ADMIN)
    assert world.phase(job) is JobPhase.CANCELLED
    world.prepare()
    world.passes(3)
    assert world.phase(job) is JobPhase.CANCELLED
    assert world.backend.all_runs == {}


def test_it_cannot_be_paused_yet(world: Platform) -> None:
    job = world.submit(work=50, packages=PACKAGES)
    with pytest.raises(ConflictError, match="being prepared"):
        world.commands.pause(job, ADMIN)
    assert world.phase(job) is JobPhase.PREPARING


@pytest.mark.parametrize("moment", ["crash_before", "crash_after"])
def test_a_server_that_dies_meanwhile_prepares_again(world: Platform, moment: str) -> None:
    job = world.submit(work=50, within=1000, packages=PACKAGES)
    world.passes(2)
    setattr(world.backend, moment, "prepare")
    with pytest.raises(Crash):
        world.prepare()
    world.restart()
    assert world.phase(job) is JobPhase.PREPARING
    world.passes(2)
    world.prepare()
    world.passes(3)
    assert world.phase(job) is JobPhase.RUNNING


def test_a_snapshot_keeps_it_in_preparation(world: Platform) -> None:
    job = world.submit(work=50, packages=PACKAGES)
    world.passes(2)
    world.journal.keep_snapshot()
    world.restart()
    assert list(world.journal.state.preparing) == [job]
    world.passes(2)
    world.prepare()
    world.passes(3)
    assert world.phase(job) is JobPhase.RUNNING


def test_the_same_key_is_the_same_job_whatever_its_state(world: Platform) -> None:
    key = Key(tenant="default", key="k", fingerprint="f")
    spec = {"work": 50, "packages": PACKAGES}
    first = world.commands.submit(spec, ADMIN, key)
    assert world.commands.submit(spec, ADMIN, key).job_id == first.job_id
    world.passes(2)
    world.prepare()
    again = world.commands.submit(spec, ADMIN, key)
    assert (again.job_id, again.again) == (first.job_id, True)
    assert len(world.journal.state.jobs) == 1


def test_few_are_prepared_at_once_and_all_of_them_in_the_end(world: Platform) -> None:
    jobs = [world.submit(work=5, packages=PACKAGES) for _ in range(5)]
    world.passes(4)
    assert len(world.preparations) == 2
    for _ in range(5):
        world.prepare()
        world.passes(2)
    assert {world.phase(job) for job in jobs} <= {JobPhase.RUNNING, JobPhase.FINISHED, JobPhase.PENDING}


def test_a_quote_prepares_nothing(world: Platform) -> None:
    answer = world.commands.quote({"work": 50, "within": 1000, "packages": PACKAGES}, ADMIN)
    assert answer.finish_at < world.clock.time + 1000
    world.passes(3)
    assert (world.backend.calls, world.preparations, world.journal.state.jobs) == ([], [], {})


def test_the_local_backend_prepares_an_environment_once(tmp_path: Path) -> None:
    package = tmp_path / "gear"
    package.mkdir()
    (package / "pyproject.toml").write_text('[project]\nname = "gear"\nversion = "1.0"\n')
    (package / "gear.py").write_text("TEETH = 12\n")
    backend, told = LocalBackend(tmp_path / "state", fake_devices(1)), []
    recipe = Recipe(command=(INTERPRETER, "train.py"), requirements=(str(package),), working_dir=str(tmp_path))
    ready = backend.prepare(recipe, told.append)
    assert told == [f"installing {package}"]
    assert ready.command[0].startswith(str(tmp_path / "state" / "environments"))
    assert dict(ready.env)["VIRTUAL_ENV"] in ready.command[0]
    assert backend.prepare(recipe, told.append) == ready
    assert backend.prepare(Recipe(command=("./train",)), told.append).command == ("./train",)
    with pytest.raises(PreparationError, match="could not be installed") as refused:
        backend.prepare(Recipe(command=("x",), requirements=("./nowhere",), working_dir=str(tmp_path)), told.append)
    assert any("nowhere" in line for line in refused.value.tail)
