"""How good is a profile of three minutes, as a user makes one, against the one that ships?

``python -m bench.own_profile FOLDER`` fits what ``python -m penstock.predict.lab --out FOLDER --suite-minutes 3`` (or
``penstock profile device``) measured on an H200 and predicts networks it never saw: strangers and those of the zoo that
are held out. No GPU is needed here. ``--first N`` takes the first N random networks and the first N bags of layers of
the shipped profile's own measurements instead: about what three minutes hold.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path

import numpy as np

from bench.predict import DEVICE, MEASUREMENTS, waited_for_device
from bench.strangers.__main__ import comparisons
from bench.strangers.measured import measured_strangers
from penstock.predict import DeviceProfile, device_named, fit_profile, profile_named, read_measurements
from penstock.predict.lab.fitting.profile_fitting import captured, setup_of
from penstock.predict.lab.measuring.affordable_networks import affordable_network
from penstock.predict.lab.records.measurements import MeasuredNetwork, Measurements


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else "")
    parser.add_argument("folder", type=Path, nargs="?", default=MEASUREMENTS, help="what was measured")
    parser.add_argument("--first", type=int, default=0, help="so many networks and bags of it")
    given = parser.parse_args()
    raw = [each for each in read_measurements(given.folder) if not given.first or _is_suite(each)]
    raw = [_first(each, given.first) for each in raw] if given.first else raw
    own, shipped = fit_profile("own", device_named(DEVICE), raw), profile_named(DEVICE)
    used = sum(len(np.unique(each.rows.networks)) for each in raw)
    followed = sum(network.followed is not None for each in raw for network in each.networks)
    print(f"{used} networks and bags, {followed} of them followed, {sum(len(each.rows) for each in raw)} kernel rows")
    for name, profile in (("own", own), ("shipped", shipped)):
        print(f"{name}: {asdict(profile.iteration.host)}, {asdict(profile.memory)}")
    print(f"{'':34s}{'n':>5s}{'mean':>8s}{'median':>8s}{'worst':>8s}{'inside':>8s}   (%)")
    print_held_out(own, shipped)
    print_strangers(own, shipped)


def _is_suite(raw: Measurements) -> bool:
    return len({network.label for network in raw.networks}) > len(raw.networks) // 2


def _first(raw: Measurements, count: int) -> Measurements:
    """Networks that were timed as a whole, or bags."""
    chosen = [
        place
        for bags in (False, True)
        for place in islice(
            (
                place
                for place, network in enumerate(raw.networks)
                if network.is_bag == bags and (bags or network.seconds)
            ),
            count,
        )
    ]
    networks = [_followed(network) if place in chosen else network for place, network in enumerate(raw.networks)]
    return replace(raw, rows=raw.rows.where(np.isin(raw.rows.networks, chosen)), networks=tuple(networks))


def _followed(network: MeasuredNetwork) -> MeasuredNetwork:
    """With what it issues and holds, which was not kept when it was measured: the same number draws the same network,
    unless draws have changed since."""
    if network.is_bag:
        return network
    item, seen = affordable_network(int(network.label.rsplit("-", maxsplit=1)[1]), "cuda")
    if (item.label, item.batch, item.setup) != (network.label, network.batch, setup_of(network)):
        return network
    return replace(network, issued=seen.issued, followed=asdict(seen.memory))


def print_held_out(own: DeviceProfile, shipped: DeviceProfile) -> None:
    seen = [pair for pair in captured(read_measurements(MEASUREMENTS), held_out=True) if waited_for_device(pair[0])]
    for name, profile in (("own", own), ("shipped", shipped)):
        times = [profile.iteration.predict(capture) for _, capture in seen]
        truth = [network.seconds for network, _ in seen]
        inside = [time.low <= true <= time.high for time, true in zip(times, truth, strict=True)]
        print(_line(f"zoo, held out, device-bound: {name}", [t.seconds for t in times], truth, inside))


def print_strangers(own: DeviceProfile, shipped: DeviceProfile) -> None:
    found = measured_strangers()
    for name, profile in (("own", own), ("shipped", shipped)):
        compared = comparisons(found, profile)
        low = sum(each.needed < each.measured.reserved for each in compared)
        line = _line(
            f"strangers: {name}", [each.time.seconds for each in compared],
            [each.measured.seconds for each in compared], [each.inside for each in compared],
        )  # fmt: skip
        print(f"{line}   memory too low: {low}")


def _line(label: str, found: Sequence[float], truth: Sequence[float], inside: Sequence[bool]) -> str:
    off = 100 * np.abs(np.array(found) / np.array(truth) - 1)
    return f"{label:34s}{len(off):5d}{off.mean():8.1f}{np.median(off):8.1f}{off.max():8.1f}{100 * np.mean(inside):8.0f}"


if __name__ == "__main__":
    main()
