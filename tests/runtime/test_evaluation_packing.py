"""How evaluations are packed: every sample once, never far from what is possible, never worse for knowing more."""

import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import EvaluationSet, InputError
from penstock.runtime.evaluation.evaluation_files import KnownTimes
from penstock.runtime.evaluation.expected_times import expected_times
from penstock.runtime.evaluation.packing import PIECES, SetTime, bound, pack, play

SECONDS = st.floats(0.0, 1e4, allow_nan=False)


@st.composite
def data_sets(draw: st.DrawFn) -> list[SetTime]:
    return [
        SetTime(
            name=f"set-{number}", device_s=draw(SECONDS), metric_s=draw(st.just(0.0) | SECONDS),
            samples=draw(st.none() | st.integers(1, 10_000)), by_shard=draw(st.booleans()),
        )
        for number in range(draw(st.integers(0, 12)))
    ]  # fmt: skip


@given(data_sets(), st.integers(1, 40))
def test_every_sample_of_every_data_set_is_evaluated_once(sets: list[SetTime], devices: int) -> None:
    packed = pack(sets, devices)
    for each in sets:
        pieces = sorted((shard.start, shard.stop) for shard in packed.shards if shard.set == each.name)
        if each.samples is None:
            assert pieces == [(0, None)]
        else:
            edges = [0, *(stop for _, stop in pieces)]
            assert [start for start, _ in pieces] == edges[:-1]
            assert edges[-1] == each.samples
            assert all(start < (stop or 0) for start, stop in pieces)
    assert Counter(shard.set for shard in packed.shards).keys() == {each.name for each in sets}
    assert sum(shard.weight for shard in packed.shards) == sum(each.samples or 1 for each in sets)


@given(data_sets(), st.integers(1, 40), st.floats(0.0, 100.0), st.none() | st.integers(1, 8))
def test_the_plan_is_between_the_bound_and_what_longest_first_guarantees(
    sets: list[SetTime], devices: int, load_s: float, processors: int | None
) -> None:
    packed = pack(sets, devices, load_s=load_s, processors=processors)
    tails = {each.name: 0.0 if each.by_shard else each.metric_s for each in sets}
    assert packed.makespan_s >= bound(sets, devices, load_s=load_s, processors=processors) * (1 - 1e-9)
    assert packed.makespan_s == play(packed.shards, tails, devices, load_s=load_s, processors=processors)
    largest = max((shard.device_s for shard in packed.shards), default=0.0)
    on_devices = load_s + sum(each.device_s for each in sets) / devices + largest * (1 - 1 / devices)
    steps = [*tails.values(), *(shard.metric_s for shard in packed.shards)]
    behind = sum(steps) if processors else max(steps, default=0.0)
    assert packed.makespan_s <= (on_devices + behind) * (1 + 1e-9) + 1e-9


@given(data_sets(), st.integers(1, 16))
def test_without_tails_it_is_within_four_thirds_of_the_optimum(sets: list[SetTime], devices: int) -> None:
    bare = [SetTime(name=each.name, device_s=each.device_s, samples=each.samples) for each in sets]
    packed = pack(bare, devices)
    pieces = sorted((shard.device_s for shard in packed.shards), reverse=True)
    of_two = pieces[devices - 1] + pieces[devices] if len(pieces) > devices else 0.0
    optimum = max(sum(pieces) / devices, max(pieces, default=0.0), of_two)
    rounding = max((each.device_s / (each.samples or math.inf) for each in bare), default=0.0)
    assert packed.makespan_s <= (4 / 3) * optimum + rounding + 1e-9


@given(st.integers(1, 32), st.integers(1, 20))
def test_equal_data_sets_that_can_be_split_leave_no_device_idle_for_long(devices: int, many: int) -> None:
    sets = [SetTime(name=f"set-{number}", device_s=60.0, samples=10_000) for number in range(many)]
    assert pack(sets, devices).makespan_s <= (1 + 1 / PIECES) * 60.0 * many / devices * (1 + 1e-3)


def test_what_has_a_long_tail_on_the_processor_goes_first() -> None:
    sets = [SetTime(name="long", device_s=90.0), SetTime(name="code", device_s=10.0, metric_s=80.0)]
    packed = pack(sets, 1)
    assert [shard.set for shard in packed.shards] == ["code", "long"]
    assert packed.makespan_s == packed.bound_s == 100.0
    assert play(tuple(reversed(packed.shards)), {"code": 80.0}, 1) == 180.0


def test_a_metric_step_that_can_be_split_is_done_beside_the_next_shards() -> None:
    whole = SetTime(name="code", device_s=100.0, metric_s=100.0, samples=1000)
    assert pack([whole], 1).makespan_s == 200.0
    split = pack([replace(whole, by_shard=True)], 1)
    assert (len(split.shards), split.makespan_s) == (PIECES, 125.0)
    assert sum(shard.metric_s for shard in split.shards) == pytest.approx(100.0)


@pytest.mark.parametrize(("devices", "load_s"), [(0, 0.0), (1, -1.0), (1, math.inf)])
def test_what_cannot_be_packed_is_refused(devices: int, load_s: float) -> None:
    with pytest.raises(InputError, match="at least one device"):
        pack([], devices, load_s=load_s)
    with pytest.raises(InputError, match="two data sets of one name"):
        pack([SetTime(name="arc", device_s=1.0), SetTime(name="arc", device_s=2.0)], 1)
    with pytest.raises(InputError, match="0 or more seconds"):
        SetTime(name="arc", device_s=-1.0)
    with pytest.raises(InputError, match="at least 1"):
        SetTime(name="arc", device_s=1.0, samples=0)


def test_times_are_those_of_the_last_evaluation_and_of_its_like_where_a_data_set_is_new() -> None:
    known = KnownTimes(
        load_s=5.0,
        sets=(
            SetTime(name="arc", device_s=100.0, metric_s=10.0, samples=1000),
            SetTime(name="gone", device_s=30.0, samples=100),
            SetTime(name="code", device_s=50.0, metric_s=500.0, samples=100),
        ),
    )
    wanted = [EvaluationSet(name="arc", samples=2000), EvaluationSet(name="new", samples=10)]
    times = expected_times(wanted, known)
    assert times.load_s == 5.0
    assert times.of("arc") == SetTime(name="arc", device_s=200.0, metric_s=20.0, samples=2000)
    assert times.of("new") == SetTime(name="new", device_s=3.0, metric_s=0.1, samples=10)
    assert expected_times(wanted, KnownTimes()).of("arc") == SetTime(name="arc", device_s=2000.0, samples=2000)
