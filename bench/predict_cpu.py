"""Whole training iterations on this CPU: predicted from three minutes of profiling, against what they take.

``python -m bench.predict_cpu`` runs ``penstock profile device`` into a store of its own, predicts networks that the
profile has not seen, then trains them for real in turns of a few steps, each in a process of its own as a job would
be, and compares medians. Profile and networks run on one core with one thread and are compared by CPU time; wall time
stands beside it. Neighbours change even that: they share caches, memory and, on many clouds, the core itself. So some
networks of the profile run again among the others, and how much longer they take than when they were profiled is the
drift of the machine. Errors are given as they are and without the drift. The baseline is a roofline: every kernel at
the rate of a square product or of a copy, whichever takes longer.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

from penstock.predict.capture import Capture, Setup, capture
from penstock.predict.device_profile import DeviceProfile
from penstock.predict.iteration import IterationTime
from penstock.predict.lab.measuring.affordable_networks import affordable_network
from penstock.predict.lab.measuring.isolated_call import isolated_call
from penstock.predict.lab.measuring.training import Training
from penstock.predict.lab.records.measurements import MeasuredNetwork, read_measurements
from penstock.predict.zoo import Hook, cross_entropy, image_task, text_task, translation_task
from penstock.predict.zoo.images import convnext_net, densenet, efficientnet_b0, mobilenet_v2, resnet
from penstock.predict.zoo.tokens import EncoderDecoder, LanguageModel, TransformerShape, VisionTransformer

GOAL = 0.15
_WARM_S, _LAPS = 0.5, 4
"""A turn: half a second and at least two steps bring the network into caches and memory, the steps after count."""
_AGAIN = 10
"""Networks of the profile that run again."""
_AGAIN_S = (0.04, 0.6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A network the profile has not seen."""

    name: str
    hook: Hook
    batch: int
    setup: Setup


@dataclass(frozen=True, slots=True, kw_only=True)
class Laps:
    """A network that is trained in turns, and how long each step took."""

    case: Case
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def turn(self) -> None:
        for wall, cpu in isolated_call(partial(_steps, self.case)):
            self.wall.append(wall)
            self.cpu.append(cpu)

    @property
    def seconds(self) -> float:
        return median(self.cpu)


def _steps(case: Case) -> list[tuple[float, float]]:
    training = Training(case.hook, case.batch, case.setup, "cpu")
    training.step()
    begin = time.process_time()
    training.step()
    while time.process_time() - begin < _WARM_S:
        training.step()
    taken = []
    for _ in range(_LAPS):
        wall, cpu = time.perf_counter(), time.process_time()
        training.step()
        taken.append((time.perf_counter() - wall, time.process_time() - cpu))
    return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """What was predicted for a case, and what it took."""

    seen: Capture
    predicted: IterationTime
    laps: Laps


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A network of the profile, what it took then, and what it takes now."""

    before_s: float
    laps: Laps


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--minutes", type=float, default=3.0, help="how long to profile")
    parser.add_argument("--turns", type=int, default=5, help="turns of every network")
    parser.add_argument("--store", type=Path, help="use (or keep) the profile in this folder")
    options = parser.parse_args()
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        store = options.store or Path(scratch)
        if not (store / "profiles" / "cpu" / "profile.json").exists():
            profile_here(store, options.minutes)
        profile = DeviceProfile.load(store / "profiles" / "cpu")
        profiled = read_measurements(store / "profiles" / "cpu")[0].networks
    print_profile(profile, core, len(profiled))
    torch.manual_seed(0)
    tested, again = [prepared(case, profile) for case in CASES], once_more(profiled)
    for _ in range(options.turns):
        for laps in [each.laps for each in tested] + [each.laps for each in again]:
            laps.turn()
    drift = float(np.exp(np.median([np.log(each.laps.seconds / each.before_s) for each in again])))
    print_tested(tested, profile, drift)


def profile_here(store: Path, minutes: float) -> None:
    """As a user would, on the core and with the thread that the networks will have."""
    command = [sys.executable, "-m", "penstock.cli", "profile", "device", "--kind", "cpu", "--minutes", str(minutes)]
    around = os.environ | {"PENSTOCK_DATA_DIR": str(store), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    begin = time.monotonic()
    subprocess.run(command, env=around, check=True)
    print(f"profiled and fitted in {time.monotonic() - begin:.0f} s of wall time")


def prepared(case: Case, profile: DeviceProfile) -> Tested:
    seen = capture(case.hook, case.batch, case.setup, device="cpu")
    return Tested(seen=seen, predicted=profile.iteration.predict(seen), laps=Laps(case=case))


def once_more(profiled: Sequence[MeasuredNetwork]) -> list[Again]:
    """Some of the profile's networks, from its whole duration; a label ends in the number of the draw."""
    fit = [network for network in profiled if _AGAIN_S[0] < network.seconds < _AGAIN_S[1]]
    chosen = [fit[int(place)] for place in np.linspace(0, len(fit) - 1, min(_AGAIN, len(fit)))]
    items = [affordable_network(int(network.label.rsplit("-", 1)[1]), "cpu")[0] for network in chosen]
    return [
        Again(
            before_s=network.seconds,
            laps=Laps(case=Case(name=item.label, hook=item.hook, batch=item.batch, setup=item.setup)),
        )
        for network, item in zip(chosen, items, strict=True)
    ]


