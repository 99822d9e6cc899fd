"""Kernels and whole iterations on an H200: predicted without running them, against what was measured.

Everything comes from the raw measurements in the package; no GPU is needed. Three questions:

1. kernels of shapes nobody measured (folds by family of shapes) and of networks held out completely;
2. whole iterations of networks held out, without and with one measured iteration at another batch size;
3. memory and energy of the same iterations.

``python -m bench.predict`` fits from scratch; ``--shipped`` uses the fitted model that ships. SEER's published errors
are printed beside ours: 14.71 % RMSPE for convolution kernels (Titan V), iterations within 1.79 %.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.estimate.capture import Capture
from penstock.estimate.device_profile import SHIPPED, DeviceProfile
from penstock.estimate.hardware import device_named
from penstock.estimate.kernels import Growth, KernelCall, KernelModel, folds_of
from penstock.estimate.measure.raw import MeasuredNetwork, Raw, read_raw
from penstock.estimate.profile_fitting import captured, fit_profile, training_calls

DEVICE = "h200"
SEER_KERNELS, SEER_ITERATION = 0.1471, 0.0179
_ISSUED = 0.75
_STEADY = 0.03
_FOLDS = 5

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Relative errors of predictions."""

    values: Floats

    @classmethod
    def of(cls, predicted: Iterable[float], measured: Iterable[float]) -> "Errors":
        found = np.fromiter(predicted, dtype=float) / np.fromiter(measured, dtype=float)
        return cls(values=found - 1)

    def line(self, label: str) -> str:
        if not len(self.values):
            return f"{label:34s}      -"
        size = np.abs(self.values)
        return (
            f"{label:34s} {len(size):6d} {100 * size.mean():7.2f} {100 * np.sqrt((size**2).mean()):7.2f} "
            f"{100 * np.median(size):7.2f} {100 * self.values.mean():+7.2f} {100 * size.max():7.1f}"
        )


HEADER = f"{'':34s} {'n':>6s} {'MAPE':>7s} {'RMSPE':>7s} {'median':>7s} {'bias':>7s} {'max':>7s}   (%)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else "")
    parser.add_argument("--shipped", action="store_true", help="use the model that ships instead of fitting")
    parser.add_argument("--no-folds", action="store_true", help="leave out the cross-validation by shape")
    parser.add_argument("--trees", type=int, default=None, help="trees of each family's residual model")
    options = parser.parse_args()
    raw = read_raw(SHIPPED / DEVICE)
    growth = Growth(trees=options.trees) if options.trees else None
    print_data(raw)
    start = time.process_time()
    profile = (
        DeviceProfile.load(SHIPPED / DEVICE)
        if options.shipped
        else fit_profile(DEVICE, device_named(DEVICE), raw, growth=growth)
    )
    print(f"profile {'loaded' if options.shipped else 'fitted'} in {time.process_time() - start:.0f} s of CPU time")
    if not options.no_folds:
        print_folds(raw, growth)
    print_kernels(raw, profile)
    start = time.process_time()
    tested = list(captured(raw, held_out=True))
    print(f"{len(tested)} iterations of held-out networks captured in {time.process_time() - start:.0f} s of CPU time")
    print_iterations(tested, profile)
    print_memory_and_energy(tested, profile)


def print_data(raw: Sequence[Raw]) -> None:
    networks = [network for each in raw for network in each.networks]
    held = {network.label for network in networks if network.held_out}
    print(
        f"{raw[0].environment['name']}, PyTorch {raw[0].environment['torch']}: "
        f"{sum(len(each.rows) for each in raw)} kernel rows, {len(networks)} measured iterations, "
        f"{len(held)} networks held out; {len(training_calls(raw))} rows to learn from"
    )


def print_folds(raw: Sequence[Raw], growth: Growth | None) -> None:
    """Kernels held out by family of shapes: no two calls of one family lie in different folds."""
    rows = training_calls(raw)
    folds = folds_of([row.call for row in rows], _FOLDS, 0)
    predicted = np.zeros(len(rows))
    for fold in range(_FOLDS):
        inside = np.flatnonzero(folds == fold)
        model = KernelModel.fit([rows[i] for i in np.flatnonzero(folds != fold)], device_named(DEVICE), growth=growth)
        predicted[inside] = model.predict([rows[int(i)].call for i in inside]).seconds
    print("\nkernels held out by family of shapes")
    print_by_class([row.call for row in rows], predicted, np.array([row.seconds for row in rows]))


def print_kernels(raw: Sequence[Raw], profile: DeviceProfile) -> None:
    """Kernels of networks held out, as they ran inside them."""
    calls: list[KernelCall] = []
    seconds: list[float] = []
    weights: list[float] = []
    for each in raw:
        for index in np.flatnonzero(each.held_out()):
            calls.append(each.rows.calls[index])
            seconds.append(float(each.rows.seconds[index]))
            weights.append(float(each.rows.counts[index]))
    start = time.process_time()
    found = profile.iteration.kernels.predict(calls)
    took = time.process_time() - start
    print(f"\nkernels of held-out networks ({len(calls)} predicted in {1e3 * took:.0f} ms)")
    print_by_class(calls, found.seconds, np.array(seconds))
    inside = (found.low <= seconds) & (np.array(seconds) <= found.high)
    bias = float((found.seconds * weights).sum() / (np.array(seconds) * weights).sum()) - 1
    print(f"inside their bars: {100 * inside.mean():.0f} % of kernels; bias of their sum {100 * bias:+.2f} %")


