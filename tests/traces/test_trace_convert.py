"""How records become jobs, and what is drawn on the way."""

from collections import Counter
from dataclasses import replace

import pytest

from penstock.core import BestEffort, Deadline, InputError, TraceError, UnknownNameError
from penstock.simulate.traces import Profiles, TraceJob, jobs_of, to_job, with_deadline, with_model

KNOWN = TraceJob(
    id="a", submitted_at=5, devices=2, duration_s=10, iterations=170, model="small", batch=32, deadline=99, tenant="lab"
)  # fmt: skip
BARE = TraceJob(id="p", submitted_at=100, devices=4, duration_s=60)


def _bare(count: int, devices: int = 4) -> list[TraceJob]:
    return [replace(BARE, id=f"p-{n}", devices=devices) for n in range(count)]


def test_everything_known_is_kept(profiles: Profiles) -> None:
    job = to_job(KNOWN, profiles)
    assert (job.id, job.tenant, job.submitted_at, job.requested) == ("a", "lab", 5, 2)
    assert (job.work.iterations, job.goal, job.model, job.batch) == (170, Deadline(99), "small", 32)
    assert job.at_most is None


def test_iterations_follow_from_duration_interpolating_the_curve(profiles: Profiles) -> None:
    job = to_job(replace(KNOWN, devices=3, iterations=None), profiles)
    assert job.work.iterations == pytest.approx(10 * 24.0)


def test_duration_follows_from_iterations(profiles: Profiles) -> None:
    assert with_model(replace(KNOWN, duration_s=None, iterations=180), profiles).duration_s == 10


def test_iterations_alone_are_enough_even_where_the_request_cannot_run(profiles: Profiles) -> None:
    record = TraceJob(id="w", submitted_at=0, devices=1, iterations=50, model="wide", batch=128)
    assert to_job(record, profiles).work.iterations == 50
    with pytest.raises(TraceError, match="'w' has no duration to draw a deadline from"):
        to_job(record, profiles, deadlines=(1, 2))


def test_jobs_with_the_same_model_and_batch_share_one_curve(profiles: Profiles) -> None:
    first, second = jobs_of([KNOWN, replace(KNOWN, id="b")], profiles)
    assert first.curve is second.curve


def test_a_drawn_profile_runs_on_the_requested_devices(profiles: Profiles) -> None:
    assert {job.model for job in jobs_of(_bare(50, devices=1), profiles)} == {"small"}
    drawn = Counter((job.model, job.batch) for job in jobs_of(_bare(600), profiles))
    assert set(drawn) == set(profiles.curves)
    assert min(drawn.values()) > 150


def test_a_model_without_batch_gets_one_of_its_own(profiles: Profiles) -> None:
    record = replace(BARE, model="small")
    drawn = {with_model(replace(record, id=str(n)), profiles).batch for n in range(40)}
    assert drawn == {32, 64}


def test_draws_depend_on_seed_and_id_alone(profiles: Profiles) -> None:
    def draw(seed: int) -> list[tuple[str, int, float]]:
        jobs = jobs_of(_bare(40), profiles, seed=seed, deadlines=(0.5, 1.5))
        return [(job.model, job.batch, job.deadline) for job in jobs]

    backwards = jobs_of(_bare(40)[::-1], profiles, deadlines=(0.5, 1.5))
    assert draw(0) == draw(0) == [(job.model, job.batch, job.deadline) for job in backwards][::-1]
    assert draw(0) != draw(1)


def test_drawn_deadlines_lie_within_the_bounds(profiles: Profiles) -> None:
    slacks = [(job.deadline - 100) / 60 for job in jobs_of(_bare(500), profiles, deadlines=(0.5, 1.5))]
    assert min(slacks) >= 0.5
    assert max(slacks) <= 1.5
    assert sum(slacks) / len(slacks) == pytest.approx(1.0, abs=0.05)


def test_deadlines_are_only_drawn_where_there_is_none(profiles: Profiles) -> None:
    assert to_job(KNOWN, profiles, deadlines=(5, 6)).goal == Deadline(99)
    assert to_job(BARE, profiles).goal == BestEffort()
    assert with_deadline(BARE, (2, 2)).deadline == 220


@pytest.mark.parametrize("bounds", [(0, 1), (2, 1), (-1, 1), (1, float("inf")), (float("nan"), 1)])
def test_impossible_bounds(bounds: tuple[float, float]) -> None:
    with pytest.raises(InputError, match="0 < low <= high"):
        with_deadline(BARE, bounds)


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        (replace(KNOWN, model="smal"), "job 'a': unknown model 'smal'.*Did you mean 'small'"),
        (replace(KNOWN, model="smal", batch=0), "job 'a': unknown model 'smal'"),
        (replace(KNOWN, batch=33), "job 'a': .*batch size 33.*32, 64"),
    ],
)
def test_unknown_profiles_name_the_job(profiles: Profiles, record: TraceJob, complaint: str) -> None:
    with pytest.raises(UnknownNameError, match=complaint):
        to_job(record, profiles)


@pytest.mark.parametrize(
    "record",
    [
        replace(KNOWN, model="wide", batch=128, devices=2, iterations=None),
        replace(KNOWN, model="wide", batch=0, devices=2),
    ],
)
def test_work_cannot_be_derived_where_a_job_cannot_run(profiles: Profiles, record: TraceJob) -> None:
    with pytest.raises(TraceError, match="'a' asks for 2 devices, too few for wide"):
        to_job(record, profiles)


def test_a_record_without_any_amount_of_work(profiles: Profiles) -> None:
    with pytest.raises(TraceError, match="neither a duration nor iterations"):
        to_job(TraceJob(id="n", submitted_at=0), profiles)


def test_caps_bound_the_elastic_width() -> None:
    from penstock.core import Curve
    from penstock.simulate.replicas.elasticflow.caps import A100, cap

    profiles = Profiles("A100", {("bert", 64): Curve.from_table({1: 6.0, 64: 9.0})})
    record = replace(KNOWN, model="bert", batch=64)
    assert to_job(record, profiles, caps=True).at_most == cap(A100, "bert", 64)
