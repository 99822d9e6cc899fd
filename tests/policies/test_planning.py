"""Laying out the future: afresh when that reaches everybody, else by the plan that was held."""

import math
from dataclasses import replace

import numpy as np
import pytest

from penstock.core import Curve
from penstock.policies import KindView, Plans, ReplacedColumns, Standing
from penstock.policies.planned_policy import explain_plan
from penstock.policies.planning import PlanTerms, best_layout, extend, keep_to, lay_out, promised_rows
from tests.policies.views import Row, view

ONE_OR_THREE = Curve.from_table({1: 1.0, 3: 2.0})


def three_promises(now: float = 0.0) -> KindView:
    """Three promised jobs on three devices that only just fit; nobody gets ahead of its plan until ``now``."""
    rows = [
        Row(
            work=110.0,
            left=110.0 - now,
            curve=ONE_OR_THREE,
            due=70.0,
            standing=Standing.PROMISED,
            width=1 if now else 0,
        ),
        Row(work=90.0, curve=ONE_OR_THREE, due=120.0, standing=Standing.PROMISED),
        Row(work=60.0, left=60.0 - 2 * now, due=50.0, standing=Standing.PROMISED, width=2 if now else 0),
    ]
    return view(*rows, now=now, capacity=3)


def holding(world: KindView, plans: Plans) -> KindView:
    return replace(world, columns=ReplacedColumns(world.columns, {"plan_at": plans.at, "plan_width": plans.width}))


@pytest.fixture
def first() -> Plans:
    """The plan made at the beginning."""
    world = three_promises()
    layout = lay_out(world, promised_rows(world), PlanTerms.stated(world))
    assert layout.finish.tolist() == [70.0, 115.0, 30.0]
    assert layout.widths_at(0.0).tolist() == [1, 0, 2]
    return layout.plans


def test_planning_afresh_can_miss_what_the_held_plan_reaches(first: Plans) -> None:
    """After 15 s the third job needs one device only, and then blocks the three the first needs from 30 s on."""
    world = holding(three_promises(now=15.0), first)
    rows, terms = promised_rows(world), PlanTerms.stated(world)
    assert lay_out(world, rows, terms).missed.tolist() == [True, False, False]
    kept = keep_to(world, rows, terms)
    assert kept.finish.tolist() == [70.0, 115.0, 30.0]
    assert not kept.missed.any()


def test_the_held_plan_is_then_followed(first: Plans) -> None:
    world = holding(three_promises(now=15.0), first)
    layout = best_layout(world, promised_rows(world), PlanTerms.stated(world))
    assert not layout.missed.any()
    assert layout.widths_at(15.0).tolist() == [1, 0, 2]
    assert layout.plans.at.tolist() == first.at.tolist()
    assert layout.plans.next_change(15.0) == 30.0


def test_without_a_plan_at_hand_the_best_fresh_one_counts() -> None:
    world = three_promises(now=15.0)
    layout = best_layout(world, promised_rows(world), PlanTerms.stated(world))
    assert layout.missed.sum() == 1


def test_a_fresh_plan_is_preferred_when_it_reaches_everybody() -> None:
    world = view(Row(work=100.0, due=200.0, standing=Standing.PROMISED))
    wasteful = Plans.none(1)
    wasteful.at[0, :2], wasteful.width[0, :2] = (0.0, 25.0), (4, 0)
    layout = best_layout(holding(world, wasteful), promised_rows(world), PlanTerms.stated(world))
    assert layout.widths_at(0.0).tolist() == [1]


def test_a_held_plan_that_needs_more_devices_than_are_left_misses_everybody(first: Plans) -> None:
    world = replace(holding(three_promises(now=15.0), first), capacity=2)
    assert keep_to(world, promised_rows(world), PlanTerms.stated(world)).missed.all()


def test_less_cautious_terms_are_tried_only_after_the_cautious_ones_fail() -> None:
    world = view(Row(work=100.0, due=26.0, standing=Standing.PROMISED))
    rows = promised_rows(world)
    careful = replace(PlanTerms.stated(world), rates=world.rates * 0.5)
    assert best_layout(world, rows, careful).missed.all()
    assert best_layout(world, rows, careful, PlanTerms.stated(world)).finish.tolist() == [25.0]


def test_candidates_are_added_in_the_order_given_where_they_harm_nobody() -> None:
    promised = Row(work=100.0, due=30.0, standing=Standing.PROMISED)
    tight, loose = Row(work=100.0, due=40.0), Row(work=50.0, due=40.0)
    world = view(promised, tight, loose)
    terms = PlanTerms.stated(world)
    layout = lay_out(world, promised_rows(world), terms)
    longer = extend(world, layout, np.array([1, 2]), terms)
    assert sorted(longer.rows.tolist()) == [0, 2], "100 of 160 device-seconds are left for both"
    assert not longer.missed.any()
    assert extend(world, layout, np.array([1]), terms) is layout


def test_whom_the_plan_misses_already_nobody_can_harm() -> None:
    hopeless = Row(work=1e4, due=30.0, standing=Standing.PROMISED)
    world = view(hopeless, Row(work=100.0, due=40.0))
    terms = PlanTerms.stated(world)
    layout = lay_out(world, promised_rows(world), terms)
    assert layout.missed.tolist() == [True, False]
    assert extend(world, layout, np.array([1]), terms).finish.tolist() == [math.inf, pytest.approx(100 / 4)]


def test_rows_that_are_not_planned_are_not_missed() -> None:
    world = view(Row(due=200.0, standing=Standing.PROMISED), Row(due=200.0, standing=Standing.DEFERRED))
    layout = lay_out(world, promised_rows(world), PlanTerms.stated(world))
    assert promised_rows(world).tolist() == [0]
    assert layout.missed.tolist() == [False, False]
    assert layout.finish.tolist() == [100.0, math.inf]


def test_a_plan_that_ends_before_the_work_could_be_done_is_not_told() -> None:
    row = Row(work=200.0, left=166.0, curve=ONE_OR_THREE, due=400.0, standing=Standing.PROMISED, width=1)
    stale = replace(row, plan=((0.0, 1), (26.0, 0)))
    assert "done within" not in explain_plan(view(stale), 0)
    assert "planned anew" in explain_plan(view(stale), 0)
    assert "done within 2m 46s" in explain_plan(view(replace(row, plan=((0.0, 1), (166.0, 0)))), 0)
