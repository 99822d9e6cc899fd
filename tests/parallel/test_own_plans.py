"""A plan of one's own: what the file may say, what it costs, what is refused."""

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from penstock.core import PenstockError, PipelineSchedule, PlanError, UnknownNameError
from penstock.parallel import Planned, evaluate_plan, plan_for
from penstock.parallel.planning.uniform_plans import even_layers

CLUSTER, BATCH = "4x8xA100-80GB", 64


def evaluated(folder: Path, plan: dict[str, Any], *, model: str = "gpt-6.7b", **more: Any) -> Planned:
    file = folder / "plan.json"
    file.write_text(json.dumps(plan))
    return evaluate_plan(model, CLUSTER, file, batch=BATCH, **more)


class TestWhatAFileSays:
    def test_degrees_and_what_is_left_out(self, tmp_path: Path) -> None:
        plan = evaluated(tmp_path, {"tp": 2, "pp": 4, "micro_batch": 2, "zero": 1}).plan
        assert (len(plan.stages), plan.stages[0].tp[0], plan.stages[0].dp[0]) == (4, 2, 4)
        assert (plan.micro_batch, plan.zero, plan.schedule) == (8, 1, PipelineSchedule.ONE_F_ONE_B)
        assert plan.sequence_parallel
        assert not any(any(stage.recompute) for stage in plan.stages)

    def test_yaml(self, tmp_path: Path) -> None:
        file = tmp_path / "plan.yaml"
        file.write_text("tp: 8\npp: 2\nchunks: 2\nrecompute: full\n")
        plan = evaluate_plan("gpt-6.7b", CLUSTER, str(file), batch=BATCH).plan
        assert (plan.schedule, plan.interleave) == (PipelineSchedule.INTERLEAVED, 2)
        assert sum(plan.stages[1].recompute) > 200

    def test_layers_of_every_stage(self, tmp_path: Path) -> None:
        plan = evaluated(tmp_path, {"tp": 2, "pp": 4, "layers": [7, 9, 9, 7]}).plan
        assert [stage.ops for stage in plan.stages] == [1 + 7 * 13, 9 * 13, 9 * 13, 7 * 13 + 2]

    def test_some_layers_computed_again(self, tmp_path: Path) -> None:
        wanted = {"tp": 2, "pp": 4, "recompute": "full"}
        some = evaluated(tmp_path, {**wanted, "recompute_layers": 3})
        every = evaluated(tmp_path, wanted)
        assert all(sum(stage.recompute) == 3 * 13 for stage in some.plan.stages)
        assert some.prediction.iteration_s < every.prediction.iteration_s
        assert some.prediction.memory_bytes > every.prediction.memory_bytes

    def test_what_penstock_wrote_costs_the_same_again(self, tmp_path: Path) -> None:
        planned = plan_for("gpt-1.3b", "8xA100-80GB", batch=32, seconds=0.5)
        file = tmp_path / "plan.json"
        file.write_text(json.dumps({"plan": planned.plan.to_mapping()}))
        again = evaluate_plan("gpt-1.3b", "8xA100-80GB", file, batch=32)
        assert again.plan == planned.plan
        assert again.prediction.iteration_s == pytest.approx(planned.prediction.iteration_s, rel=1e-9)

    def test_sizes_nobody_would_search(self, tmp_path: Path) -> None:
        """A micro-batch that is no power of two has a price, too."""
        file = tmp_path / "plan.json"
        file.write_text('{"tp": 8, "pp": 2, "micro_batch": 3}')
        assert evaluate_plan("gpt-6.7b", CLUSTER, file, batch=96).plan.micro_batch == 6


class TestExperts:
    CONFIG: ClassVar = {
        "model_type": "mixtral", "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 8,
        "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000, "num_local_experts": 8,
        "max_position_embeddings": 2048,
    }  # fmt: skip

    def priced(self, folder: Path, **plan: int) -> Planned:
        (folder / "experts.json").write_text(json.dumps(self.CONFIG))
        return evaluated(folder, plan, model=str(folder / "experts.json"))

    def test_divided_experts_hold_fewer_weights_and_send_tokens(self, tmp_path: Path) -> None:
        whole, divided = self.priced(tmp_path, ep=1), self.priced(tmp_path, ep=8)
        stages = [one.prediction.stages[0] for one in (whole, divided)]
        assert stages[1].memory.weights < 0.3 * stages[0].memory.weights
        assert stages[1].forward_s > stages[0].forward_s
        assert stages[1].sync.gradients_s < stages[0].sync.gradients_s
        assert divided.plan.experts == 8
        assert type(divided.plan).from_mapping(divided.plan.to_mapping()) == divided.plan

    def test_what_does_not_divide_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(PlanError, match="ep 16 for 8 experts"):
            self.priced(tmp_path, ep=16)
        with pytest.raises(PlanError, match="experts divided 8 ways over 4 replicas"):
            self.priced(tmp_path, tp=8, ep=8)
        with pytest.raises(PlanError, match="ep 2 for 0 experts"):
            evaluated(tmp_path, {"ep": 2}, model="gpt-1.3b")


