"""What is seen in runs reaches whoever asks: the story, the details of a job, its hotspots, and the metrics."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.core import Hotspots, OperatorTime, ReportKind, RunWatch, StepTimes, WorkerTimes
from penstock.wire import MissingError
from tests.control.build import Platform
from tests.control.serving import Served, serving

SLOW = "worker w1 on node-0/1 is 1.8x slower than the others in compute since step 50"


@pytest.fixture
def served(world: Platform) -> Iterator[Served]:
    with serving(world) as running:
        yield running


def seen() -> RunWatch:
    times = StepTimes(step=90, steps=10, step_s=0.5, compute_s=0.3, input_s=0.1, wait_s=0.1, samples=8.0)
    spots = Hotspots(
        step=80, steps=3, device="cpu", step_s=0.5, input_s=0.1, host_s=0.1, kernels_s=0.2, communication_s=0.1,
        checkpoint_s=0.0, cost=0.002, operators=(OperatorTime(name="aten::mm", seconds=0.2, calls=4.0),),
    )  # fmt: skip
    workers = (WorkerTimes(worker="w1", rank=1, place="node-0/1", times=times, slower=1.8),)
    return RunWatch(at=1e9, hotspots=spots, workers=workers, stacks="/runs/x/stacks/1")


def tell(world: Platform, job: str, kind: ReportKind, **said: Any) -> list[str]:
    world.backend.tell(f"{job}.1", kind, **said)
    world.passes()
    return [note.text for note in world.record(job).notes]


def test_the_story_tells_what_was_seen_and_details_what_is_still_so(served: Served) -> None:
    world = served.world
    with served.client() as admin:
        job = admin.submit({"name": "night", "work": 100, "within": 5000}).job.id
        world.passes(3)
        assert admin.job(job).notices == []
        assert SLOW in tell(world, job, ReportKind.STRAGGLER, worker="w1", rank=1, step=50, value=1.8, reason=SLOW)
        tell(world, job, ReportKind.STUCK, reason="everybody waits", path="/x")
        tell(world, job, ReportKind.ROLLED_BACK, step=30, reason="back to step 30")
        assert admin.job(job).notices == [SLOW, "back to step 30"], "the run has made steps since it was stuck"
        again = "worker w1 on node-0/1 keeps up with the others again"
        assert again in tell(world, job, ReportKind.STRAGGLER, worker="w1", rank=1, step=50, reason=again)
        assert admin.job(job).notices == ["back to step 30"]
        told = [note.text for note in admin.why(job).entries]
        assert [text for text in told if text in (SLOW, "everybody waits", "back to step 30", again)] == [
            SLOW, "everybody waits", "back to step 30", again,
        ]  # fmt: skip
        assert world.record(job).grant is not None
        world.restart()
        assert SLOW in [note.text for note in world.record(job).notes]


def test_hotspots_are_those_of_the_latest_run_that_was_looked_at(served: Served) -> None:
    with served.client() as admin, served.client("eve") as eve:
        job = admin.submit({"name": "night", "work": 100, "within": 500}).job.id
        served.world.passes(3)
        nothing = admin.hotspots(job)
        assert (nothing.profile, nothing.workers) == (None, [])
        assert "penstock.elastic" in nothing.note
        served.world.backend.watches[f"{job}.1"] = seen()
        found = admin.hotspots(job)
        assert found.profile is not None
        assert (found.run_id, found.profile.kernels_s, found.profile.operators[0].name) == (f"{job}.1", 0.2, "aten::mm")
        assert [(one.worker, one.slower, one.wait_s) for one in found.workers] == [("w1", 1.8, 0.1)]
        assert (found.stacks, found.note) == ("/runs/x/stacks/1", "")
        with pytest.raises(MissingError):
            eve.hotspots(job)
