"""Rules about when training is over, held against the values of a metric."""

import math

import pytest

from penstock.core import JobError, MetricBest, MetricWatch, StopRule, Work, build, plain

REACH = StopRule(metric="val_acc", rising=True, target=0.9)
STALL = StopRule(metric="val_loss", rising=False, patience=30, least_gain=0.01)


def watched(rule: StopRule, *values: tuple[int, float], best: MetricBest | None = None) -> MetricWatch:
    watch = MetricWatch(rule, best)
    for step, value in values:
        watch.take(step, value)
    return watch


def test_a_target_is_reached_by_the_first_value_as_good() -> None:
    watch = watched(REACH, (10, 0.5), (20, math.nan), (30, 0.9), (40, 0.99))
    assert watch.met == watch.ending == "val_acc >= 0.9 reached: 0.9 at step 30"


def test_what_was_not_reached_is_told_with_the_best() -> None:
    assert watched(REACH).ending == "not reached: val_acc was never told"
    told = watched(REACH, (10, 0.5), (20, 0.8913), (30, 0.7)).ending
    assert told == "not reached: best 0.8913 at step 20, asked for val_acc >= 0.9"


def test_patience_counts_from_the_last_real_gain() -> None:
    values = ((10, 1.0), (20, 0.5), (30, 0.495), (40, 0.6), (49, 0.5))
    assert watched(STALL, *values).ending == "did all its work: best 0.5 at step 20, still improving"
    assert watched(STALL, *values, (50, 0.492)).met == (
        "val_loss stops falling by 0.01 for 30 steps: best 0.5 at step 20, now 50"
    )
    assert not watched(STALL, *values, (50, 0.48)).met


def test_earlier_runs_count_and_steps_that_are_made_again_do_no_harm() -> None:
    assert watched(STALL, (45, 0.5), (55, 0.5), best=MetricBest(0.3, 20)).met
    assert not watched(STALL, (10, 0.9), (19, 0.8), (49, 0.5), best=MetricBest(0.3, 20)).met


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"target": 1.0, "patience": 5.0},
        {"target": math.nan},
        {"patience": 0.0},
        {"patience": math.inf},
        {"target": 1.0, "least_gain": -1.0},
        {"target": 1.0, "metric": "step"},
    ],
)
def test_rules_that_make_no_sense_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(JobError):
        StopRule(**{"metric": "loss", "rising": False, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", [None, REACH, STALL])
def test_work_with_a_rule_survives_the_log(rule: StopRule | None) -> None:
    work = Work(100.0, rule)
    assert build(Work, plain(work)) == work
    assert build(Work, {"iterations": 100.0}) == Work(100.0)
