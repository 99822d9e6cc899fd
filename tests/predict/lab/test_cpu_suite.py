"""What three minutes on a CPU are spent on, and by which clock."""

import time
from collections import Counter

import numpy as np
import pytest
import torch

from penstock.predict.capture import Setup, capture
from penstock.predict.kernels import KernelCall
from penstock.predict.lab.fitting.host_cost_fitting import fit_host_costs
from penstock.predict.lab.measuring.affordable_networks import CPU_LIMITS, affordable_network
from penstock.predict.lab.measuring.training import Training, cpu_clock
from penstock.predict.lab.networks.random_networks import random_network
from penstock.predict.zoo import table_task, translation_task
from penstock.predict.zoo.tokens import EncoderDecoder, TransformerShape


def test_draws_for_a_cpu_are_small_networks_rather_than_single_samples() -> None:
    items = [affordable_network(number, "cpu") for number in range(1, 9)]
    assert sum(item.batch > 1 for item, _ in items) > len(items) / 2
    assert all(seen.memory.peak < CPU_LIMITS.bytes for _, seen in items)
    work = [seen.flops for _, seen in items]
    assert max(work) > 10 * min(work), "long iterations and short ones"


def test_plain_layers_are_drawn_for_a_cpu_alone() -> None:
    kinds = {
        device: Counter(random_network(n, device).label.split("-")[0] for n in range(150)) for device in ("cpu", "cuda")
    }
    assert kinds["cpu"]["layers"] >= 3
    assert not kinds["cuda"]["layers"]


def test_one_thread_is_timed_by_its_own_clock_and_several_by_the_wall() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert cpu_clock() is time.thread_time
        torch.set_num_threads(2)
        assert cpu_clock() is time.perf_counter
    finally:
        torch.set_num_threads(before)


def test_host_costs_are_found_beside_noisy_kernels() -> None:
    """What is left of an iteration beside its kernels may be noise, even below 0: it must not outweigh the rest."""
    rng = np.random.default_rng(0)
    counts = [{"forward": int(n), "backward": int(2 * n)} for n in rng.integers(50, 500, 60)]
    whole = [float(s) for s in rng.uniform(0.02, 0.2, 60)]
    left = [
        1e-5 * each["forward"] + float(rng.normal(0, 0.005 * scale)) for each, scale in zip(counts, whole, strict=True)
    ]
    left[0] = -1e-9
    found = fit_host_costs(list(zip(counts, left, strict=True)), whole)
    assert found.seconds({"forward": 100, "backward": 200}) == pytest.approx(1e-3, rel=0.15)


def test_attention_with_a_learned_mask_is_captured_as_a_cpu_runs_it() -> None:
    shape = TransformerShape(layers=1, hidden=64, heads=2, head_dim=32, inner=128, vocabulary=100, rms=True, bias=False)

    def hook(batch: int) -> object:
        return translation_task(lambda: EncoderDecoder(shape), 16, 100, batch)

    setup = Setup(precision="fp32", optimizer="sgd")
    training = Training(hook, 2, setup, "cpu")
    training.step()
    ran = Counter({row.call: row.count for row in training.kernels(0)})
    seen: Counter[KernelCall] = Counter()
    for each in capture(hook, 2, setup, device="cpu").calls:
        seen[each.call] += each.count
    products = {call: count for call, count in seen.items() if call.family in ("gemm", "softmax", "softmax_bwd")}
    assert products
    assert all(ran[call] == count for call, count in products.items())
    assert {call for call in ran if call.family == "softmax"} <= set(products)


def test_tables_are_learned_from() -> None:
    model, inputs, loss = table_task(lambda: torch.nn.Linear(7, 3), 7, 3, 5)
    assert loss(model(*inputs)).ndim == 0
