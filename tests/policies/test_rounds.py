"""Gavel, Sia and Pollux: shares by a linear program, options by an integer program, a genetic algorithm; in rounds."""

import itertools
from typing import Any

import numpy as np
import pytest

from penstock.core import Cluster, Curve, InputError, Job, JobFinished, JobSubmitted, MissingExtraError, Scaling, Tick
from penstock.policies import Policy, View, policy_named
from penstock.policies.published import gavel as gavel_module
from penstock.policies.published.gavel import Gavel
from penstock.policies.published.pollux import Pollux, fair_rates
from penstock.policies.published.sia import Sia, _most_gain
from penstock.scheduler import Scheduler
from penstock.scheduler.testing import PolicyConformance
from tests.scheduler.build import job, scheduler
from tests.tools.examples import examples

pytest.importorskip("scipy")


def curve(**rates: dict[int, float]) -> Curve:
    """Iterations per second by kind and devices."""
    return Curve(tuple((kind, Scaling(counts=tuple(at), rates=tuple(at.values()))) for kind, at in rates.items()))


class Seen(Policy):
    """Keeps the view that it is shown and gives nothing."""

    name = "seen"
    summary = "for tests"
    view: View

    def allocate(self, view: View) -> Any:
        self.view = view
        return view.choose(np.full(len(view), -1))


def view_of(*jobs: Job, shape: str = "1x1xV100+1x1xK80", at: float = 0.0) -> View:
    seen = Seen()
    machine = Scheduler(Cluster.parse(shape), seen)
    machine.handle(*(JobSubmitted(0.0, each) for each in jobs), Tick(at))
    return seen.view


def shares(view: View, objective: Any) -> list[list[float]]:
    policy = Gavel(objective)
    return np.round(policy.shares(view, policy.starts(view)), 3).tolist()


FAST_ON_V100 = curve(V100={1: 10.0}, K80={1: 1.0})
EQUAL = curve(V100={1: 3.0}, K80={1: 3.0})


def test_max_min_shares_are_those_worked_out_by_hand() -> None:
    """An equal part of both kinds is 5.5 and 3 iterations/s. The second job has 1 of its own on either kind, so nothing
    is better than all of the V100, 10/5.5, for the first."""
    view = view_of(job("a", curve=FAST_ON_V100), job("b", curve=EQUAL))
    assert shares(view, "max-min") == [[1.0, 0.0], [0.0, 1.0]]
    both = view_of(job("a", curve=FAST_ON_V100), job("b", curve=FAST_ON_V100))
    assert shares(both, "max-min") == [[0.5, 0.5], [0.5, 0.5]]


def test_makespan_shares_end_all_jobs_together() -> None:
    """1,000 and 500 iterations on one kind: 2/3 and 1/3 of the time."""
    one = curve(V100={1: 1.0})
    view = view_of(job("a", 1000.0, curve=one), job("b", 500.0, curve=one), shape="1x1xV100")
    assert shares(view, "makespan") == [[0.667], [0.333]]


def test_finish_time_shares_make_up_for_what_is_past() -> None:
    """Alone on half of a device 100 and 1,000 iterations take 200 and 2,000 s; 100 s are past with nothing done."""
    one = curve(V100={1: 1.0})
    view = view_of(job("a", 100.0, curve=one), job("b", 1000.0, curve=one), shape="1x1xV100", at=100.0)
    ((a,), (b,)) = shares(view, "finish-time")
    rho = [(100.0 + 100.0 / a) / 200.0, (100.0 + 1000.0 / b) / 2000.0]
    least = min(max((100.0 + 100.0 / x) / 200.0, (100.0 + 1000.0 / (1 - x)) / 2000.0) for x in np.arange(0.01, 1, 1e-3))
    assert max(rho) == pytest.approx(least, rel=0.02)


def test_cost_goes_by_progress_per_dollar() -> None:
    """The V100 costs 5.5 times as much: ten times as fast is worth it, equally fast is not."""
    alone = view_of(job("a", curve=FAST_ON_V100))
    assert shares(alone, "cost") == [[1.0, 0.0]]
    assert shares(view_of(job("b", curve=EQUAL)), "cost") == [[0.0, 1.0]]


@pytest.mark.parametrize("objective", ["max-min", "finish-time", "makespan", "cost"])
def test_shares_stay_within_time_and_devices(objective: Any) -> None:
    rng = np.random.default_rng(7)
    jobs = [
        job(f"j{i}", float(rng.integers(100, 10_000)), requested=count, at_least=count, at_most=count,
            curve=curve(A={count: float(rng.uniform(1, 9))}, B={count: float(rng.uniform(1, 9))}))
        for i, count in enumerate(rng.choice([1, 2, 4], 12).tolist())
    ]  # fmt: skip
    view = view_of(*jobs, shape="1x4xA+2x4xB", at=500.0)
    found = np.array(shares(view, objective))
    counts = np.array([each.requested for each in view.jobs])
    assert (found.sum(axis=1) <= 1.001).all()
    assert (counts @ found <= np.array([4, 8]) + 0.01).all()


def test_gavel_serves_jobs_in_proportion_to_their_shares() -> None:
    """Two jobs of one device, 3 : 1 of the work: of eight rounds under makespan six and two."""
    one = curve(V100={1: 1.0})
    machine = scheduler("1x1xV100", "gavel:objective=makespan,round_s=100")
    machine.handle(*(JobSubmitted(0.0, job(name, work, curve=one)) for name, work in (("a", 6e5), ("b", 2e5))))
    held = []
    for at in range(100, 900, 100):
        held.append("a" if machine.devices_of("a") else "b")
        machine.handle(Tick(float(at)))
    assert (held.count("a"), held.count("b")) == (6, 2)


