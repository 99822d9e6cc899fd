"""Bags of single layers: what is drawn can be captured, fits, and only the layers' own rows are kept."""

from functools import partial
from math import prod
from pathlib import Path
from random import Random

import pytest
import torch
from torch import nn

from penstock.core import PenstockError
from penstock.predict.capture import Setup, capture
from penstock.predict.lab.fitting.profile_fitting import training_calls
from penstock.predict.lab.measuring.campaigns import measure_layer_bags
from penstock.predict.lab.measuring.session import MeasuringSession
from penstock.predict.lab.networks.layer_bags import layer_bag, layer_bag_of
from penstock.predict.lab.networks.layers import Layer, any_layer
from penstock.predict.lab.networks.uncommon_layers import UNCOMMON_KINDS
from penstock.predict.lab.records.measurements import read_measurements

_FAMILIES = {
    "attention", "attention_bwd", "conv", "conv_dgrad", "conv_wgrad", "copy", "embedding", "embedding_bwd", "gemm",
    "norm", "norm_bwd", "optimizer", "pool", "pool_bwd", "reduction", "softmax", "softmax_bwd",
}  # fmt: skip


def test_bags_hold_every_family_of_kernels() -> None:
    found = set()
    for seed in range(4):
        drawn = layer_bag(seed)
        seen = capture(drawn.hook, drawn.batch, drawn.setup, device="cuda")
        found |= {each.call.family for each in seen.calls}
        assert seen.memory.peak < 3e10
    assert found - {"elementwise"} == _FAMILIES


def test_the_same_seed_draws_the_same_bag() -> None:
    one, same, other = (layer_bag(seed) for seed in (7, 7, 8))
    kernels = [
        [each.call for each in capture(drawn.hook, drawn.batch, drawn.setup, device="cuda").calls]
        for drawn in (one, same, other)
    ]
    assert kernels[0] == kernels[1] != kernels[2]


def test_uncommon_layers_say_what_they_return_and_bring_what_others_lack() -> None:
    rng, found = Random(5), set()
    for _ in range(150):
        layer = any_layer(rng, "bf16", UNCOMMON_KINDS)
        drawn = layer_bag_of([layer], "one", Setup(precision="bf16", optimizer="sgd"))
        with torch.device("meta"):
            assert layer.build()(layer.example()).numel() == pytest.approx(layer.out, rel=0.02, abs=1), layer
        if any(True for _ in _weights(layer)):
            seen = capture(drawn.hook, 1, drawn.setup, device="cuda")
            found |= {f"{each.call.family}:{each.call.variant}" for each in seen.calls}
    assert {"norm:group", "conv_dgrad:", "embedding_bwd:"} <= found
    bag = layer_bag(3, kinds=UNCOMMON_KINDS)
    variants = {each.call.variant for each in capture(bag.hook, bag.batch, bag.setup, device="cuda").calls}
    assert "cat/s" in variants


def _weights(layer: Layer) -> list[nn.Parameter]:
    with torch.device("meta"):
        return list(layer.build().parameters())


def test_layers_are_small_enough_and_say_what_they_return() -> None:
    rng = Random(3)
    for _ in range(150):
        layer = any_layer(rng, "bf16")
        with torch.device("meta"):
            built, example = layer.build(), layer.example()
        out = built(example)
        assert prod(layer.shape) <= 6e7
        assert out.numel() <= 4 * layer.out


def test_only_rows_of_the_layers_are_kept(tmp_path: Path) -> None:
    layers = [
        Layer(build=partial(nn.Conv2d, 4, 8, 3), shape=(2, 4, 12, 12), out=1600),
        Layer(build=partial(nn.Linear, 16, 32), shape=(8, 16), out=256),
        Layer(build=partial(nn.Embedding, 50, 8), shape=(20,), out=160, words=50),
    ]
    session = MeasuringSession(tmp_path, "cpu")
    assert session.measure_layers(layer_bag_of(layers, "three", Setup(precision="fp32", optimizer="sgd")))
    session.save()
    (raw,) = read_measurements(tmp_path)
    families = {call.family for call in raw.rows.calls}
    assert {"conv", "conv_dgrad", "conv_wgrad", "gemm", "embedding", "embedding_bwd", "optimizer"} <= families
    assert "elementwise" not in families
    assert raw.alone().all()
    assert all(row.alone for row in training_calls([raw]))
    assert [network.seconds for network in raw.networks] == [0.0]


def test_a_device_that_broke_ends_the_measuring_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> bool:
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nlong advice")

    monkeypatch.setattr(MeasuringSession, "measure_layers", broken)
    with pytest.raises(PenstockError, match=r"network 5 broke the device: .* go on with --resume"):
        measure_layer_bags(MeasuringSession(tmp_path, "cpu"), float("inf"), seed=5)
