"""A job whose devices another run has not left yet says so, and the node lists the run that leaves."""

from penstock.core import ReportKind
from tests.control.build import ADMIN, Platform


def _stubborn(world: Platform) -> str:
    """A cancelled job whose run ignores being stopped."""
    world.backend.total = 10_000
    job = world.submit(name="stubborn", work=1e6)
    world.passes(4)
    world.backend.ignores_stops.add(f"{job}.1")
    world.commands.cancel(job, ADMIN)
    return job


def test_a_job_that_waits_for_a_leaving_run_says_so(world: Platform) -> None:
    gone = _stubborn(world)
    job = world.submit(work=50)
    world.passes(5)
    shown = world.platform.job(job, ADMIN)
    assert (shown.state, shown.reason) == ("pending", f"waiting for devices that {gone} is leaving")
    assert world.platform.why(job, ADMIN).now == shown.reason
    assert world.platform.jobs(ADMIN).jobs[0].state == "pending"
    (node,) = world.platform.nodes(ADMIN)
    assert f"{gone} is leaving (slot 0, 1, 2, 3)" in node.unusable
    world.backend.vanish(f"{gone}.1")
    world.passes(3)
    assert world.platform.job(job, ADMIN).state == "running"
    assert world.platform.nodes(ADMIN)[0].unusable == []


def test_a_cancelled_job_counts_no_more_steps(world: Platform) -> None:
    gone = _stubborn(world)
    before = world.platform.job(gone, ADMIN).progress
    world.passes(3)
    world.backend.tell(f"{gone}.1", ReportKind.PROGRESS, step=900)
    world.passes(3)
    after = world.platform.job(gone, ADMIN).progress
    assert before is not None
    assert after is not None
    assert after.step == before.step
