"""Half precision or fp8, fused kernels or single ones, collectives between products or behind them."""

import json
from pathlib import Path

import pytest

from penstock.core import InputError, PlanError, UnknownNameError
from penstock.parallel import ChipMesh, Planned, TrainerKernels, evaluate_plan, family_named, mesh_named, plan_for
from penstock.parallel.operator_costs import DeviceModel, Fp8Device, fp8_device
from penstock.parallel.operator_costs.fp8 import ALIGNED, FASTER, cast_bytes
from penstock.parallel.operators import Product
from penstock.predict import Precision, device_named
from tests.tools import commandline

FP8 = TrainerKernels(precision="fp8")


def evaluated(
    tmp_path: Path, how: TrainerKernels, model: str = "llama-8b", cluster: str = "8xH100", **plan: int
) -> Planned:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"zero": 3, **plan}), encoding="utf-8")
    return evaluate_plan(model, cluster, file, batch=64, seq=8192, how=how)


class TestFp8Device:
    def test_large_products_take_about_as_much_less_as_was_measured(self) -> None:
        chip = device_named("h100")
        half, narrow = DeviceModel.of(chip, Precision.BF16), fp8_device(chip)
        large = Product(rows=8192, columns=16384, inner=8192, narrow=True)
        ratio = half.product_s(large, 4, 1, 2) / narrow.product_s(large, 4, 1, 2)
        assert ratio == pytest.approx(FASTER * 0.709 / 0.803, rel=0.02)

    def test_logits_attention_and_odd_sides_stay_in_bf16(self) -> None:
        chip = device_named("h100")
        half, narrow = DeviceModel.of(chip, Precision.BF16), fp8_device(chip)
        odd = Product(rows=2048, columns=4096 + ALIGNED // 2, inner=4096, narrow=True)
        works = {work.name: work for work in family_named("llama-8b", 8192).works}
        logits, score = works["loss"].products[0], works["attention-score"].products[0]
        for product in (odd, logits, score):
            assert narrow.product_s(product, 1, 1, 2) == half.product_s(product, 1, 1, 2)

    def test_all_linear_layers_of_a_block_are_narrow_and_nothing_else(self) -> None:
        for model in ("llama-8b", "gpt-1.3b", "t5-770m"):
            for work in family_named(model).works:
                narrow = any(product.narrow for product in work.products)
                assert narrow == any(part in work.name for part in ("qkv", "dense", "mlp-in", "mlp-out")), work.name

    def test_casting_is_traffic_of_inputs_and_of_output_gradients(self) -> None:
        (work,) = [work for work in family_named("llama-8b", 8192).works if work.name == "mlp-out"]
        assert cast_bytes(work, 2, 1, backward=False) == pytest.approx(6 * 2 * 8192 * 14336)
        assert cast_bytes(work, 2, 2, backward=True) == pytest.approx(6 * 2 * 8192 * 4096)

    @pytest.mark.parametrize("name", ["a100-80gb", "v100", "t4", "ascend-910b", "cpu"])
    def test_devices_without_it_are_refused_by_name(self, name: str) -> None:
        with pytest.raises(PlanError, match=f"{name} does not compute in fp8.*h100, h200, b200.*half precision"):
            fp8_device(device_named(name))


class TestPlansInFp8:
    def test_a_plan_is_faster_but_not_twice_and_says_so(self, tmp_path: Path) -> None:
        half, narrow = evaluated(tmp_path, TrainerKernels()), evaluated(tmp_path, FP8)
        assert 1.2 < half.prediction.iteration_s / narrow.prediction.iteration_s < 1.9
        assert narrow.fp8
        assert not half.fp8
        assert "fp8" in narrow.costs_from

    def test_copies_of_weights_count_unless_these_are_sharded(self, tmp_path: Path) -> None:
        for zero, more in ((1, 1.0), (3, 0.0)):
            half, narrow = (evaluated(tmp_path, how, zero=zero) for how in (TrainerKernels(), FP8))
            added = narrow.prediction.stages[0].memory.weights / half.prediction.stages[0].memory.weights - 1
            assert added == pytest.approx(more)

    def test_a_profiled_device_has_no_fp8_kernels(self) -> None:
        mesh: ChipMesh = mesh_named("8xH200")
        trainer = FP8.trainer(mesh, family_named("llama-8b"))
        assert isinstance(mesh.priced(Precision.FP16, trainer).device, Fp8Device)

    def test_models_without_linear_layers_of_their_own_are_refused(self) -> None:
        with pytest.raises(InputError, match="fp8 for wide-resnet-1b"):
            plan_for("wide-resnet-1b", "8xH100", batch=64, seconds=1, how=FP8)


class TestKernels:
    def test_single_kernels_take_longer_most_of_all_those_of_a_llama(self, tmp_path: Path) -> None:
        def longer(model: str) -> float:
            times = [
                evaluated(tmp_path, TrainerKernels(kernels=name), model, "8xA100-80GB").prediction.iteration_s
                for name in ("fused", "eager")
            ]
            return times[1] / times[0]

        assert 1.05 < longer("gpt-1.3b") < longer("llama-8b") < 1.6

    def test_collectives_behind_products_are_hidden_down_to_a_part(self, tmp_path: Path) -> None:
        plain, hidden = (
            evaluated(tmp_path, TrainerKernels(tp_overlap=flag), tp=8, zero=1).prediction.iteration_s
            for flag in (False, True)
        )
        assert 1.1 < plain / hidden < 1.6

    @pytest.mark.parametrize(("field", "name"), [("kernels", "fast"), ("precision", "fp9")])
    def test_unknown_names_are_refused(self, field: str, name: str) -> None:
        with pytest.raises(UnknownNameError, match=f"unknown {field} '{name}'"):
            TrainerKernels(**{field: name})


class TestCommandLine:
    def test_precision_kernels_and_overlap_are_options(self, tmp_path: Path) -> None:
        (tmp_path / "plan.yaml").write_text("tp: 4\nzero: 1\n", encoding="utf-8")
        common = ("plan", "llama-8b", "--cluster", "8xH100", "--batch", "16", "--evaluate", "plan.yaml", "--json")
        answers = [
            json.loads(commandline.penstock(*common, *more, cwd=tmp_path).stdout)
            for more in ((), ("--precision", "fp8"), ("--kernels", "eager"), ("--tp-overlap",))
        ]
        plain, narrow, eager, hidden = (answer["iteration_s"] for answer in answers)
        assert max(narrow, hidden) < plain < eager
        assert [answer["precision"] for answer in answers] == ["half", "fp8", "half", "half"]

    def test_a_device_without_fp8_is_a_message(self, tmp_path: Path) -> None:
        done = commandline.penstock(
            "plan", "gpt-1.3b", "--cluster", "8xA100-80GB", "--batch", "8", "--precision", "fp8", cwd=tmp_path
        )
        assert done.returncode == 2
        assert "a100-80gb does not compute in fp8" in done.stderr
        assert "Traceback" not in done.stderr
