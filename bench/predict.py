"""Kernels and whole iterations on an H200: predicted without running them, against what was measured.

Everything comes from the raw measurements beside this file; no GPU is needed. Four questions, a table each:

1. kernels of networks held out completely;
2. kernels of shape families held out (a layer at none of its batch sizes was learned from);
3. whole iterations of networks held out, without and with one measured iteration at another batch size;
4. memory and energy of the same iterations, and power under steady load.

``python -m bench.predict`` fits from scratch; ``--shipped`` uses the fitted model that ships. SEER's published errors
are printed beside ours: 14.71 % RMSPE for convolution kernels (Titan V), iterations within 1.79 %.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from penstock.predict.capture import Capture
from penstock.predict.device_profile import SHIPPED, DeviceProfile
from penstock.predict.hardware import device_named
from penstock.predict.kernels import KernelCall, kind_of, shape_family
from penstock.predict.lab.fitting.boosting import BoostingOptions
from penstock.predict.lab.fitting.family_fitting import folds_of
from penstock.predict.lab.fitting.kernel_fitting import fit_kernels
from penstock.predict.lab.fitting.profile_fitting import captured, fit_profile, steady_loads, training_calls
from penstock.predict.lab.records.measurements import MeasuredNetwork, Measurements, read_measurements, read_power

DEVICE = "h200"
MEASUREMENTS = Path(__file__).parent / "measurements" / DEVICE
"""Raw rows that the shipped profile was fitted to."""
SEER_KERNELS, SEER_ITERATION = 0.1471, 0.0179
LAST = (
    "googlenet", "squeezenet", "shufflenet-v2", "mobilenet-v3", "efficientnet-b2", "densenet169", "convnext-small",
    "deit-tiny", "vit-b-32", "roberta-large", "opt-1.3b", "pythia-410m", "qwen2-0.5b", "smollm-360m", "t5-large",
)  # fmt: skip
"""Measured last: nothing about the model was chosen by looking at them. The other held-out networks were looked at."""
_ISSUED = 0.75
_STEADY = 0.03
_FOLDS = 5

Floats = NDArray[np.float64]
Seen = tuple[MeasuredNetwork, Capture]


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Relative errors of predictions, and of their sum."""

    values: Floats
    of_sum: float

    @classmethod
    def of(cls, predicted: Iterable[float], measured: Iterable[float]) -> "Errors":
        found, truth = np.fromiter(predicted, dtype=float), np.fromiter(measured, dtype=float)
        return cls(values=found / truth - 1, of_sum=float(found.sum() / truth.sum() - 1) if len(truth) else 0.0)

    def line(self, label: str) -> str:
        if not len(self.values):
            return f"{label:42s}      -"
        size = np.abs(self.values)
        return (
            f"{label:42s} {len(size):6d} {100 * size.mean():7.2f} {100 * np.sqrt((size**2).mean()):7.2f} "
            f"{100 * np.median(size):7.2f} {100 * self.of_sum:+7.2f} {100 * size.max():7.1f}"
        )


HEADER = f"{'':42s} {'n':>6s} {'MAPE':>7s} {'RMSPE':>7s} {'median':>7s} {'of sum':>7s} {'max':>7s}   (%)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else "")
    parser.add_argument("--shipped", action="store_true", help="use the model that ships instead of fitting")
    parser.add_argument("--folds", type=int, default=1, help="how many of five folds of shape families to hold out")
    parser.add_argument("--trees", type=int, default=None, help="trees of each family's residual model")
    given = parser.parse_args()
    raw = read_measurements(MEASUREMENTS)
    options = BoostingOptions(trees=given.trees) if given.trees else None
    print_data(raw)
    start = time.process_time()
    profile = DeviceProfile.load(SHIPPED / DEVICE) if given.shipped else fitted(raw, options)
    print(f"profile {'loaded' if given.shipped else 'fitted'} in {time.process_time() - start:.1f} s of CPU time")
    print_kernels(raw, profile)
    if given.folds:
        print_folds(raw, options, given.folds)
    start = time.process_time()
    tested = list(captured(raw, held_out=True))
    print(
        f"\n{len(tested)} iterations of held-out networks captured in {time.process_time() - start:.0f} s of CPU time"
    )
    print_iterations(tested, profile)
    print_networks(tested, profile)
    print_memory_and_energy(tested, profile)


