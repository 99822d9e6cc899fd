"""Predictions for networks the shipped profile never saw, against what an H200 measured; and wrong questions."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from penstock.core import CurveError, InputError, Source, UnknownNameError
from penstock.predict import predict_curve
from penstock.predict.capture import Setup
from penstock.predict.device_profile import SHIPPED, DeviceProfile, profile_named
from penstock.predict.hardware import device_named
from penstock.predict.lab.fitting.profile_fitting import capture_of
from penstock.predict.model_sources import load_hook
from penstock.predict.prediction import predict_model
from penstock.predict.zoo import network_named
from tests.predict.measurements import recorded


@pytest.fixture(scope="module")
def h200() -> DeviceProfile:
    return profile_named("h200", [SHIPPED])


def test_held_out_networks_are_predicted_near_what_was_measured(h200: DeviceProfile) -> None:
    """A part of `python -m bench.predict`: one batch size in bf16 of eight networks nothing was learned from."""
    wanted = {
        "resnet50": 192, "vgg19": 64, "mobilenet-v2": 128, "convnext-tiny": 128, "vit-l": 64, "bert-large": 32,
        "gpt2-large": 8, "llama-7b": 2,
    }  # fmt: skip
    errors, memory = {}, {}
    for network in (network for raw in recorded("h200") for network in raw.networks):
        if wanted.get(network.label) == network.batch and network.precision == "bf16" and network.layout == "nchw":
            assert network.held_out
            seen = capture_of(network)
            errors[network.label] = h200.iteration.predict(seen).seconds / network.seconds - 1
            memory[network.label] = h200.memory.predict(seen.memory).allocated / (network.peak_bytes or 1) - 1
    assert set(errors) == set(wanted)
    assert np.mean(np.abs(list(errors.values()))) < 0.03, errors
    assert np.abs(list(errors.values())).max() < 0.11, errors
    assert np.abs(list(memory.values())).max() < 0.06, memory


def test_more_devices_share_the_batch_and_exchange_gradients(h200: DeviceProfile) -> None:
    seen = predict_model(network_named("resnet50").hook, 256, h200, Setup(optimizer="sgd"), devices=(4, 1, 2))
    assert [point.devices for point in seen.points] == [1, 2, 4]
    assert [point.share for point in seen.points] == [256, 128, 64]
    assert seen.points[0].communication_s == 0 < seen.points[1].communication_s
    assert seen.points[0].seconds > seen.points[1].seconds
    curve = seen.curve("nvidia.com/gpu")
    assert curve.rate(2, "nvidia.com/gpu") == pytest.approx(1 / seen.points[1].seconds)
    scaling = curve.scaling("nvidia.com/gpu")
    assert scaling is not None
    assert scaling.source is Source.PREDICTED


def test_energy_and_memory_grow_with_the_batch(h200: DeviceProfile) -> None:
    small, large = (predict_model(network_named("vit-s").hook, batch, h200).first for batch in (64, 256))
    assert 2 < large.joules / small.joules < 6
    assert large.memory.needed > 2 * small.memory.needed


def test_one_measured_iteration_corrects_the_rest(h200: DeviceProfile) -> None:
    hook = network_named("vgg19").hook
    free = predict_model(hook, 128, h200, Setup(optimizer="sgd"))
    half = predict_model(hook, 128, h200, Setup(optimizer="sgd"), measured=[(128, free.first.seconds / 2)])
    assert half.first.seconds == pytest.approx(free.first.seconds / 2, rel=0.05)


def test_a_device_known_by_its_data_sheet_alone_says_so() -> None:
    seen = predict_model(network_named("resnet18").hook, 32, profile_named("a100"))
    assert any("never measured" in note for note in seen.notes)
    assert seen.first.high / seen.first.low > 1.2


def test_what_does_not_fit_is_said(h200: DeviceProfile) -> None:
    seen = predict_model(network_named("llama-7b").hook, 64, h200, Setup(precision="tf32"))
    assert any("does not fit" in note for note in seen.notes)


def test_shapes_nobody_profiled_get_wider_bars_and_a_note(h200: DeviceProfile) -> None:
    def huge(batch: int) -> Any:
        return nn.Conv3d(3, 5, 31, padding=15), torch.randn(batch, 3, 64, 64, 64)

    strange, usual = (predict_model(hook, 8, h200) for hook in (huge, network_named("resnet50").hook))
    assert strange.first.time.beyond > usual.first.time.beyond
    assert strange.first.high / strange.first.low > usual.first.high / usual.first.low


def test_wrong_questions_are_answered_with_what_is_allowed(h200: DeviceProfile, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="h200"):
        profile_named("h2000")
    with pytest.raises(InputError, match="resnet50"):
        load_hook("resnet5")
    with pytest.raises(InputError, match="no file"):
        load_hook(str(tmp_path / "none.py"))
    (tmp_path / "plain.py").write_text("x = 1\n")
    with pytest.raises(InputError, match="penstock_model"):
        load_hook(str(tmp_path / "plain.py"))
    (tmp_path / "broken.py").write_text("1 / 0\n")
    with pytest.raises(InputError, match="ZeroDivisionError"):
        load_hook(str(tmp_path / "broken.py"))
    with pytest.raises(InputError, match="8 devices for a batch of 4"):
        predict_model(network_named("resnet18").hook, 4, h200, devices=(8,))
    with pytest.raises(InputError, match="module 'no_such_module'"):
        load_hook("no_such_module:f")


SCRIPT = """
import torch

def penstock_model(batch):
    return torch.nn.Linear(512, 512), torch.randn(batch, 512)

if __name__ == "__main__":
    raise SystemExit("must not run")
"""


def test_a_script_with_the_hook_has_a_predict_curve(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    curve = predict_curve(script, 64, device="h200", kind="gpu", counts=(1, 2, 128), folders=[SHIPPED])
    assert curve is not None
    scaling = curve.scaling("gpu")
    assert scaling is not None
    assert scaling.counts == (1, 2)
    assert scaling.source is Source.PREDICTED
    script.write_text("print('no hook')")
    assert predict_curve(script, 64, device="h200", kind="gpu", counts=(1,)) is None


def test_a_model_too_large_for_every_count_has_no_curve() -> None:
    with pytest.raises(CurveError, match="fits on none"):
        predict_curve("llama-7b", 8, device="t4", kind="gpu", counts=(1, 2))


def test_a_profile_survives_the_disk(tmp_path: Path, h200: DeviceProfile) -> None:
    h200.save(tmp_path / "copy")
    again = DeviceProfile.load(tmp_path / "copy")
    hook = network_named("resnet18").hook
    assert predict_model(hook, 8, again).first.seconds == pytest.approx(predict_model(hook, 8, h200).first.seconds)
    (tmp_path / "copy" / "profile.json").write_text("{}")
    with pytest.raises(InputError, match="usable profile"):
        DeviceProfile.load(tmp_path / "copy")


def test_a_shipped_profile_is_read_once_and_an_own_one_whenever_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_DATA_DIR", str(tmp_path))
    shipped = profile_named("h200")
    assert profile_named("h200") is shipped
    DeviceProfile.unprofiled(device_named("a100")).save(tmp_path / "profiles" / "h200")
    assert profile_named("h200").chip == device_named("a100")
    shipped.save(tmp_path / "profiles" / "h200")
    assert profile_named("h200").chip == shipped.chip
