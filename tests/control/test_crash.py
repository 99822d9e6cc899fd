"""The server dies at every single point between learning something and having done something about it.

A whole life is played once to count the points (each write to the log, each projection, each call to the backend,
before and after), then once more for each point with a crash there and a new server on what is left. Whatever the
point: every job ends as it should, none runs twice, no device is used by two.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from penstock.control.state.entries import Submitted
from penstock.control.state.store import Key
from penstock.wire import JobPhase
from tests.control.build import ADMIN, Platform, platform
from tests.control.fake_backend import Crash

CALLS = ("launch", "resize", "suspend", "stop", "forget")


@dataclass
class Fuse:
    """Counts the points and burns through at one of them, once."""

    at: int = -1
    passed: int = 0
    names: list[str] = field(default_factory=list)

    def point(self, name: str) -> None:
        self.passed += 1
        self.names.append(name)
        if self.passed - 1 == self.at:
            raise Crash(name)

    def guard(self, owner: Any, method: str) -> None:
        """Put a point before and after a method of an object."""
        original: Callable[..., Any] = getattr(owner, method)

        def guarded(*args: Any, **options: Any) -> Any:
            self.point(f"before {method}")
            result = original(*args, **options)
            self.point(f"after {method}")
            return result

        setattr(owner, method, guarded)


class Life:
    """A platform whose server may die at any time, and a person who tries again when it does."""

    def __init__(self, world: Platform, fuse: Fuse) -> None:
        self.world = world
        self.fuse = fuse
        self.ids: dict[str, str] = {}
        for call in CALLS:
            fuse.guard(world.backend, call)
        self._wire()

    def _wire(self) -> None:
        self.fuse.guard(self.world.journal.store.log, "append")
        self.fuse.guard(self.world.journal.store.jobs, "publish")

    def insist(self, action: Callable[[], Any]) -> Any:
        """Do it; if the server dies over it, start the next one and do it again."""
        try:
            return action()
        except Crash:
            self.world.restart()
            self._wire()
            return action()

    def submit(self, name: str, **spec: Any) -> None:
        key = Key(tenant="default", key=name, fingerprint="same")
        request = {"name": name, **spec}
        self.ids[name] = self.insist(lambda: self.world.commands.submit(request, ADMIN, key)).job_id

    def passes(self, seconds: int) -> None:
        for _ in range(seconds):
            self.world.clock.time += 1.0
            self.insist(self.world.step)

    def passes_until_over(self, most: int) -> None:
        for _ in range(most):
            self.passes(1)
            if not self.world.backend.alive() and all(record.over for record in self.world.journal.state.jobs.values()):
                break
        self.passes(2)

    def run_of(self, name: str) -> str:
        return self.world.record(self.ids[name]).run_id


def play(life: Life) -> None:
    """Growing, shrinking, moving, failing, pausing, cancelling, draining; everything ends within its time."""
    backend = life.world.backend
    life.submit("first", work=100)
    life.passes(4)
    life.submit("urgent", work=100, within=200)
    life.submit("doomed", work=100)
    life.passes(4)
    backend.fail(life.run_of("urgent"), save=True)
    life.passes(3)
    life.insist(lambda: life.world.commands.pause(life.ids["first"], ADMIN))
    life.passes(3)
    life.insist(lambda: life.world.commands.cancel(life.ids["doomed"], ADMIN))
    life.passes(2)
    life.insist(lambda: life.world.commands.resume(life.ids["first"], ADMIN))
    life.passes(2)
    if (run := life.run_of("first")) in backend.alive():
        backend.vanish(run)
    life.passes_until_over(200)


def _check(life: Life) -> None:
    world = life.world
    phases = {name: world.phase(job_id) for name, job_id in life.ids.items()}
    assert phases == {"first": JobPhase.FINISHED, "urgent": JobPhase.FINISHED, "doomed": JobPhase.CANCELLED}
    assert world.backend.violations == []
    assert world.backend.alive() == []
    launches = Counter(run for call, run in world.backend.calls if call == "launch")
    assert set(launches) == set(world.backend.all_runs), "a run appeared without a launch"
    kinds = Counter(line.kind for line in world.journal.store.log.read())
    assert kinds[Submitted.__name__] == 3, "a submission was lost or taken twice"
    assert kinds["RunFinished"] == 2
    rows = {row.name: row.state for row in world.journal.store.jobs.page()}
    assert rows == {name: phase.value for name, phase in phases.items()}


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory, where there is one: a database written a hundred times over is mostly waiting for a disk."""
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        yield Path(folder)


def _points(folder: Path) -> list[str]:
    with platform(folder) as world:
        fuse = Fuse()
        life = Life(world, fuse)
        play(life)
        _check(life)
    return fuse.names


def test_a_life_without_a_crash_passes_every_kind_of_point(tmp_path: Path) -> None:
    names = set(_points(tmp_path))
    methods = ("append", "publish", "launch", "suspend", "resize", "forget")
    assert {f"{when} {method}" for when in ("before", "after") for method in methods} <= names


def test_a_crash_at_any_point_loses_nothing_and_runs_nothing_twice(memory: Path) -> None:
    """Nothing lasting happens between the end of one step and the beginning of the next: one of the two is enough."""
    names = _points(memory)
    for at, name in enumerate(names):
        if name.startswith("before") and at and names[at - 1].startswith("after"):
            continue
        folder = memory / f"at-{at}"
        folder.mkdir()
        with platform(folder) as world:
            life = Life(world, Fuse(at))
            play(life)
            try:
                _check(life)
            except AssertionError as error:
                raise AssertionError(f"after a crash at point {at}, {name}: {error}") from error
