"""Replays: of what a simulation made, exactly; of what a platform lived through, well enough."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.control.future.past.reading import read_past
from penstock.control.state.store import History, reading
from penstock.core import InputError
from penstock.simulate import Past, Scenario, parse_shares, replay_past, scenarios_of, what_if
from penstock.wire import PolicyRequest
from tests.control.build import ADMIN, platform
from tests.whatif.build import drawn_jobs, live_through, simulated, simulated_past


@pytest.fixture(scope="module")
def made() -> Past:
    return simulated_past(drawn_jobs(60), "deadline")


@pytest.mark.parametrize("policy", ["deadline", "fifo", "srtf", "elasticflow"])
def test_a_replay_of_a_simulation_is_that_simulation(made: Past, policy: str) -> None:
    """What-if B on a past made under A is simulating B."""
    replayed = replay_past(made, Scenario(policy=policy), validate=True)
    directly = {outcome.id: outcome for outcome in simulated([job.job for job in made.jobs], policy).outcomes}
    assert replayed.outcomes.keys() == directly.keys()
    for job_id, outcome in directly.items():
        again = replayed.outcomes[job_id]
        assert (again.fate, again.promised) == (outcome.fate, outcome.promised), job_id
        assert again.finished_at == pytest.approx(outcome.finished_at, rel=1e-6, nan_ok=True)
        assert again.device_seconds == pytest.approx(outcome.device_seconds, rel=1e-6)


def test_a_simulated_past_calibrates_to_nothing_off(made: Past) -> None:
    study = what_if(made, [Scenario(policy="fifo")])
    assert study.calibration.conclusive
    assert all(abs(error) < 1e-6 for error in study.calibration.errors.values()), study.calibration.errors
    assert [replayed.label for replayed in study.replays] == ["fifo"]


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Past:
    folder = tmp_path_factory.mktemp("lived")
    with platform(folder) as world:
        live_through(world, 100)
        until = world.clock.time
    with reading(f"sqlite:///{folder}/penstock.db") as database:
        return read_past(History(database), 0.0, until)


def test_a_lived_past_is_reproduced_within_five_percent(lived: Past) -> None:
    assert len(lived.jobs) == 100
    study = what_if(lived, [Scenario(policy="fifo"), Scenario(devices="+4")])
    assert study.calibration.doubts == [], study.calibration
    assert all(abs(error) <= 0.05 for error in study.calibration.errors.values()), study.calibration.errors
    more = study.replays[1].figures
    assert more.completion_mean_s < study.baseline.figures.completion_mean_s


def test_a_past_with_a_switch_is_reproduced_from_any_moment_on(tmp_path: Path) -> None:
    """Jobs that were there when the time begins come with the work that was left."""
    with platform(tmp_path) as world:
        live_through(world, 15, seed=5)
        switched_at = world.clock.time
        world.platform.policy.switch(PolicyRequest(policy="fifo", force=True), ADMIN)
        world.passes()
        live_through(world, 15, seed=6)
        until = world.clock.time
    with reading(f"sqlite:///{tmp_path}/penstock.db") as database:
        whole = read_past(History(database), 0.0, until)
        late = read_past(History(database), switched_at - 150.0, until)
    assert whole.policies == "deadline then fifo"
    assert sum(job.carried for job in late.jobs) > 0
    for past in (whole, late):
        errors = what_if(past, [Scenario(policy="fifo")], anyway=True).calibration.errors
        assert all(abs(error) <= 0.05 for error in errors.values()), errors


def test_other_shares_are_those_that_count(made: Past) -> None:
    """Under a policy that goes by fairness, whoever counts for more fares worse by its own measure."""
    even = replay_past(made, Scenario(policy="astraea"))
    uneven = replay_past(made, Scenario(policy="astraea", shares={"vision": 50.0}))
    assert even.figures.fairness != uneven.figures.fairness
    assert even.figures.fairness > 0


def test_what_is_not_reproduced_is_named_and_nothing_is_concluded(made: Past) -> None:
    """A past in which jobs took twice as long as anything in it explains."""
    slow = [
        replace(job, real=replace(job.real, ended_at=job.real.ended_at + 500.0)) if job.real.finished else job
        for job in made.jobs
    ]
    study = what_if(replace(made, jobs=slow), [Scenario(policy="fifo")])
    assert not study.calibration.conclusive
    assert not study.replays
    assert any("mean completion" in doubt for doubt in study.calibration.doubts)
    assert study.calibration.deviations[0].job_id in {job.id for job in made.jobs}
    assert study.calibration.deviations[0].why


def test_a_small_past_is_not_concluded_from() -> None:
    study = what_if(simulated_past(drawn_jobs(8), "fifo"), [Scenario(policy="srtf")])
    assert "fewer than 20" in study.calibration.doubts[0]
    assert not study.replays


def test_jobs_that_came_after_others_come_after_them_again(made: Past) -> None:
    """Under another policy the first ends at another time, and the second comes then."""
    first = made.finished[0]
    second = replace(made.jobs[-1], after=(first.id,), lag_s=5.0)
    replayed = replay_past(replace(made, jobs=[*made.jobs[:-1], second]), Scenario(policy="srtf"))
    ended = replayed.outcomes[first.id].finished_at
    assert ended + 5.0 <= replayed.outcomes[second.id].started_at <= ended + 60.0


def test_a_job_that_failed_fails_when_it_has_done_as_much(made: Past) -> None:
    job = made.finished[0]
    failed = replace(job, undone=0.5 * job.job.work.iterations, real=replace(job.real, ending="failed"))
    replayed = replay_past(replace(made, jobs=[failed, *[each for each in made.jobs if each is not job]]), Scenario())
    assert math.isnan(replayed.outcomes[job.id].finished_at)
    assert 0 < replayed.outcomes[job.id].device_seconds < job.real.device_seconds


def test_bad_scenarios_are_refused() -> None:
    with pytest.raises(InputError, match="Did you mean 'fifo'"):
        Scenario(policy="fifoo")
    with pytest.raises(InputError, match="nothing that should be otherwise"):
        scenarios_of([])
    with pytest.raises(InputError, match=r"\+N or -N devices"):
        Scenario(devices="many")
    with pytest.raises(InputError, match="vision=x"):
        parse_shares("vision=x")
    with pytest.raises(InputError, match="one of them"):
        Scenario(devices="+8", cluster="4x8")
    with pytest.raises(InputError, match="replays a public simulator"):
        Scenario(policy="elasticflow-artifact")