def fitted(raw: Sequence[Measurements], options: BoostingOptions | None) -> DeviceProfile:
    return fit_profile(DEVICE, device_named(DEVICE), raw, loads=read_power(MEASUREMENTS), options=options)


def print_data(raw: Sequence[Measurements]) -> None:
    networks = [network for each in raw for network in each.networks]
    held = {network.label for network in networks if network.held_out}
    bags = sum(network.is_bag for network in networks)
    timed = sum(network.seconds > 0 for network in networks)
    print(
        f"{raw[0].environment['name']}, PyTorch {raw[0].environment['torch']}: "
        f"{sum(len(each.rows) for each in raw)} kernel rows of {timed} measured iterations, "
        f"{len(networks) - timed - bags} networks measured for their kernels alone and {bags} bags of layers; "
        f"{len(held)} networks held out; {len(training_calls(raw))} rows to learn from"
    )


def print_kernels(raw: Sequence[Measurements], profile: DeviceProfile) -> None:
    """Kernels of networks held out, as they ran inside them."""
    rows = [
        (each.rows.calls[i], float(each.rows.seconds[i]), each.networks[each.rows.networks[i]].label)
        for each in raw
        for i in np.flatnonzero(each.held_out())
    ]
    calls, seconds = [call for call, _, _ in rows], np.array([measured for _, measured, _ in rows])
    profile.iteration.kernels.predict(calls[:9])
    start = time.process_time()
    found = profile.iteration.kernels.predict(calls)
    took = time.process_time() - start
    print(
        f"\n1. kernels of held-out networks ({len(set(calls))} distinct predicted in {1e3 * took:.0f} ms of CPU time)"
    )
    print_by_class(calls, found.seconds, seconds)
    inside = (found.low <= seconds) & (seconds <= found.high)
    print(f"inside their bars: {100 * inside.mean():.0f} % of kernels")
    known = {(kind_of(row.call), shape_family(row.call)) for row in training_calls(raw)}
    last = np.array([label in LAST for _, _, label in rows])
    new = np.array([(kind_of(call), shape_family(call)) not in known for call in calls])
    print(HEADER)
    for label, chosen in (("networks measured last", last), ("layers never seen at any batch size", new)):
        print(Errors.of(found.seconds[chosen], seconds[chosen]).line(label))


def print_folds(raw: Sequence[Measurements], options: BoostingOptions | None, count: int) -> None:
    """Kernels held out by family of shapes: no two calls of one family lie in different folds."""
    rows = training_calls(raw)
    folds = folds_of([row.call for row in rows], _FOLDS, 1)
    predicted = np.zeros(len(rows))
    for fold in range(count):
        inside = np.flatnonzero(folds == fold)
        model = fit_kernels([rows[i] for i in np.flatnonzero(folds != fold)], device_named(DEVICE), options=options)
        predicted[inside] = model.predict([rows[int(i)].call for i in inside]).seconds
    print(f"\n2. kernels held out by family of shapes ({count} of {_FOLDS} folds)")
    alone = np.array([row.alone for row in rows])
    for title, chosen in (("in networks", ~alone), ("random layers in bags", alone)):
        print(f"{title}:")
        tested = np.flatnonzero((folds < count) & chosen)
        print_by_class([rows[i].call for i in tested], predicted[tested], np.array([rows[i].seconds for i in tested]))


def print_by_class(calls: Sequence[KernelCall], predicted: Floats, measured: Floats) -> None:
    print(HEADER)
    print(Errors.of(predicted, measured).line("all kernels"))
    long = measured > 1e-5
    print(Errors.of(predicted[long], measured[long]).line("longer than 10 us"))
    groups: dict[str, list[int]] = defaultdict(list)
    for index, call in enumerate(calls):
        groups[kind_of(call)].append(index)
    conv = [i for family, members in groups.items() if family.startswith("conv") for i in members]
    print(Errors.of(predicted[conv], measured[conv]).line(f"convolutions (SEER {100 * SEER_KERNELS:.2f})"))
    for family, members in sorted(groups.items()):
        print(Errors.of(predicted[members], measured[members]).line(f"  {family}"))


def waited_for_device(network: MeasuredNetwork) -> bool:
    """By measurement alone: the host was done early and the iterations were alike."""
    return network.issue_s < _ISSUED * network.seconds and network.spread < _STEADY


