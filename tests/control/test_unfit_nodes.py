"""What the platform makes of checks of nodes: who is drained, who is remembered, and what the job is charged with."""

from pathlib import Path

import pytest

from penstock.control.state.entries import Absence
from penstock.core import FailureReason, Node, ReportKind
from penstock.wire import JobPhase
from tests.control.build import ADMIN, Platform, platform

QUICK = {"level": "quick"}
REASON = "open files: 1024, expected at least 4096"


def nodes(count: int) -> tuple[Node, ...]:
    return tuple(Node(name=f"n{number}", device_count=1) for number in range(count))


def run_of(world: Platform, job: str) -> str:
    return world.record(job).run_id


def fail(world: Platform, job: str, *unfit: str) -> None:
    """Its agent finds nodes unfit, and the run ends without a worker."""
    run_id = run_of(world, job)
    for node in unfit:
        world.backend.tell(run_id, ReportKind.NODE_UNFIT, node=node, level="quick", reason=REASON)
    world.backend.tell(run_id, ReportKind.FAILED, code=69, reason=FailureReason.PREFLIGHT, tail=(REASON,))
    world.backend.all_runs[run_id].alive = False
    world.passes(5)


def known_fit(world: Platform, job: str) -> tuple[str, ...]:
    """What the agent of its run was told."""
    asked = world.backend.all_runs[run_of(world, job)].launch.preflight
    assert asked is not None
    return asked.fit


def test_an_unfit_node_is_drained_and_the_job_is_not_charged(tmp_path: Path) -> None:
    with platform(tmp_path, nodes=nodes(3)) as world:
        job = world.submit(work=1000, at_most=1, preflight=QUICK)
        world.passes(5)
        (bad,) = {worker.node for worker in world.record(job).workers}
        fail(world, job, bad)
        assert world.journal.state.absent == {bad: Absence.DRAINED}
        assert world.phase(job) is JobPhase.RUNNING
        assert bad not in {worker.node for worker in world.record(job).workers}
        assert (world.record(job).failures, world.record(job).unfit_nodes) == (0, 1)
        world.restart()
        shown = {node.name: node.unusable for node in world.platform.nodes(ADMIN)}
        assert shown[bad] == [f"drained: preflight: {REASON}"]
        assert any(REASON in note.text for note in world.platform.why(job, ADMIN).entries)


def test_a_good_check_is_told_to_later_runs_that_ask_for_no_more(tmp_path: Path) -> None:
    with platform(tmp_path, nodes=nodes(4)) as world:
        first = world.submit(work=1000, at_most=1, preflight=QUICK)
        world.passes(2)
        (node,) = {worker.node for worker in world.record(first).workers}
        assert known_fit(world, first) == ()
        world.backend.tell(run_of(world, first), ReportKind.NODE_FIT, node=node, level="quick")
        world.passes(2)
        world.restart()
        assert {one.name: one.checked for one in world.platform.nodes(ADMIN)}[node] == "quick"
        later = [
            world.submit(work=1000, at_most=1, preflight=asked)
            for asked in (QUICK, {"level": "full"}, {**QUICK, "again_after_s": 1.0})
        ]
        world.passes(5)
        assert [known_fit(world, job) for job in later] == [(node,), (), ()]


def test_a_node_that_was_away_is_checked_anew(tmp_path: Path) -> None:
    with platform(tmp_path, nodes=nodes(2)) as world:
        job = world.submit(work=1000, at_most=1, preflight=QUICK)
        world.passes(2)
        (node,) = {worker.node for worker in world.record(job).workers}
        world.backend.tell(run_of(world, job), ReportKind.NODE_FIT, node=node, level="full")
        world.passes(2)
        assert world.journal.state.health.keys() == {node}
        world.platform.drain(node, ADMIN)
        world.platform.undrain(node, ADMIN)
        assert not world.journal.state.health


def test_one_job_has_no_more_than_a_few_nodes_drained(tmp_path: Path) -> None:
    with platform(tmp_path, nodes=nodes(6)) as world:
        job = world.submit(work=1000, at_most=1, preflight=QUICK, retries=0)
        world.passes(5)
        for _ in range(4):
            fail(world, job, *{worker.node for worker in world.record(job).workers})
        assert len(world.journal.state.absent) == 3
        assert world.phase(job) is JobPhase.FAILED
        story = " ".join(note.text for note in world.platform.why(job, ADMIN).entries)
        assert "stays in use: 3 others failed for this job before" in story


def test_the_last_node_is_never_drained(tmp_path: Path) -> None:
    with platform(tmp_path, nodes=nodes(1)) as world:
        job = world.submit(work=1000, at_most=1, preflight=QUICK, retries=0)
        world.passes(5)
        fail(world, job, "n0")
        assert not world.journal.state.absent
        assert world.phase(job) is JobPhase.FAILED


@pytest.mark.parametrize("node", ["elsewhere", ""])
def test_a_node_that_nobody_knows_changes_nothing(world: Platform, node: str) -> None:
    job = world.submit(work=1000)
    world.passes(2)
    before = world.journal.state.absent.copy()
    for kind in (ReportKind.NODE_UNFIT, ReportKind.NODE_FIT):
        world.backend.tell(run_of(world, job), kind, node=node, level="quick", reason=REASON)
    world.passes(2)
    assert world.journal.state.absent == before
    assert not world.journal.state.health
    assert world.phase(job) is JobPhase.RUNNING
