"""Every move of Aceso's search on plans small enough to say by hand what it must do."""

from dataclasses import replace

import numpy as np
import pytest
from bench.aceso import search as aceso
from bench.aceso.config import AcesoConfig, Space
from bench.aceso.policy import groups
from bench.aceso.primitives import PRIMITIVES, SWAPS, Effect
from bench.aceso.tuning import tuned
from bench.aceso.visits import Visits

from penstock.core import ParallelStage
from penstock.parallel.devices import MB, Mesh
from penstock.parallel.operators import CostTables
from penstock.parallel.search.problem import Problem
from tests.parallel.toys import toy_tables

OPS = 12
MOVES = {one.name: one for one in (*PRIMITIVES, *SWAPS)}
uniform = ParallelStage.uniform


def equal_ops(*, ops: int = OPS, tp_gain: float = 0.8) -> CostTables:
    """Operators that all cost the same: 1 ms forward and 2 ms backward of one sample on one device."""
    tables = toy_tables(1, ops)
    batch = np.array([1.0, 2.0])[None, :, None, None]
    degree = np.array([1.0, 2.0])[None, None, :, None] ** tp_gain

    def filled(value: float, *, by_degree: bool = True) -> np.ndarray:
        return np.broadcast_to(value * batch / (degree if by_degree else 1.0), tables.fwd_us.shape).copy()

    return replace(
        tables, fwd_us=filled(1000.0), bwd_us=filled(2000.0), activation_mb=filled(100.0), input_mb=filled(1.0),
        output_mb=filled(1.0), weight_mb=np.full_like(tables.weight_mb, 10.0),
        fwd_reserved_mb=np.zeros_like(tables.fwd_us), bwd_reserved_mb=np.zeros_like(tables.fwd_us),
    )  # fmt: skip


def space_of(devices: int = 4, memory_mb: float = 100_000.0, tables: CostTables | None = None) -> Space:
    return Space(Problem(tables or equal_ops(), Mesh(per_node=devices, memory_bytes=memory_mb * MB), 16))


def moved(name: str, config: AcesoConfig, target: int) -> AcesoConfig | None:
    return MOVES[name].apply(config, target, Visits(), lambda: False)


def shape(config: AcesoConfig | None) -> list[tuple[int, int, int]]:
    assert config is not None
    return [(stage.ops, stage.tp[0], stage.dp[0]) for stage in config.stages]


class TestMoves:
    def test_operators_leave_the_bottleneck_for_the_idle_stage(self) -> None:
        config = space_of().config(2, [uniform(7, dp=2), uniform(5, dp=2)])
        after = moved("dec_op", config, 0)
        assert shape(after) == [(6, 1, 2), (6, 1, 2)]
        assert after is not None
        assert after.time_ms < config.time_ms

    def test_operators_cascade_through_the_stages_between(self) -> None:
        config = space_of().config(1, [uniform(6), uniform(3), uniform(2), uniform(1)])
        after = moved("dec_op", config, 0)
        assert after is not None
        assert sum(stage.ops for stage in after.stages) == OPS
        assert after.stages[0].ops < 6
        assert after.stages[3].ops > 1
        assert after.time_ms < config.time_ms

    def test_a_full_stage_gives_operators_until_it_fits(self) -> None:
        config = space_of(2, memory_mb=1750.0).config(1, [uniform(8), uniform(4)])
        assert not config.fits
        after = moved("dec_op", config, 0)
        assert after is not None
        assert after.memories_mb[0] <= 1750.0

    @pytest.mark.parametrize(("name", "expected"), [("inc_dp", (1, 2)), ("inc_tp", (2, 1))])
    def test_devices_come_from_a_partner_that_halves(self, name: str, expected: tuple[int, int]) -> None:
        config = space_of(4).config(2, [uniform(8), uniform(2), uniform(2, dp=2)])
        after = moved(name, config, 0)
        assert shape(after)[0] == (8, *expected)
        assert shape(after)[2] == (2, 1, 1)

    @pytest.mark.parametrize("name", ["dec_dp", "dec_tp"])
    def test_devices_go_to_a_partner_that_doubles(self, name: str) -> None:
        wide = uniform(4, dp=2) if name == "dec_dp" else uniform(4, tp=2)
        config = space_of(4).config(2, [wide, uniform(4), uniform(4)])
        after = moved(name, config, 0)
        assert after is not None
        assert after.stages[0].devices == 1
        assert sorted(stage.devices for stage in after.stages) == [1, 1, 2]

    def test_no_partner_no_move(self) -> None:
        config = space_of(2).config(1, [uniform(6), uniform(6)])
        assert moved("inc_tp", config, 0) is None
        assert moved("dec_tp", config, 0) is None

    def test_devices_stay_inside_nodes(self) -> None:
        space = Space(Problem(equal_ops(), Mesh(nodes=2, per_node=2, memory_bytes=1e5 * MB), 16))
        config = space.config(2, [uniform(6, dp=2), uniform(3), uniform(3)])
        for name in ("inc_dp", "inc_tp", "dec_dp", "dec_tp"):
            for target in range(3):
                after = moved(name, config, target)
                ends = np.cumsum([stage.devices for stage in after.stages]).tolist() if after else [2]
                assert 2 in ends

    def test_a_larger_micro_batch_and_back(self) -> None:
        config = space_of().config(1, [uniform(6, tp=2), uniform(6, tp=2)])
        after = moved("inc_mbs", config, 0)
        assert after is not None
        assert after.plan.micro_batch == 2
        assert shape(after) == [(6, 1, 2), (6, 1, 2)], "samples over devices lose nothing, tensors do"
        back = moved("dec_mbs", after, 0)
        assert back is not None
        assert shape(back) == [(6, 2, 1), (6, 2, 1)]
        assert moved("dec_mbs", config, 0) is None
        assert moved("inc_mbs", after, 0) is None

    def test_dimensions_are_swapped_inside_a_stage(self) -> None:
        config = space_of().config(2, [uniform(6, tp=2), uniform(6, dp=2)])
        assert shape(moved("inc_dp_dec_tp", config, 0))[0] == (6, 1, 2)
        assert shape(moved("inc_tp_dec_dp", config, 1))[1] == (6, 2, 1)
        assert moved("inc_tp_dec_dp", config, 0) is None

    def test_recomputation_is_derived_again_after_a_move(self) -> None:
        tight = space_of(2, memory_mb=2300.0)
        stages = tight.all_recomputed(1, [uniform(8), uniform(4)])
        assert any(stages[0].recompute)
        after = moved("dec_op", tight.config(1, stages), 0)
        assert after is not None
        assert sum(after.stages[0].recompute) < sum(stages[0].recompute)


