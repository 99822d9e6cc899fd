"""What a run does because it was told to is not taken for a misfortune."""

from pathlib import Path

from penstock.core import ReportKind
from tests.control.build import platform


def test_a_worker_that_was_told_to_go_keeps_its_name_for_the_next_world(tmp_path: Path) -> None:
    """A restart ends everyone and starts those who stay under their names; only so can the next change be in place."""
    with platform(tmp_path) as world:
        job = world.submit(work=100)
        world.passes()
        workers = world.record(job).workers
        said = {"worker": workers[0].id, "code": 143, "signal": 15}
        world.backend.tell(f"{job}.1", ReportKind.WORKER_EXITED, reason="asked", **said)
        world.passes()
        assert world.record(job).workers == workers
        world.backend.tell(f"{job}.1", ReportKind.WORKER_EXITED, reason="died", **said)
        world.passes()
        assert world.record(job).workers == workers[1:]
