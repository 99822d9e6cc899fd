"""Predictions from data sheets, against iterations that others measured on those devices.

``python -m bench.devices`` prints a line for every source, device and arithmetic, then how often bars tell the truth:
with the width that ships, and for every device with a width chosen on all the others. Nothing was fitted to any of
these devices. ``--each`` prints every iteration.
"""

import argparse
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.devices.measured import MeasuredIteration, measured_iterations
from penstock.predict import DeviceProfile, TrainingPhase, device_named
from penstock.predict.capture import Capture, capture

COVERED = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A measured part of an iteration, and what is predicted of it."""

    measured: MeasuredIteration
    seconds: float
    low: float
    high: float
    roofline_s: float

    @property
    def off(self) -> float:
        """As a logarithm."""
        return math.log(self.seconds / self.measured.seconds)

    @property
    def inside(self) -> bool:
        return self.low <= self.measured.seconds <= self.high

    @property
    def stretch(self) -> float:
        """How much wider its bar would have to be to reach what was measured: below 1 it lies inside."""
        side = self.low if self.off > 0 else self.high
        return abs(self.off / math.log(side / self.seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else "")
    parser.add_argument("--each", action="store_true", help="a line for every iteration")
    given = parser.parse_args()
    compared = comparisons(measured_iterations())
    if given.each:
        print_each(compared)
    print_groups(compared)
    print_bars(compared)


def comparisons(found: Sequence[MeasuredIteration]) -> list[Compared]:
    captures: dict[tuple[object, ...], Capture] = {}
    compared = []
    for each in found:
        key = (each.network, each.batch, each.setup, each.part == "forward")
        if key not in captures:
            captures[key] = capture(each.hook, each.batch, each.setup)
        compared.append(_compared(each, captures[key]))
    return compared


def _compared(each: MeasuredIteration, seen: Capture) -> Compared:
    profile = DeviceProfile.unprofiled(device_named(each.device))
    time = profile.iteration.predict(seen)
    share = _share(each.part, time.by_phase)
    chip = profile.chip
    roofline = sum(
        one.count * max(one.call.flops / chip.peak(one.call.precision),
                        (one.call.read_bytes + one.call.written_bytes) / chip.bandwidth)
        for one in seen.calls if one.phase in _PHASES[each.part]
    )  # fmt: skip
    return Compared(
        measured=each, seconds=share * time.seconds, low=share * time.low, high=share * time.high, roofline_s=roofline
    )


_PHASES = {
    "forward": (TrainingPhase.FORWARD,),
    "gradients": (TrainingPhase.FORWARD, TrainingPhase.BACKWARD),
    "iteration": tuple(TrainingPhase),
}


def _share(part: str, by_phase: Mapping[TrainingPhase, float]) -> float:
    """Which share of an iteration's kernels belongs to the part that was measured."""
    return sum(by_phase.get(phase, 0.0) for phase in _PHASES[part]) / sum(by_phase.values())


def print_each(compared: Sequence[Compared]) -> None:
    for each in compared:
        one = each.measured
        print(
            f"{one.source:9s}{one.device:16s}{one.network:17s}{one.batch:5d} {one.precision:9s}{one.part:10s}"
            f"{1e3 * one.seconds:10.1f}{1e3 * each.seconds:10.1f}  [{1e3 * each.low:8.1f},{1e3 * each.high:8.1f}]"
            f"{' ' if each.inside else '!'}{100 * (math.exp(each.off) - 1):+7.1f} %"
        )


def print_groups(compared: Sequence[Compared]) -> None:
    groups: dict[tuple[str, str, str, str], list[Compared]] = defaultdict(list)
    for each in compared:
        one = each.measured
        groups[one.source, one.device, one.part, one.precision].append(each)
    print(f"{'source':10s}{'device':16s}{'part':11s}{'arithmetic':11s}{'n':>4s}{'mean':>7s}{'bias':>7s}{'inside':>8s}"
          f"{'roofline':>10s}   (%)")  # fmt: skip
    for (source, device, part, precision), some in sorted(groups.items()):
        print(f"{source:10s}{device:16s}{part:11s}{precision:11s}{_sums(some)}")
    print(f"{'all':48s}{_sums(compared)}")


def _sums(some: Sequence[Compared]) -> str:
    off = np.array([each.off for each in some])
    flat = np.mean([abs(each.roofline_s / each.measured.seconds - 1) for each in some])
    return (
        f"{len(some):4d}{100 * np.abs(np.exp(off) - 1).mean():7.1f}{100 * np.expm1(off.mean()):+7.1f}"
        f"{100 * np.mean([each.inside for each in some]):8.0f}{100 * flat:10.0f}"
    )


def print_bars(compared: Sequence[Compared]) -> None:
    """Widths chosen on all other devices: would a bar have been true on a device that nobody had seen?"""
    inside = sum(each.inside for each in compared)
    print(f"\ninside the bars that ship: {inside} of {len(compared)} ({100 * inside / len(compared):.0f} %)")
    print(f"{'device left out':18s}{'n':>4s}{'bars wider by':>15s}{'inside':>8s}")
    kept = 0
    for device in sorted({each.measured.device for each in compared}):
        mine = [each for each in compared if each.measured.device == device]
        wider = float(np.quantile([each.stretch for each in compared if each not in mine], COVERED))
        covered = sum(each.stretch <= wider for each in mine)
        kept += covered
        print(f"{device:18s}{len(mine):4d}{wider:14.2f}x{100 * covered / len(mine):7.0f} %")
    print(f"{'all':18s}{len(compared):4d}{'':15s}{100 * kept / len(compared):7.0f} %")


if __name__ == "__main__":
    main()