def test_within_a_round_running_jobs_stay_and_newcomers_take_what_is_idle() -> None:
    machine = scheduler("1x2xV100", "gavel")
    one = curve(V100={1: 1.0})
    machine.handle(JobSubmitted(0.0, job("a", 1e6, curve=one)))
    machine.handle(*(JobSubmitted(10.0, job(name, 1e6, curve=one, submitted_at=10.0)) for name in "bc"))
    assert [len(machine.devices_of(name)) for name in "abc"] == [1, 1, 0]
    machine.handle(JobFinished(20.0, "b"))
    assert [len(machine.devices_of(name)) for name in "ac"] == [1, 1]


@pytest.mark.parametrize("seed", range(8))
def test_the_integer_program_is_within_its_gap_of_every_choice_tried(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts, kinds, free = np.array([[1, 2, 4, 1, 2]] * 5), np.array([0, 0, 0, 1, 1]), np.array([5, 3])
    gains, able = rng.uniform(0.1, 1.0, (5, 5)), rng.random((5, 5)) < 0.8
    best = 0.0
    for options in itertools.product(range(-1, 5), repeat=5):
        taken = [(row, option) for row, option in enumerate(options) if option >= 0]
        used = np.bincount([kinds[o] for _, o in taken], [counts[r, o] for r, o in taken], 2)
        if (used <= free).all() and all(able[each] for each in taken):
            best = max(best, sum(gains[each] for each in taken))
    found = _most_gain(gains, able, counts, kinds, free)
    rows = np.flatnonzero(found >= 0)
    assert able[rows, found[rows]].all()
    assert (np.bincount(kinds[found[rows]], counts[rows, found[rows]], 2) <= free).all()
    assert gains[rows, found[rows]].sum() >= best * (1 - 5e-3) - 1e-9


def test_sia_weighs_goodput_in_units_of_each_job_and_a_change_by_its_cost() -> None:
    view = view_of(job("a", curve=curve(V100={1: 4.0, 2: 8.0}, K80={1: 1.0})), shape="1x2xV100+1x1xK80")
    assert Sia().costs(view)[0].tolist() == pytest.approx([4.0**-0.5 + 0.01, 8.0**-0.5 + 0.01, 1.01])


def test_sia_and_pollux_start_on_one_device_and_at_most_double() -> None:
    for policy in ("sia", "pollux"):
        machine = scheduler("1x4", policy)
        machine.handle(JobSubmitted(0.0, job("a", 1e6)))
        held = [len(machine.devices_of("a"))]
        for at in (60.0, 120.0):
            machine.handle(Tick(at))
            held.append(len(machine.devices_of("a")))
        assert held == [1, 2, 4], policy


def test_sia_gives_the_kind_to_the_job_that_gains_most_by_it() -> None:
    machine = scheduler("1x1xV100+1x1xK80", "sia")
    machine.handle(JobSubmitted(0.0, job("b", 1e6, curve=EQUAL)), JobSubmitted(0.0, job("a", 1e6, curve=FAST_ON_V100)))
    assert (machine.devices_of("a"), machine.devices_of("b")) == ((0,), (1,))


def test_pollux_measures_against_a_fair_share() -> None:
    """Two jobs on two V100 and two K80: each has two devices' worth, half of the time of each kind."""
    both = curve(V100={1: 4.0, 2: 6.0}, K80={1: 1.0, 2: 2.0})
    view = view_of(job("a", curve=both), job("b", curve=both), shape="1x2xV100+1x2xK80")
    assert fair_rates(view).tolist() == [4.0, 4.0]


def test_pollux_finds_the_best_of_a_small_world() -> None:
    """A steep and a flat curve, four devices: the best of all combinations is three and one."""
    steep, flat = curve(gpu={1: 1.0, 2: 2.0, 3: 3.0}), curve(gpu={1: 1.0, 2: 1.05, 3: 1.1})
    view = view_of(job("a", curve=steep), job("b", curve=flat), shape="1x4xgpu")
    policy = Pollux()
    worth = policy.worth(view)
    from penstock.policies.published.pollux import _Search

    able = np.ones((2, 3), dtype=bool)
    search = _Search(view, np.arange(2), worth, able, view.capacity, np.random.default_rng(0))
    found = search.best(50, 50)
    allowed = [each for each in itertools.product(range(4), repeat=2) if sum(each) <= 4]
    assert tuple(found) == max(allowed, key=lambda each: worth[0, each[0]] + worth[1, each[1]]) == (3, 1)


class TestOtherObjectives(PolicyConformance):
    """The suite of all policies runs with max-min."""

    examples = examples(8)

    @pytest.fixture(autouse=True, params=["finish-time", "makespan", "cost"])
    def _choose(self, request: pytest.FixtureRequest) -> None:
        self._objective = request.param

    def make(self) -> Gavel:
        return Gavel(self._objective)


@pytest.mark.parametrize(
    "policy", ["gavel:objective=fastest", "sia:power=0.5", "pollux:population=1", "gavel:round_s=0s"]
)
def test_bad_parameters_are_refused_with_what_is_allowed(policy: str) -> None:
    with pytest.raises(InputError, match="Allowed"):
        policy_named(policy)


@pytest.mark.parametrize("name", ["gavel", "sia"])
def test_without_scipy_the_extra_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str, *, extra: str, why: str) -> None:
        raise MissingExtraError(why, module, extra)

    monkeypatch.setattr(gavel_module, "require", missing)
    monkeypatch.setattr("penstock.policies.published.sia.require", missing)
    with pytest.raises(MissingExtraError, match=rf"the policy {name} needs .*pip install .*\[optimum\]"):
        policy_named(name)
