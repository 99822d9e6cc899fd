"""A plan for every number of devices: as curves, for our trainer, and kept between requests."""

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.core import Curve, CurveError, PlanError, Scaling, Source, UnknownNameError, build, plain
from penstock.parallel import (
    CountedPlan,
    DevicePool,
    PlanLibrary,
    PlanQuestion,
    family_named,
    plans_by_count,
    scaling_of,
    trainable,
    trainable_plans,
    trainer_options,
)
from penstock.parallel.families import decoder_only

TINY = decoder_only("gpt-tiny", hidden=64, layers=2, heads=4, vocabulary=256, tokens=32)


@pytest.fixture(scope="module")
def found() -> dict[int, CountedPlan]:
    pool = DevicePool(kind="a100", per_node=4)
    return plans_by_count("gpt-350m", pool, (1, 2, 3, 4, 6, 8), batch=24, seconds_per_count=0.05)


def test_each_count_has_a_plan_for_so_many_devices(found: dict[int, CountedPlan]) -> None:
    assert {count: one.plan.devices for count, one in found.items()} == {count: count for count in found}
    assert {1, 2, 4, 8} <= set(found)
    assert found[8].step_s < found[1].step_s
    assert all(one.doubt == 0.25 for one in found.values())


def test_the_curve_carries_the_plans_and_survives_the_log(found: dict[int, CountedPlan]) -> None:
    scaling = scaling_of(found)
    assert scaling.source is Source.PREDICTED
    assert scaling.rates[0] == pytest.approx(1 / found[1].step_s)
    assert scaling.plan(4) == found[4].plan
    assert scaling.plan(5) is None
    assert build(Scaling, plain(scaling)) == scaling
    curve = Curve((("a100", scaling),))
    assert {count for count, _ in curve.levels("a100")} <= set(found), "only counts that have a plan are offered"


def test_a_plan_for_another_count_is_no_point_of_a_curve(found: dict[int, CountedPlan]) -> None:
    with pytest.raises(CurveError, match="plans for"):
        Scaling(counts=(1, 2), rates=(1.0, 2.0), plans=(found[1].plan, found[4].plan))


def test_nothing_fits_says_how_much_is_missing() -> None:
    with pytest.raises(PlanError, match=r"gpt-2.6b does not fit.*too much"):
        plans_by_count("gpt-2.6b", DevicePool(kind="t4"), (1,), batch=8, seconds_per_count=0.05)
    with pytest.raises(UnknownNameError, match=r"gpt-1\.3b"):
        plans_by_count("gpt-1.4b", "a100", (1,), batch=8)
    with pytest.raises(UnknownNameError, match="device"):
        plans_by_count("gpt-350m", "x1", (1,), batch=8)


def test_less_memory_than_the_data_sheet_is_respected() -> None:
    """The same model on a quarter of the memory: recomputed or sharded more, or refused."""
    little = DevicePool(kind="a100", memory_bytes=8e9)
    plans = plans_by_count("gpt-350m", little, (2, 4), batch=8, seconds_per_count=0.05)
    assert all(any(stage.recompute[1] for stage in one.plan.stages) or one.plan.zero for one in plans.values())


class TestOwnTrainer:
    @pytest.mark.parametrize("name", ["llama-7b", "t5-770m", "wide-resnet-1b"])
    def test_other_families_are_refused_with_a_way_out(self, name: str) -> None:
        with pytest.raises(PlanError, match=r"cannot build .*\{plan\}"):
            trainable(family_named(name))

    def test_another_width_inside_is_refused(self) -> None:
        odd = decoder_only("gpt-odd", hidden=64, layers=2, heads=4, vocabulary=256, tokens=32, feed_forward=100)
        with pytest.raises(PlanError, match="four times"):
            trainable(odd)

    def test_a_config_files_model_becomes_a_gpt_by_name(self) -> None:
        assert trainable(replace(TINY, name="mine")).name == "gpt-mine"
        assert trainable(TINY) is TINY

    def test_only_plans_it_can_run_are_found(self) -> None:
        odd = replace(TINY, vocabulary=255)
        accepts = trainable_plans(odd)
        found = plans_by_count(odd, "cpu", (2, 4), batch=8, seconds_per_count=0.05, accepts=accepts)
        assert all(accepts(one.plan) and max(one.plan.stages[0].tp) == 1 for one in found.values())

    def test_the_sizes_are_its_arguments(self) -> None:
        words = trainer_options(TINY)
        given = dict(zip(words[::2], words[1::2], strict=True))
        assert given == {
            "--layers": "2", "--hidden": "64", "--heads": "4", "--vocabulary": "256", "--sequence": "32",
        }  # fmt: skip


class TestLibrary:
    QUESTION = PlanQuestion(
        model="gpt-350m", batch=8, seq=512, pool=DevicePool(kind="a100"), counts=(1, 2), own_trainer=True
    )

    def test_answers_are_made_once_and_kept(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        library = PlanLibrary(tmp_path)
        assert library.known("f", "a100") is None
        scaling = library.ask("f", self.QUESTION)
        assert scaling.counts == (1, 2)
        assert library.known("f", "a100") == scaling
        monkeypatch.setattr("subprocess.run", _never)
        assert library.ask("f", self.QUESTION) == scaling
        assert library.ask("f", replace(self.QUESTION, counts=(2,))) == scaling
        with pytest.raises(AssertionError, match="asked again"):
            library.ask("f", replace(self.QUESTION, batch=16))

    def test_what_is_wrong_with_the_model_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(PlanError, match=r"does not fit.*too much"):
            PlanLibrary(tmp_path).ask("f", replace(self.QUESTION, model="gpt-13b", counts=(1,)))


def _never(*_: object, **__: object) -> None:
    raise AssertionError("asked again")
