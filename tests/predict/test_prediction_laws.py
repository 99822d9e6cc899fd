"""What must hold of every prediction, whatever the network: more work never takes less, bars hold the time."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from penstock.predict import ModelPrediction, Setup, predict_model
from penstock.predict.device_profile import SHIPPED, DeviceProfile, profile_named

WIDTH = 256


def perceptron(batch: int) -> tuple[nn.Module, torch.Tensor]:
    layers = [nn.Linear(WIDTH, WIDTH), nn.GELU()] * 3
    return nn.Sequential(*layers, nn.Linear(WIDTH, 10)), torch.randn(batch, WIDTH)


def images(batch: int) -> tuple[nn.Module, torch.Tensor]:
    layers = (
        nn.Conv2d(3, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.Flatten(),
    )
    return nn.Sequential(*layers, nn.Linear(32 * 16 * 16, 10)), torch.randn(batch, 3, 16, 16)


Asked = Callable[..., ModelPrediction]


@pytest.fixture(scope="module")
def profile() -> DeviceProfile:
    return profile_named("h200", [SHIPPED])


@pytest.fixture(params=[perceptron, images], ids=["perceptron", "images"])
def ask(request: pytest.FixtureRequest, profile: DeviceProfile) -> Asked:
    def asked(batch: int, setup: Setup | None = None, **more: object) -> ModelPrediction:
        return predict_model(request.param, batch, profile, setup or Setup(), **more)  # type: ignore[arg-type]

    return asked


def test_a_larger_batch_takes_no_less_of_anything(ask: Asked) -> None:
    seen = [ask(batch).first for batch in (64, 1024, 16384)]
    assert seen == sorted(seen, key=lambda point: point.time.device_s)
    assert [point.memory.needed for point in seen] == sorted(point.memory.needed for point in seen)
    joules = [point.joules for point in seen]
    assert joules == pytest.approx(sorted(joules), rel=1e-12)


def test_the_time_lies_inside_its_bars_and_is_made_of_its_parts(ask: Asked) -> None:
    point = ask(4096).first
    assert 0 < point.low <= point.seconds <= point.high
    assert sum(point.time.by_family.values()) == pytest.approx(sum(point.time.by_bound.values()))
    assert point.communication_s == 0.0


def test_devices_share_the_batch_and_pay_for_the_exchange(ask: Asked) -> None:
    points = ask(8192, devices=(1, 2, 8)).points
    assert [point.share for point in points] == [8192, 4096, 1024]
    assert all(point.communication_s > 0 for point in points[1:])
    assert [point.time.device_s for point in points] == sorted((p.time.device_s for p in points), reverse=True)


def test_a_better_link_never_adds_more(ask: Asked) -> None:
    slow, fast = (ask(8192, devices=(8,), link=link).points[0] for link in ("ethernet-10g", "nvlink4"))
    assert fast.communication_s < slow.communication_s
    assert fast.seconds < slow.seconds


def test_more_bytes_a_number_need_more_memory(ask: Asked) -> None:
    half, full = (ask(4096, Setup(precision=precision)).first for precision in ("bf16", "fp32"))
    assert half.memory.needed < full.memory.needed
    assert half.time.device_s < full.time.device_s


def test_an_optimizer_without_moments_needs_less(ask: Asked) -> None:
    plain, moments = (ask(64, Setup(optimizer=name)).first.memory.use.optimizer for name in ("sgd", "adamw"))
    assert plain < moments


def test_the_same_question_has_the_same_answer(ask: Asked) -> None:
    first, second = ask(512).first, ask(512).first
    assert (first.seconds, first.joules, first.memory.needed) == (second.seconds, second.joules, second.memory.needed)
