"""What is captured on the meta device is what a real run dispatches, call by call."""

from collections import Counter
from dataclasses import replace

import pytest

from penstock.predict.capture import Setup, capture
from penstock.predict.kernels import KernelCall
from penstock.predict.lab.fitting.profile_fitting import capture_of
from penstock.predict.lab.measuring.training import Training
from penstock.predict.lab.networks.random_networks import random_network
from tests.predict.measurements import recorded

_SINGLE = ("copy", "reduction")


def _worth_time(calls: Counter[KernelCall]) -> Counter[KernelCall]:
    """Without operations on single numbers, which some devices keep on the host."""
    return Counter({call: count for call, count in calls.items() if call.dims[0] > 1 or call.family not in _SINGLE})


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_a_run_on_this_cpu_dispatches_what_was_captured(seed: int) -> None:
    item = replace(random_network(seed, "cpu"), batch=2)
    training = Training(item.hook, item.batch, item.setup, "cpu")
    training.step()
    ran = Counter({row.call: row.count for row in training.kernels(0)})
    seen: Counter[KernelCall] = Counter()
    for each in capture(item.hook, item.batch, item.setup, device="cpu").calls:
        seen[each.call] += each.count
    ran = Counter({call: count for call, count in ran.items() if call.flops or call.read_bytes or call.dims[0] > 1})
    missing = {call for call in _worth_time(seen) - ran if call.family != "elementwise" or call.dims[0] > 1}
    assert not missing
    assert not _worth_time(ran) - seen


@pytest.mark.parametrize(
    "label",
    [
        pytest.param("resnet50", marks=pytest.mark.long),
        "mobilenet-v2",
        "convnext-tiny",
        "bert-large",
        "t5-base",
        "llama-1b",
    ],
)
def test_runs_on_an_h200_dispatched_what_was_captured(label: str) -> None:
    for raw in recorded("h200"):
        for index, network in enumerate(raw.networks):
            if network.label != label or not network.kernel_s:
                continue
            rows = raw.rows.where(raw.rows.networks == index)
            ran = {call: int(count) for call, count in zip(rows.calls, rows.counts, strict=True)}
            seen: Counter[KernelCall] = Counter()
            for each in capture_of(network).calls:
                seen[_as_recorded(each.call)] += each.count
            seen = Counter(
                {call: min(count, ran.get(call, 0)) if _is_turn(call) else count for call, count in seen.items()}
            )
            total = sum(ran.values())
            differ = sum((Counter(ran) - seen).values()) + sum((seen - Counter(ran)).values())
            assert differ <= 0.002 * total, (network.precision, network.layout)


def _as_recorded(call: KernelCall) -> KernelCall:
    """Joins of turned parts had the name of all joins when these rows were recorded."""
    return replace(call, variant="cat") if call.variant == "cat/s" else call


def _is_turn(call: KernelCall) -> bool:
    """Copies that a kernel makes first were part of it then."""
    return call.family == "copy" and call.variant == "copy/s"


def test_a_seed_draws_the_same_network_again() -> None:
    first, second = random_network(17), random_network(17)
    assert (first.label, first.batch, first.setup) == (second.label, second.batch, second.setup)
    assert capture(first.hook, 2, Setup()).calls == capture(second.hook, 2, Setup()).calls
