"""Measuring this machine: iterations and kernels of small networks, kept as they come, continued later."""

import fcntl
import time
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from threading import Thread

import pytest
import torch

from penstock.core import InputError, PenstockError
from penstock.predict.capture import Capture, Hook, Setup, capture
from penstock.predict.lab.measuring import affordable_networks, campaigns
from penstock.predict.lab.measuring.affordable_networks import MeasuringLimits, affordable
from penstock.predict.lab.measuring.campaigns import measure_network_kernels, measure_random_networks
from penstock.predict.lab.measuring.session import MeasuringSession
from penstock.predict.lab.networks import published
from penstock.predict.lab.networks.random_networks import RandomNetwork, random_network
from penstock.predict.lab.networks.relatives import relative
from penstock.predict.lab.records.measurements import read_measurements
from penstock.predict.zoo import image_task, network_named
from penstock.predict.zoo.blocks import head
from tests.tools import needs


def _tiny() -> RandomNetwork:
    def hook(batch: int) -> object:
        return image_task(lambda: torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), head(8, 10)), batch, 32, 10)

    return RandomNetwork(label="tiny", hook=hook, batch=2, setup=Setup(precision="fp32", optimizer="sgd"))


def test_a_session_keeps_networks_and_kernels_and_goes_on(tmp_path: Path) -> None:
    session = MeasuringSession(tmp_path, "cpu")
    seen = capture(_tiny().hook, 2, _tiny().setup, device="cpu")
    assert session.measure(_tiny(), 0.01, seen=seen)
    session.save()
    again = MeasuringSession(tmp_path, "cpu", resume=True)
    assert again.measure(_tiny(), 0.01)
    again.save()
    (raw,) = read_measurements(tmp_path)
    assert [network.label for network in raw.networks] == ["tiny", "tiny"]
    assert raw.networks[0].issued == seen.issued
    assert raw.networks[0].followed == asdict(seen.memory)
    assert (raw.networks[0].peak_bytes or 0) > 0, "Linux says what the process held"
    assert set(raw.rows.networks) == {0, 1}
    families = {call.family for call in raw.rows.calls}
    assert {"conv", "conv_wgrad", "gemm", "softmax", "reduction", "optimizer"} <= families
    assert raw.environment["device"] == "cpu"
    one = raw.rows.where(raw.rows.networks == 0)
    assert 0 < float((one.seconds * one.counts).sum()) == pytest.approx(raw.networks[0].kernel_s or 0.0, rel=1e-3)


