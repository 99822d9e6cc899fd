"""How well strangers are predicted: iterations, bars and memory, against what was measured on an H200 (no GPU needed).

``python -m bench.strangers`` prints a line for every measured iteration and sums over kinds; blind ones come apart from
those that calibrate. Beside ours stands a roofline: operations over peak rates and bytes over bandwidth.
``--left-out`` fits the table of operations and the host's costs anew for every kind, without that kind; for blind ones,
which are never learned from, once.
"""

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.strangers.measured import MeasuredStranger, measured_strangers
from penstock.predict import DeviceProfile, profile_named
from penstock.predict.capture import Capture
from penstock.predict.iteration import IterationTime

DEVICE = "h200"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One iteration: what was measured, what was predicted, and what it is with another batch size measured."""

    measured: MeasuredStranger
    time: IterationTime
    with_other_s: float | None
    roofline_s: float
    needed: float

    @property
    def error(self) -> float:
        return self.time.seconds / self.measured.seconds - 1

    @property
    def inside(self) -> bool:
        return self.time.low <= self.measured.seconds <= self.time.high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else "")
    parser.add_argument("--left-out", action="store_true", help="fit anew for every kind, without it")
    given = parser.parse_args()
    found = measured_strangers()
    compared = left_out(found) if given.left_out else comparisons(found, profile_named(DEVICE))
    print_lines(compared)
    print_sums(compared)


def comparisons(found: Sequence[MeasuredStranger], profile: DeviceProfile) -> list[Compared]:
    seen = {(each.stranger.name, each.batch): (each, each.capture()) for each in found}
    return [_compared(each, capture, seen, profile) for each, capture in seen.values()]


def left_out(found: Sequence[MeasuredStranger]) -> list[Compared]:
    """Each kind predicted by a profile that was fitted to the others; blind ones by one fitted to all that are not."""
    from bench.strangers.calibrate import calibrated

    compared = []
    for group in sorted({_left_together(each) for each in found}):
        mine = [each for each in found if _left_together(each) == group]
        profile = calibrated(profile_named(DEVICE), [each for each in found if _left_together(each) != group])
        compared += comparisons(mine, profile)
    return compared


def _left_together(each: MeasuredStranger) -> str:
    return "blind" if each.stranger.blind else each.stranger.kind


def _compared(
    each: MeasuredStranger, capture: Capture, every: dict[tuple[str, int], tuple[MeasuredStranger, Capture]],
    profile: DeviceProfile,
) -> Compared:  # fmt: skip
    others = [pair for (name, batch), pair in every.items() if name == each.stranger.name and batch != each.batch]
    model = profile.iteration
    with_other = None
    if others:
        with_other = model.calibrated(others[0][1], others[0][0].seconds).predict(capture).seconds
    return Compared(
        measured=each, time=model.predict(capture), with_other_s=with_other, roofline_s=roofline(capture, profile),
        needed=profile.memory.predict(capture.memory).needed,
    )  # fmt: skip


def roofline(seen: Capture, profile: DeviceProfile) -> float:
    chip = profile.chip
    return sum(
        each.count * max(each.call.flops / chip.peak(each.call.precision),
                         (each.call.read_bytes + each.call.written_bytes) / chip.bandwidth)
        for each in seen.calls
    )  # fmt: skip


def print_lines(compared: Sequence[Compared]) -> None:
    print(
        f"{'network (* blind)':28s}{'kind':22s}{'batch':>6s}{'measured':>10s}{'predicted':>10s}{'bars':>18s}"
        f"{'error':>8s}{'other':>8s}{'roofline':>9s}   device  host   unseen | reserved needed GB"
    )
    for each in sorted(compared, key=lambda c: (_mark(c), c.measured.stranger.kind, c.measured.batch)):
        one, time = each.measured, each.time
        other = f"{100 * (each.with_other_s / one.seconds - 1):+7.1f}%" if each.with_other_s else "       -"
        print(
            f"{one.stranger.name + ' ' + _mark(each):28s}{one.stranger.kind:22s}{one.batch:6d}"
            f"{1e3 * one.seconds:10.2f}{1e3 * time.seconds:10.2f}  [{1e3 * time.low:7.2f},{1e3 * time.high:7.2f}]"
            f"{'' if each.inside else '!':1s}{100 * each.error:+6.1f}%{other}"
            f"{100 * (each.roofline_s / one.seconds - 1):+8.0f}%"
            f"{1e3 * time.device_s:9.2f}{1e3 * time.host_s:7.2f}{100 * sum(time.unseen.values()):6.0f} % | "
            f"{one.reserved / 1e9:6.2f} {each.needed / 1e9:6.2f}{'' if each.needed >= one.reserved else ' TOO LOW'}"
        )


_GROUPS = {"": "kinds that calibrate", "*": "blind"}


def _mark(each: Compared) -> str:
    return "*" if each.measured.stranger.blind else ""


def print_sums(compared: Sequence[Compared]) -> None:
    print(
        f"\n{'mean over iterations':30s}{'n':>4s}{'mean':>8s}{'median':>8s}{'worst':>8s}{'inside':>8s}"
        f"{'other batch: mean':>19s}{'median':>8s}{'memory low':>12s}{'roofline':>10s}   (%)"
    )
    groups: dict[str, list[Compared]] = defaultdict(list)
    for each in compared:
        mark = _mark(each)
        groups[_GROUPS[mark]].append(each)
        groups[f"{mark:1s} {each.measured.stranger.kind}"].append(each)
    groups["all"] = list(compared)
    for name, some in groups.items():
        print(_sums(name, some))


def _sums(name: str, some: Sequence[Compared]) -> str:
    errors = np.abs([each.error for each in some])
    other = np.abs([each.with_other_s / each.measured.seconds - 1 for each in some if each.with_other_s] or [np.nan])
    low = sum(each.needed < each.measured.reserved for each in some)
    flat = np.mean(np.abs([each.roofline_s / each.measured.seconds - 1 for each in some]))
    return (
        f"{name:30s}{len(some):4d}{100 * errors.mean():8.1f}{100 * np.median(errors):8.1f}{100 * errors.max():8.1f}"
        f"{100 * np.mean([each.inside for each in some]):8.0f}{100 * other.mean():19.1f}{100 * np.median(other):8.1f}"
        f"{low:12d}{100 * flat:10.0f}"
    )


if __name__ == "__main__":
    main()
