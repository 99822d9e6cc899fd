"""Another policy while jobs run: nobody loses a job or a promise, and neither refusals nor restarts change anything."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.control.state.entries import Configured
from penstock.control.state.reading import readable
from penstock.control.state.store import Role
from penstock.core import InputError, Verdict
from penstock.wire import ConflictError, ForbiddenError, JobPhase, PolicyRequest, PolicyView
from tests.control.build import ADMIN, Platform, platform


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[tuple[Platform, list[str]]]:
    """Two jobs that run, one of them with a promise, and one that waits."""
    with platform(tmp_path) as world:
        jobs = [world.submit(work=100, within=200, at_least=2), world.submit(work=100), world.submit(work=100)]
        world.passes(3)
        yield world, jobs


def switch(world: Platform, policy: str, **how: object) -> PolicyView:
    return world.platform.policy.switch(PolicyRequest.model_validate({"policy": policy, **how}), ADMIN)


def verdict(world: Platform, job_id: str) -> Verdict | None:
    quote = world.record(job_id).quote
    return quote.verdict if quote is not None else None


def test_a_policy_that_keeps_promises_takes_over_running_jobs(busy: tuple[Platform, list[str]]) -> None:
    world, jobs = busy
    runs = world.backend.alive()
    view = switch(world, "elasticflow")
    assert (view.policy, view.by, view.configured, view.promises) == ("elasticflow", "ada", "deadline", 1)
    assert verdict(world, jobs[0]) is Verdict.PROMISED
    world.passes(2)
    assert set(runs) <= set(world.backend.alive()), "who ran goes on"
    world.passes(200)
    assert {world.phase(job) for job in jobs} == {JobPhase.FINISHED}
    ended = world.record(jobs[0]).ended_at
    assert ended is not None
    assert ended <= world.record(jobs[0]).job.deadline
    assert not any(call == "stop" for call, _ in world.backend.calls)


def test_a_policy_that_would_withdraw_promises_is_refused_and_nothing_changes(
    busy: tuple[Platform, list[str]],
) -> None:
    world, jobs = busy
    before = (world.journal.seq, world.journal.state.settings, world.backend.alive())
    with pytest.raises(ConflictError, match=f"1 promise: {jobs[0]}") as refusal:
        switch(world, "fifo")
    assert "--force" in refusal.value.hint
    assert (world.journal.seq, world.journal.state.settings, world.backend.alive()) == before
    assert verdict(world, jobs[0]) is Verdict.PROMISED


def test_with_force_the_promise_is_withdrawn_and_said_so(busy: tuple[Platform, list[str]]) -> None:
    world, jobs = busy
    view = switch(world, "fifo", force=True)
    assert [(risk.job_id, risk.expected_at) for risk in view.endangered] == [(jobs[0], None)]
    assert verdict(world, jobs[0]) is Verdict.BEST_EFFORT
    assert "withdrawn" in " ".join(note.text for note in world.journal.state.story(world.record(jobs[0])).entries)
    world.passes(200)
    assert {world.phase(job) for job in jobs} == {JobPhase.FINISHED}


@pytest.mark.parametrize("policy", ["edf", "edf-admission", "fifo", "lucid", "srtf", "themis", "tiresias", "yarn-cs"])
def test_policies_of_every_kind_take_over_without_losing_a_job(policy: str, tmp_path: Path) -> None:
    with platform(tmp_path) as world:
        jobs = [world.submit(work=60, within=300), world.submit(work=60), world.submit(work=60)]
        world.passes(2)
        switch(world, policy, force=True)
        world.passes(160, every=4.0)
        assert {world.phase(job) for job in jobs} == {JobPhase.FINISHED}


def test_what_was_chosen_outlasts_restarts_until_the_configuration_changes(
    busy: tuple[Platform, list[str]],
) -> None:
    world, jobs = busy
    switch(world, "edf-admission", slot="5s")
    world.restart()
    view = world.platform.policy.view(ADMIN)
    assert (view.policy, view.slot_s, view.by, view.configured) == ("edf-admission", 5.0, "ada", "deadline")
    assert verdict(world, jobs[0]) is Verdict.PROMISED
    world.restart(policy="elasticflow")
    view = world.platform.policy.view(ADMIN)
    assert (view.policy, view.by, view.configured) == ("elasticflow", None, "elasticflow")
    world.restart()
    assert world.platform.policy.view(ADMIN).policy == "elasticflow"


def test_going_back_to_the_configured_policy_is_no_choice_any_more(busy: tuple[Platform, list[str]]) -> None:
    world, _ = busy
    switch(world, "elasticflow")
    switch(world, "deadline")
    settings = world.journal.state.settings
    assert settings is not None
    assert settings.instead_of is None
    world.restart(policy="elasticflow")
    assert world.platform.policy.view(ADMIN).policy == "elasticflow"


def test_a_switch_is_in_the_log_and_in_the_audit(busy: tuple[Platform, list[str]]) -> None:
    world, _ = busy
    switch(world, "srtf:order=device-time", force=True)
    told = [entry for entry in readable(world.journal.store.log.read()) if isinstance(entry, Configured)]
    assert [(entry.policy, entry.by) for entry in told] == [("deadline", ""), ("srtf:order=device-time", "ada")]
    world.platform.audit.flush()
    actions = [entry.action for entry in world.platform.administration.audit(
        ADMIN, before=None, limit=10, action=None
    ).entries]  # fmt: skip
    assert "switch policy" in actions


def test_parameters_are_shown_with_their_values(busy: tuple[Platform, list[str]]) -> None:
    world, _ = busy
    view = switch(world, "srtf:order=device-time", force=True)
    assert {each.name: (each.value, each.default) for each in view.parameters}["order"] == ("device-time", "time")
    assert (view.written, view.keeps_promises) == ("srtf:order=device-time", False)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"policy": "fifoo"}, "Did you mean 'fifo'"),
        ({"policy": "srtf:ordr=time"}, "Did you mean 'order'"),
        ({"policy": "srtf:order=size"}, "time or device-time"),
        ({"policy": "elasticflow-artifact"}, "exists in simulations only"),
        ({"policy": "mine.py:Mine"}, "code of somebody's own"),
        ({"policy": "fifo", "slot": "soon"}, "soon"),
    ],
)
def test_bad_names_and_parameters_change_nothing(
    wanted: dict[str, object], said: str, busy: tuple[Platform, list[str]]
) -> None:
    world, _ = busy
    before = world.journal.seq
    with pytest.raises(InputError, match=said):
        world.platform.policy.switch(PolicyRequest.model_validate(wanted), ADMIN)
    assert world.journal.seq == before


def test_only_admins_switch(busy: tuple[Platform, list[str]]) -> None:
    world, _ = busy
    with pytest.raises(ForbiddenError):
        world.platform.policy.switch(PolicyRequest(policy="fifo"), replace(ADMIN, role=Role.USER))