def test_networks_measured_apart_are_kept_here(tmp_path: Path) -> None:
    """One thread: a copy of a process that computed in several may wait for them forever."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        session = MeasuringSession(tmp_path, "cpu", isolated=True)
        assert session.measure(_tiny(), 0.01)
    finally:
        torch.set_num_threads(before)
    assert session.networks[0]["seconds"] > 0
    assert len(session.rows) > 5


def test_kernels_of_networks_can_be_measured_without_their_iterations(tmp_path: Path) -> None:
    session = MeasuringSession(tmp_path, "cpu")
    assert session.measure_kernels(_tiny())
    assert measure_network_kernels(session, time.monotonic(), seed=1) == 0
    (raw,) = read_measurements(tmp_path)
    assert [(network.label, network.seconds, network.is_bag) for network in raw.networks] == [("tiny", 0.0, False)]
    assert {"conv", "conv_wgrad", "elementwise", "optimizer"} <= {call.family for call in raw.rows.calls}
    assert not raw.alone().any()


def test_relatives_of_published_networks_have_sizes_of_their_own() -> None:
    rng, layers = Random(4), set()
    for _ in range(6):
        hook, optimizer = relative(rng)
        seen = capture(hook, 2, Setup(optimizer=optimizer), device="cuda")
        layers |= {each.call.dims[1:5] for each in seen.calls if each.call.family == "conv"}
    known = {each.call.dims[1:5] for each in capture(network_named("resnet50").hook, 2).calls}
    assert len(layers) > 100
    assert len(layers & known) < len(layers) / 10


def test_a_suite_ends_when_its_time_is_up_and_saves(tmp_path: Path) -> None:
    session = MeasuringSession(tmp_path, "cpu")
    assert measure_random_networks(session, time.monotonic(), seed=1, seconds=0.01) == 0
    assert (tmp_path / "measured.npz").exists()


def test_expensive_draws_are_measured_at_a_smaller_batch() -> None:
    item = random_network(11)
    fitting, seen = affordable(item, "cpu")
    assert 1 <= fitting.batch < item.batch
    assert seen.issued["forward"] > 0


def test_few_captures_tell_the_largest_batch_within_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(hook: Hook, batch: int, setup: Setup, device: str) -> Capture:
        asked.append(batch)
        return capture(hook, batch, setup, device=device)

    monkeypatch.setattr(affordable_networks, "capture", counted)
    item = replace(_tiny(), batch=4096)
    one = capture(item.hook, 1, item.setup, device="cpu").memory.peak
    limits = MeasuringLimits(seconds=1.0, bytes=4.0 * one)
    fitting, seen = affordable(item, "cpu", limits)
    twice = capture(item.hook, 2 * fitting.batch, item.setup, device="cpu").memory.peak
    assert seen.memory.peak < limits.bytes <= twice
    assert len(asked) <= 4, asked
    assert affordable(item, "cpu", MeasuringLimits(seconds=1e-12, bytes=1e9), fewest=8)[0].batch == 8


@pytest.mark.skipif(torch.cuda.is_available(), reason=needs.reason("there is a GPU", "CUDA_VISIBLE_DEVICES= make test"))
def test_a_device_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="PyTorch sees none"):
        MeasuringSession(tmp_path, "cuda")


def test_sessions_that_share_a_device_take_turns(tmp_path: Path) -> None:
    turns = tmp_path / "turns"
    session = MeasuringSession(tmp_path / "one", "cpu", turns=turns)
    waiting = Thread(target=session.measure, args=(_tiny(), 0.01))
    with turns.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        assert not session.networks
    waiting.join(60)
    assert [network["label"] for network in session.networks] == ["tiny"]


@pytest.mark.parametrize("seed", range(4))
def test_shallow_versions_of_published_networks_can_be_followed(seed: int) -> None:
    rng = Random(seed)
    hooks = published.images(rng)[0], published.text(rng, lambda _: 4001)[0], published.vision(rng)[0]
    for hook in hooks:
        assert capture(hook, 1).flops > 1e8


def saved_session(folder: Path) -> None:
    session = MeasuringSession(folder, "cpu")
    assert session.measure(_tiny(), 0.01)
    session.save()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("measured.json", ""), ("measured.json", "[]"), ("measured.json", '{"environment": {}}'),
        ("measured.json", '{"networks": []}'), ("measured.npz", ""), ("measured.npz", "PK damaged"),
    ],
)  # fmt: skip
def test_a_session_does_not_go_on_from_damaged_files(tmp_path: Path, file: str, content: str) -> None:
    saved_session(tmp_path)
    (tmp_path / file).write_text(content)
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match="measured"):
        MeasuringSession(tmp_path, "cpu", resume=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == kept


def test_a_network_that_does_not_fit_is_left_out_and_the_next_one_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = MeasuringSession(tmp_path, "cpu")

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("too large")

    with monkeypatch.context() as patch:
        patch.setattr(MeasuringSession, "_timed", full)
        assert not session.measure(_tiny(), 0.01)
        assert (session.rows, session.networks) == ([], [])
    assert session.measure(_tiny(), 0.01)
    assert {row.network for row in session.rows} == {0}


def test_networks_that_cannot_run_are_left_out_and_a_broken_device_ends_the_session(tmp_path: Path) -> None:
    session = MeasuringSession(tmp_path, "cpu")
    asked: list[int] = []

    def measure(number: int) -> bool:
        asked.append(number)
        if number == 12:
            raise RuntimeError("CUDA error: an illegal memory access\nmore")
        raise ValueError("kernel size larger than the image")

    with pytest.raises(PenstockError, match=r"network 12 broke the device.*--resume"):
        campaigns._one_by_one(session, float("inf"), 10, measure)
    assert asked == [10, 11, 12]


def test_a_cpu_session_asks_no_gpu_for_energy(tmp_path: Path) -> None:
    session = MeasuringSession(tmp_path, "cpu")
    assert session.gpu is None
    assert session.measure(_tiny(), 0.01)
    assert (session.networks[0]["joules"], session.networks[0]["clock_mhz"]) == (None, None)