def print_by_class(calls: Sequence[KernelCall], predicted: Floats, measured: Floats) -> None:
    print(HEADER)
    print(Errors.of(predicted, measured).line("all kernels"))
    long = measured > 1e-5
    print(Errors.of(predicted[long], measured[long]).line("longer than 10 us"))
    groups: dict[str, list[int]] = defaultdict(list)
    for index, call in enumerate(calls):
        groups[call.family].append(index)
    conv = [i for family, members in groups.items() if family.startswith("conv") for i in members]
    print(Errors.of(predicted[conv], measured[conv]).line(f"convolutions (SEER {100 * SEER_KERNELS:.2f})"))
    for family, members in sorted(groups.items()):
        print(Errors.of(predicted[members], measured[members]).line(f"  {family}"))


def waited_for_device(network: MeasuredNetwork) -> bool:
    """By measurement alone: the host was done early and the iterations were alike."""
    return network.issue_s < _ISSUED * network.seconds and network.spread < _STEADY


def print_iterations(tested: Sequence[tuple[MeasuredNetwork, Capture]], profile: DeviceProfile) -> None:
    device = [(network, seen) for network, seen in tested if waited_for_device(network)]
    host = [(network, seen) for network, seen in tested if not waited_for_device(network)]
    print(f"\niterations of held-out networks (SEER {100 * SEER_ITERATION:.2f})")
    print(f"{len(host)} of {len(tested)} waited for the host")
    print(HEADER)
    for label, group in (("device-bound, nothing measured", device), ("host-bound, nothing measured", host)):
        print(
            Errors.of(
                (profile.iteration.predict(seen).seconds for _, seen in group), (n.seconds for n, _ in group)
            ).line(label)
        )
    pairs = calibrations(device)
    corrected = [
        profile.iteration.calibrated(other, one.seconds).predict(seen).seconds for (one, other), (_, seen) in pairs
    ]
    print(Errors.of(corrected, (network.seconds for _, (network, _) in pairs)).line("device-bound, one measured"))
    scaled = [one.seconds * network.batch / one.batch for (one, _), (network, _) in pairs]
    print(Errors.of(scaled, (network.seconds for _, (network, _) in pairs)).line("  baseline: scaled by the batch"))
    inside = [_within(profile, network, seen) for network, seen in device]
    print(f"inside their bars: {100 * np.mean(inside):.0f} %")
    for name in sorted({network.label for network, _ in device}):
        mine = [(network, seen) for network, seen in device if network.label == name]
        print(
            Errors.of((profile.iteration.predict(seen).seconds for _, seen in mine), (n.seconds for n, _ in mine)).line(
                f"  {name}"
            )
        )


def _within(profile: DeviceProfile, network: MeasuredNetwork, seen: Capture) -> bool:
    time = profile.iteration.predict(seen)
    return time.low <= network.seconds <= time.high


Seen = tuple[MeasuredNetwork, Capture]


def calibrations(found: Sequence[Seen]) -> list[tuple[Seen, Seen]]:
    """(measured, predicted): the same network and setup at another batch size, the next smaller one or else larger."""
    groups: dict[tuple[str, str, str], list[Seen]] = defaultdict(list)
    for network, seen in found:
        groups[network.label, network.precision, network.layout].append((network, seen))
    pairs = []
    for group in groups.values():
        ordered = sorted(group, key=lambda pair: pair[0].batch)
        pairs += [(ordered[i - 1] if i else ordered[1], ordered[i]) for i in range(len(ordered)) if len(ordered) > 1]
    return pairs


def print_memory_and_energy(tested: Sequence[Seen], profile: DeviceProfile) -> None:
    print("\nmemory and energy of held-out networks")
    print(HEADER)
    with_peak = [(network, seen) for network, seen in tested if network.peak_bytes and network.reserved_bytes]
    print(
        Errors.of(
            (profile.memory.predict(s.memory).allocated for _, s in with_peak),
            (float(n.peak_bytes or 1) for n, _ in with_peak),
        ).line("peak allocated")
    )
    print(
        Errors.of((float(s.memory.peak) for _, s in with_peak), (float(n.peak_bytes or 1) for n, _ in with_peak)).line(
            "  tensors alone"
        )
    )
    times = [
        (network, profile.iteration.predict(seen))
        for network, seen in tested
        if network.joules and waited_for_device(network)
    ]
    joules = [profile.power.energy_j(t.by_bound, max(t.seconds, sum(t.by_bound.values()))) for _, t in times]
    print(Errors.of(joules, (float(n.joules or 1) for n, _ in times)).line("joules, device-bound"))
    flat = [profile.chip.tdp_w * t.seconds for _, t in times]
    print(Errors.of(flat, (float(n.joules or 1) for n, _ in times)).line("  baseline: design power"))


if __name__ == "__main__":
    main()