class TestAnswers:
    def test_one_that_does_not_fit_is_priced_and_said(self, tmp_path: Path) -> None:
        planned = evaluated(tmp_path, {"micro_batch": 2}, model="gpt-13b")
        assert not planned.fits
        assert planned.prediction.iteration_s > 0

    def test_heavier_measures_take_longer_and_hold_less(self, tmp_path: Path) -> None:
        ways = ("none", "norms", "full")
        found = [evaluated(tmp_path, {"tp": 2, "pp": 4, "recompute": way}).prediction for way in ways]
        times, bytes_held = [one.iteration_s for one in found], [one.memory_bytes for one in found]
        assert times == sorted(times)
        assert bytes_held == sorted(bytes_held, reverse=True)

    def test_more_chunks_shorten_the_bubble(self, tmp_path: Path) -> None:
        found = [evaluated(tmp_path, {"tp": 2, "pp": 8, "chunks": chunks}).prediction for chunks in (1, 2, 4)]
        bubbles = [one.bubble for one in found]
        assert bubbles == sorted(bubbles, reverse=True)


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ({"tp": 3, "pp": 1}, "tp 3 x pp 1 x cp 1 x dp 10 on 32 devices"),
        ({"tp": 2, "pp": 4, "dp": 8}, "dp 8 on 32 devices"),
        ({"tp": 2, "pp": 4, "micro_batch": 5}, "micro-batches of 5 for a batch of 64"),
        ({"tp": "2"}, "tp is '2'"),
        ({"pp": 0}, "pp is 0"),
        ({"zero": 4}, "zero is 4"),
        ({"tp": 2, "pp": 4, "layers": [8, 8, 8]}, "layers is"),
        ({"tp": 2, "pp": 4, "layers": [8, 8, 8, 9]}, "32 in all"),
        ({"tp": 2, "pp": 4, "recompute_layers": 2}, "without recompute: full"),
        ({"tp": 2, "pp": 4, "chunks": 2, "schedule": "1f1b"}, "2 chunks under 1f1b"),
        ({"chunks": 2}, "2 chunks of one stage"),
        ({"tp": 2, "cp": 3, "dp": 1}, "cp 3 x dp 1 on 32 devices"),
        ({"pp": 32, "tp": 1, "layers": [1] * 31}, "32 numbers"),
        ({"sequence_parallel": "yes"}, "sequence_parallel is 'yes'"),
        ({"stages": []}, "not a plan"),
    ],
)
def test_what_is_no_plan_is_refused(tmp_path: Path, plan: dict[str, Any], reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        evaluated(tmp_path, plan)


@pytest.mark.parametrize(
    ("plan", "hint"), [({"pipeline": 2}, "field of"), ({"recompute": "sometimes"}, "recompute in"),
                       ({"schedule": "dualpipe"}, "schedule in")],
)  # fmt: skip
def test_unknown_names_are_refused_with_those_there_are(tmp_path: Path, plan: dict[str, Any], hint: str) -> None:
    with pytest.raises(UnknownNameError, match=hint):
        evaluated(tmp_path, plan)


@pytest.mark.parametrize("text", ["[1, 2]", "{", "tp: [", ""])
def test_what_is_no_file_of_fields_is_refused(tmp_path: Path, text: str) -> None:
    for name in ("plan.json", "plan.yaml"):
        (tmp_path / name).write_text(text)
        with pytest.raises(PenstockError, match=r"YAML or JSON|fields like"):
            evaluate_plan("gpt-6.7b", CLUSTER, tmp_path / name, batch=BATCH)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="cannot read"):
        evaluate_plan("gpt-6.7b", CLUSTER, tmp_path / "none.yaml", batch=BATCH)


@pytest.mark.parametrize(("layers", "stages"), [(30, 4), (126, 16), (32, 5), (7, 7), (9, 2)])
def test_stages_differ_by_one_layer_and_the_ends_have_less(layers: int, stages: int) -> None:
    dealt = even_layers(layers, stages)
    assert sum(dealt) == layers
    assert max(dealt) - min(dealt) <= 1
    assert dealt[-1] == min(dealt)
