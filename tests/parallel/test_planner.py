"""From a model and a cluster to a plan, and every way that can fail."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from penstock.core import InputError, ParallelPlan, PipelineSchedule, PlanError, why_not_executable
from penstock.parallel import Planned, Planner, family_named, mesh_named, plan_for, throughput_curve
from penstock.parallel.planning.text import device_map, letter, plan_comparison, plan_findings, plan_picture
from penstock.parallel.planning.uniform_plans import Recompute, even_cuts, grid, recomputed


@pytest.fixture(scope="module")
def planned() -> Planned:
    return plan_for("gpt-1.3b", "8xV100-32GB", batch=64, seconds=2)


class TestAnswers:
    def test_the_plan_covers_model_devices_and_batch(self, planned: Planned) -> None:
        assert planned.plan.ops == planned.family.chain().size
        assert planned.plan.devices == 8
        assert planned.plan.global_batch == 64

    def test_nothing_offered_is_over_the_memory_limit(self, planned: Planned) -> None:
        for candidate in (planned.best, *planned.others):
            assert candidate.prediction.memory_bytes <= planned.mesh.memory_bytes

    def test_it_is_the_fastest_and_never_worse_than_the_uniform_one(self, planned: Planned) -> None:
        assert planned.uniform is not None
        times = [candidate.iteration_s for candidate in planned.others]
        assert times == sorted(times)
        assert planned.best.iteration_s <= min([planned.uniform.iteration_s, *times])

    def test_no_candidate_beats_the_bound(self, planned: Planned) -> None:
        assert 0 < planned.bound_s < planned.best.iteration_s
        assert 0 < planned.gap < 1

    def test_it_says_what_was_tried(self, planned: Planned) -> None:
        assert planned.tried["uniform"] > 10

    def test_less_memory_never_helps(self, planned: Planned) -> None:
        tight = plan_for("gpt-1.3b", "8xV100-32GB", batch=64, memory="12GB", seconds=1)
        assert tight.prediction.memory_bytes <= 12e9
        assert tight.best.iteration_s >= planned.best.iteration_s * 0.999

    def test_further_schedules_are_considered_when_asked(self) -> None:
        every = tuple(PipelineSchedule)[2:]
        made = Planner(family=family_named("gpt-13b"), mesh=mesh_named("2x8xV100-32GB"), batch=32, schedules=every)
        schedules = {c.plan.schedule for c in made.uniform_plans() if len(c.plan.stages) > 1}
        assert schedules >= {PipelineSchedule.INTERLEAVED, PipelineSchedule.ZERO_BUBBLE}

    def test_long_sequences_are_split_over_devices(self) -> None:
        made = Planner(family=family_named("llama-8b", 131_072), mesh=mesh_named("2x8xA100-80GB"), batch=8)
        assert max(candidate.plan.context for candidate in made.uniform_plans() if made.fits(candidate.prediction)) > 1

    @pytest.mark.parametrize("model", ["wide-resnet-1b", "t5-770m", "dit-xl", "llama-7b"])
    def test_every_family_can_be_planned(self, model: str) -> None:
        answer = plan_for(model, "8xA100-80GB", batch=64, seconds=1)
        assert answer.plan.devices == 8
        assert 0 < answer.prediction.utilisation < 1


def test_more_devices_give_more_throughput() -> None:
    answers = throughput_curve("gpt-1.3b", "8xA100-80GB", [1, 2, 4, 8], batch=64, seconds=4)
    speeds = [answer.prediction.samples_per_s for answer in answers.values() if isinstance(answer, Planned)]
    assert len(speeds) == 4
    assert speeds == sorted(speeds)


class TestRefusals:
    def refused(self, call: Callable[[], object]) -> str:
        with pytest.raises(InputError) as caught:
            call()
        return str(caught.value)

    def test_what_cannot_fit_says_by_how_much_and_what_would(self) -> None:
        message = self.refused(lambda: plan_for("gpt-13b", "1xV100-32GB", batch=16, seconds=0.2))
        assert "too much" in message
        assert "29.4GB per device" in message
        enough = int(message.split(" such devices")[0].rsplit(" ", 1)[1])
        fitting = plan_for("gpt-13b", f"{enough}xV100-32GB", batch=16, seconds=0.2)
        assert fitting.prediction.memory_bytes <= fitting.mesh.memory_bytes

    def test_contradictory_bounds(self) -> None:
        assert "a memory limit of 100.0GB" in self.refused(
            lambda: plan_for("gpt-1.3b", "8xV100-32GB", batch=64, memory="100GB")
        )

    def test_a_batch_nothing_divides(self) -> None:
        message = self.refused(lambda: plan_for("gpt-350m", "8xV100-32GB", batch=0))
        assert "at least one sample" in message

    def test_an_odd_batch_still_runs_with_one_replica(self) -> None:
        answer = plan_for("gpt-350m", "2xV100-32GB", batch=7, seconds=1)
        assert all(7 % dp == 0 for stage in answer.plan.stages for dp in stage.dp)

    def test_more_stages_than_layers_and_no_divisor(self) -> None:
        message = self.refused(lambda: plan_for("dit-s", "64x8xT4", batch=7, seconds=1))
        assert "no way to split dit-s over 512 devices" in message

    def test_unknown_device_and_model(self) -> None:
        assert "unknown device" in self.refused(lambda: plan_for("gpt-1.3b", "8xZ9", batch=8))
        assert "unknown model" in self.refused(lambda: plan_for("gtp", "8xA100", batch=8))

    def test_no_time(self) -> None:
        assert "seconds to search" in self.refused(lambda: plan_for("gpt-1.3b", "8xA100", batch=8, seconds=0))

    def test_small_clusters_on_the_curve_are_reported_not_raised(self) -> None:
        answers = throughput_curve("gpt-13b", "2x8xV100-32GB", [1, 16], batch=64, seconds=4)
        assert isinstance(answers[1], PlanError)
        assert isinstance(answers[16], Planned)


class TestGrid:
    def test_products_and_batches_are_right(self) -> None:
        cells = list(grid(16, 8, 48, tp_degrees=(1, 2, 4, 8), micro_batches=(1, 2, 4)))
        assert cells
        for cell in cells:
            assert cell.pp * cell.tp * cell.dp == 16
            assert 48 % (cell.dp * cell.micro_batch) == 0

    def test_layers_are_dealt_evenly(self) -> None:
        chain = family_named("gpt-1.3b").chain()
        cuts = even_cuts(chain, 5)
        assert cuts is not None
        counts = [int(chain.starts_layer[a:b].sum()) for a, b in pairwise(cuts)]
        assert counts == [5, 5, 5, 5, 4]
        assert even_cuts(chain, 25) is None

    def test_selective_recomputation_is_attention_only(self) -> None:
        family = family_named("gpt-1.3b")
        chain = family.chain()
        flags = recomputed(chain, family, Recompute.SELECTIVE)
        names = {name for name, flag in zip(chain.names(), flags, strict=True) if flag}
        assert names == {
            "attention-score", "attention-softmax", "attention-dropout", "attention-context", "attention-dense"
        }  # fmt: skip


class TestPictures:
    def test_every_device_shows_its_stage(self, planned: Planned) -> None:
        plan = planned.plan
        signs = "".join(line.split(maxsplit=2)[2].replace(" ", "") for line in device_map(plan, 8))
        assert len(signs) == 8
        assert signs == "".join(letter(n) * stage.devices for n, stage in enumerate(plan.stages))

    def test_the_words_say_the_numbers(self, planned: Planned) -> None:
        text = plan_picture(planned)
        assert "1.32 billion parameters" in text
        assert f"{planned.prediction.samples_per_s:.4g} samples/s" in text
        assert any("no plan can take less than" in line for line in plan_findings(planned))
        assert any("s/iteration" in line for line in plan_comparison(planned))

    def test_uniform_parts_of_time_add_up(self, planned: Planned) -> None:
        from penstock.parallel.planning.text import shares

        assert sum(share for _, share in shares(planned.prediction)) == pytest.approx(1.0, abs=0.01)


def test_the_runtime_is_asked_whether_it_can_run_a_plan(planned: Planned) -> None:
    mixed = replace(planned.plan, model="llama-7b")
    assert why_not_executable(mixed) is not None
    gpt = plan_for("gpt-350m", "2xA100", batch=8, seconds=1).plan
    if all(stage.is_uniform for stage in gpt.stages):
        assert why_not_executable(gpt) is None
    assert isinstance(gpt, ParallelPlan)