class TestChoice:
    def test_the_slowest_stage_is_the_bottleneck_then_the_next(self) -> None:
        config = space_of().config(1, [uniform(2), uniform(5), uniform(1), uniform(4)])
        visits = Visits()
        assert [visits.target(config) for _ in range(5)] == [1, 3, 0, 2, None]

    def test_the_fullest_stage_while_something_does_not_fit(self) -> None:
        config = space_of(memory_mb=300.0).config(1, [uniform(3), uniform(3), uniform(2), uniform(4)])
        assert not config.fits
        fullest = int(np.argmax(config.memories_mb))
        assert Visits().target(config) == fullest == 0
        assert {one.memory for one in groups(config, 0)[0]} == {Effect.LESS}
        assert len(groups(config, 0)) == 1

    def test_every_primitive_once_and_computation_first_where_it_dominates(self) -> None:
        config = space_of().config(1, [uniform(6), uniform(2), uniform(2), uniform(2)])
        ordered = groups(config, 0)
        names = [one.name for group in ordered for one in group]
        assert sorted(names) == sorted(one.name for one in PRIMITIVES)
        assert all(one.computation is Effect.LESS for one in ordered[0])

    def test_a_stage_that_loses_much_by_splitting_is_not_split_further_first(self) -> None:
        lossy = space_of(4, tables=equal_ops(tp_gain=0.1))
        config = lossy.config(1, [uniform(6, tp=2), uniform(3), uniform(3)])
        first = next(group for group in groups(config, 0) if group)
        assert all(one.communication is not Effect.MORE for one in first)

    def test_swaps_are_only_there_when_asked_for(self) -> None:
        config = space_of().config(1, [uniform(6, tp=2), uniform(6, tp=2)])
        every = [one.name for group in groups(config, 0, PRIMITIVES + SWAPS) for one in group]
        assert {"inc_tp_dec_dp", "inc_dp_dec_tp"} <= set(every)
        assert len(every) == len(set(every)) == 9


class TestTuning:
    def test_a_run_of_operators_changes_its_split_where_that_is_faster(self) -> None:
        """The second half of the stage gains nothing from tensor parallelism: it changes to samples."""
        tables = equal_ops(tp_gain=1.2)
        for table in (tables.fwd_us, tables.bwd_us):
            table[6:, :, 1] = table[6:, :, 0]
        kinds = tuple(replace(kind, tunable=True) for kind in tables.chain.kinds)
        tables = replace(tables, chain=replace(tables.chain, kinds=kinds))
        space = space_of(2, tables=tables)
        config = space.config(2, [uniform(OPS, tp=2)])
        after = tuned(config)
        assert after.stages[0].dp[6:] == (2,) * 6
        assert after.stages[0].tp[:6] == (2,) * 6
        assert after.time_ms < config.time_ms

    def test_nothing_changes_where_nothing_is_tunable(self) -> None:
        config = space_of(2).config(2, [uniform(OPS, tp=2)])
        assert tuned(config) is config


class TestSearch:
    def test_nothing_is_visited_twice(self) -> None:
        space = space_of()
        seen: list[object] = []
        original = Visits.target

        def watched(self: Visits, config: AcesoConfig, **options: object) -> int | None:
            found = original(self, config, **options)  # type: ignore[arg-type]
            if found is not None and not options.get("note") and not options.get("again"):
                seen.append((config.key, found))
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Visits, "target", watched)
            aceso.search(space.problem, 20.0, stage_counts=(3,))
        assert len(seen) > 3
        assert len(seen) == len(set(seen))

    def test_equal_operators_end_up_balanced(self) -> None:
        best = aceso.search(space_of().problem, 20.0, stage_counts=(4,)).best
        assert best is not None
        assert [stage.ops for stage in best.plan.stages] == [3, 3, 3, 3]

    def test_a_start_that_does_not_fit_is_led_into_memory(self) -> None:
        problem = Problem(toy_tables(5, OPS), Mesh(per_node=4, memory_bytes=2200.0 * MB), 16)
        start = aceso.balanced(Space(problem), 3)
        assert start is not None
        assert not start.fits
        best = aceso.search(problem, 20.0, stage_counts=(3,)).best
        assert best is not None
        assert best.cost.fits(problem.mesh)

    @pytest.mark.parametrize("options", [{"swaps": True}, {"by_device_time": True}, {"tune": True}])
    def test_variants_of_the_search_find_legal_plans(self, options: dict[str, bool]) -> None:
        problem = space_of().problem
        best = aceso.search(problem, 10.0, stage_counts=(1, 2), **options).best  # type: ignore[arg-type]
        assert best is not None
        assert problem.evaluate(best.plan).iteration_s == best.iteration_s