def print_profile(profile: DeviceProfile, core: int, networks: int) -> None:
    about = profile.environment
    print(
        f"{about['name']}, PyTorch {about['torch']}, {about['threads']} thread, core {core}, {networks} networks;"
        f" product {profile.chip.vector_peak / 1e9:.0f} GFLOP/s, copy {profile.chip.bandwidth / 1e9:.1f} GB/s;"
        f" load of the machine {os.getloadavg()[0]:.1f}"
    )


def print_tested(tested: Sequence[Tested], profile: DeviceProfile, drift: float) -> None:
    print(
        f"\n{'network':<22} {'batch':>5} {'predicted':>10} {'CPU time':>9} {'wall':>8} {'error':>7} {'no drift':>9}"
        f" {'roofline':>9}  in bar"
    )
    errors, still, roof = [], [], []
    for each in tested:
        took, found = each.laps.seconds, each.predicted
        errors.append(found.seconds / took - 1)
        still.append(found.seconds * drift / took - 1)
        roof.append(roofline_s(each.seen, profile) * drift / took - 1)
        print(
            f"{each.laps.case.name:<22} {each.laps.case.batch:>5} {1e3 * found.seconds:>8.1f}ms {1e3 * took:>7.1f}ms"
            f" {1e3 * median(each.laps.wall):>6.1f}ms {errors[-1]:>+7.1%} {still[-1]:>+9.1%} {roof[-1]:>+9.1%}"
            f"  {'yes' if found.low <= took / drift <= found.high else 'no'}"
        )
    print(f"networks of the profile that ran again took {drift - 1:+.1%} (median): the drift of the machine")
    for label, values in (("as it is", errors), ("without drift", still), ("roofline, without drift", roof)):
        sizes = np.abs(values)
        print(
            f"{label:<24} mean error {sizes.mean():.1%}, largest {sizes.max():.1%},"
            f" {np.sum(sizes <= GOAL)} of {len(sizes)} within {GOAL:.0%}"
        )


def roofline_s(seen: Capture, profile: DeviceProfile) -> float:
    """The baseline: every kernel at the rate of a product or of a copy, whichever takes longer."""
    chip = profile.chip
    return sum(
        each.count
        * max(each.call.flops / chip.vector_peak, (each.call.read_bytes + each.call.written_bytes) / chip.bandwidth)
        for each in seen.calls
    )


def _images(name: str, build: Callable[[], nn.Module], batch: int, pixels: int, optimizer: str = "sgd") -> Case:
    hook = partial(image_task, build, pixels=pixels)
    return Case(name=name, hook=hook, batch=batch, setup=Setup(precision="fp32", optimizer=optimizer))


def _words(name: str, shape: TransformerShape, batch: int, *, masked: bool = False) -> Case:
    hook = partial(text_task, partial(LanguageModel, shape, masked_head=masked), shape.length, shape.vocabulary)
    return Case(name=name, hook=hook, batch=batch, setup=Setup(precision="fp32", optimizer="adamw"))


def _vit_tiny() -> nn.Module:
    shape = TransformerShape(layers=6, hidden=192, heads=3, inner=768, fused_qkv=True)
    return VisionTransformer(shape, patch=8, pixels=64)


def _digits(batch: int) -> Any:
    """A fully connected network on 28x28 images."""
    layers = [nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)]
    return nn.Sequential(*layers), (torch.randn(batch, 784),), cross_entropy(torch.randint(10, (batch,)))


_BERT = TransformerShape(
    layers=4, hidden=256, heads=4, inner=1024, vocabulary=30522, length=128, after=True, dropout=0.1, tied=True
)
_GPT = TransformerShape(
    layers=4, hidden=384, heads=6, inner=1536, vocabulary=8192, length=256, causal=True, fused_qkv=True,
    activation="tanh-gelu", dropout=0.1, tied=True,
)  # fmt: skip
_T5 = TransformerShape(
    layers=3, hidden=256, heads=4, head_dim=64, inner=1024, vocabulary=16000, rms=True, bias=False, rotary=True,
    activation="relu", dropout=0.1,
)  # fmt: skip
_LLAMA = TransformerShape(
    layers=4, hidden=320, heads=5, inner=896, vocabulary=16000, length=128, causal=True, gated=True, rms=True,
    bias=False, rotary=True, activation="silu",
)  # fmt: skip

CASES: tuple[Case, ...] = (
    _images("resnet18 64x64", lambda: resnet((2, 2, 2, 2), deep=False), 8, 64),
    _images("resnet50 64x64", lambda: resnet((3, 4, 6, 3)), 4, 64),
    _images("mobilenet-v2 96x96", mobilenet_v2, 4, 96),
    _images("efficientnet-b0 64x64", efficientnet_b0, 4, 64),
    _images("densenet121 64x64", densenet, 4, 64),
    _images("convnext-atto 64x64", lambda: convnext_net((2, 2, 6, 2), (40, 80, 160, 320)), 16, 64, "adamw"),
    _images("vit-tiny 64x64", _vit_tiny, 8, 64, "adamw"),
    Case(name="mlp 784", hook=_digits, batch=128, setup=Setup(precision="fp32", optimizer="sgd")),
    _words("bert-mini", _BERT, 1, masked=True),
    _words("gpt-mini", _GPT, 1),
    _words("llama-mini", _LLAMA, 2),
    Case(
        name="t5-mini", hook=partial(translation_task, partial(EncoderDecoder, _T5), 96, 16000), batch=2,
        setup=Setup(precision="fp32", optimizer="adamw"),
    ),
)  # fmt: skip


if __name__ == "__main__":
    main()