def uncalibrated(profile: DeviceProfile, found: Sequence[Seen]) -> Errors:
    return Errors.of((profile.iteration.predict(seen).seconds for _, seen in found), (n.seconds for n, _ in found))


def calibrated(profile: DeviceProfile, pairs: Sequence[tuple[Seen, Seen]]) -> Errors:
    predicted = [
        profile.iteration.calibrated(other, one.seconds).predict(seen).seconds for (one, other), (_, seen) in pairs
    ]
    return Errors.of(predicted, (network.seconds for _, (network, _) in pairs))


def print_iterations(tested: Sequence[Seen], profile: DeviceProfile) -> None:
    device = [(network, seen) for network, seen in tested if waited_for_device(network)]
    host = [(network, seen) for network, seen in tested if not waited_for_device(network)]
    last = [(network, seen) for network, seen in device if network.label in LAST]
    print(f"\n3. iterations of held-out networks (SEER {100 * SEER_ITERATION:.2f})")
    print(f"{len(host)} of {len(tested)} waited for the host")
    print(HEADER)
    print(uncalibrated(profile, device).line("device-bound, nothing measured"))
    print(uncalibrated(profile, last).line("  networks measured last"))
    print(uncalibrated(profile, host).line("host-bound, nothing measured"))
    pairs = calibrations(device)
    print(calibrated(profile, pairs).line("device-bound, one other batch size measured"))
    print(calibrated(profile, calibrations(last)).line("  networks measured last"))
    scaled = [one.seconds * network.batch / one.batch for (one, _), (network, _) in pairs]
    print(Errors.of(scaled, (network.seconds for _, (network, _) in pairs)).line("  baseline: scaled by the batch"))
    inside = [_within(profile, network, seen) for network, seen in device]
    print(f"inside their bars: {100 * np.mean(inside):.0f} %")


def print_networks(tested: Sequence[Seen], profile: DeviceProfile) -> None:
    """One line a network: how many of its iterations waited for the device, and mean errors over those."""
    print(
        f"\n{'network (* measured last)':26s} {'n':>4s} {'nothing measured':>17s} {'one measured':>13s}   mean error, %"
    )
    means = []
    for name in sorted({network.label for network, _ in tested}, key=lambda name: (name in LAST, name)):
        mine = [(network, seen) for network, seen in tested if network.label == name and waited_for_device(network)]
        pairs = calibrations(mine)
        free, fixed = _mean(uncalibrated(profile, mine)), _mean(calibrated(profile, pairs))
        means.append((free, fixed))
        print(f"{name + (' *' if name in LAST else ''):26s} {len(mine):4d} {free:17.2f} {fixed:13.2f}")
    free, fixed = np.nanmean(np.array(means), axis=0)
    print(f"{'mean over networks':26s} {'':4s} {free:17.2f} {fixed:13.2f}")


def _mean(errors: Errors) -> float:
    return 100 * float(np.abs(errors.values).mean()) if len(errors.values) else float("nan")


def _within(profile: DeviceProfile, network: MeasuredNetwork, seen: Capture) -> bool:
    time = profile.iteration.predict(seen)
    return time.low <= network.seconds <= time.high


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
    print("\n4. memory and energy of held-out networks")
    print(HEADER)
    with_peak = [(network, seen) for network, seen in tested if network.peak_bytes and network.reserved_bytes]
    peaks = [float(network.peak_bytes or 1) for network, _ in with_peak]
    found = [profile.memory.predict(seen.memory).allocated for _, seen in with_peak]
    print(Errors.of(found, peaks).line("peak allocated"))
    print(Errors.of((float(seen.memory.peak) for _, seen in with_peak), peaks).line("  tensors alone"))
    times = [
        (network, profile.iteration.predict(seen))
        for network, seen in tested
        if network.joules and waited_for_device(network)
    ]
    joules = [profile.power.energy_j(t.by_bound, max(t.seconds, sum(t.by_bound.values()))) for _, t in times]
    measured = [float(network.joules or 1) for network, _ in times]
    print(Errors.of(joules, measured).line("joules, device-bound"))
    print(Errors.of((profile.chip.tdp_w * t.seconds for _, t in times), measured).line("  baseline: design power"))
    loads = steady_loads(read_power(MEASUREMENTS))
    print(
        Errors.of(
            (profile.power.energy_j(run.seconds, run.wall_s) for run in loads), (run.joules for run in loads)
        ).line("watts under steady load (learned from)")
    )


if __name__ == "__main__":
    main()
