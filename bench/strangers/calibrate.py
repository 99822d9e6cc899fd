"""Single operations, host costs, doubts and memory of the shipped H200 profile, from strangers that are not blind.

``python -m bench.strangers.calibrate`` writes them into the profile; with ``--kernels`` the families of kernels are
fitted anew before, to all of ``bench/measurements`` and to the kernels of these strangers (a quarter of an hour).
"""

import argparse
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from statistics import median

import numpy as np

from bench.predict import MEASUREMENTS
from bench.strangers.measured import (
    MeasuredStranger,
    measured_strangers,
    measured_zoo,
    recurrent_layers,
    single_operations,
)
from penstock.predict import SHIPPED, DeviceProfile, profile_named
from penstock.predict.iteration import HostCost, IterationModel
from penstock.predict.lab.fitting.family_fitting import MeasuredCall
from penstock.predict.lab.fitting.host_cost_fitting import fit_host_of_gpu
from penstock.predict.lab.fitting.kernel_fitting import fit_kernels
from penstock.predict.lab.fitting.operation_fitting import LINES, TimedCall, fit_operations
from penstock.predict.lab.fitting.profile_fitting import training_calls
from penstock.predict.lab.records.measurements import read_measurements, shape, shapes_of
from penstock.predict.memory import MemoryModel

DEVICE = "h200"
_UNCOMMON, _PRODUCTS = "uncommon", "gemm"
_COVERED = 0.85
"""Of hosts of kinds left out: bars hold the device's share too, and nine of ten iterations lie inside of both."""
_LEAST_MARGIN = 1.25
"""What networks of the zoo need beside their tensors at most."""
_ISSUED, _SLOWER = 0.8, 1.1
"""An iteration waited for the host if it takes so much longer than its kernels, and issuing one is so much of it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else "")
    parser.add_argument("--kernels", action="store_true", help="fit families of kernels anew")
    given = parser.parse_args()
    profile, measured = profile_named(DEVICE), measured_strangers()
    if given.kernels:
        kernels = fit_kernels(kernel_rows(measured), profile.chip)
        profile = replace(profile, iteration=replace(profile.iteration, kernels=kernels))
    profile = calibrated(profile, measured)
    profile.save(SHIPPED / DEVICE)


def calibrated(profile: DeviceProfile, measured: Sequence[MeasuredStranger]) -> DeviceProfile:
    """The profile with what is learned from some measured strangers, blind ones never, and from single operations."""
    known = may_be_learned(measured)
    rows = [*single_rows(), *(call for each in known for call in each.calls())]
    kernels = replace(profile.iteration.kernels, operations=fit_operations(rows, profile.iteration.kernels))
    model = replace(profile.iteration, kernels=kernels)
    model = replace(model, host=fitted_host(model, known))
    return replace(profile, iteration=model, memory=fitted_memory(known))


def kernel_rows(measured: Sequence[MeasuredStranger]) -> list[MeasuredCall]:
    """Rows of all campaigns and of strangers that are not blind, without shapes that held-out networks use.

    Products are those of the usual campaigns alone: what uncommon, narrow ones reach of a chip's rates does not carry
    over to other devices, which are predicted by those shares (``bench.devices``).
    """
    raw = read_measurements(MEASUREMENTS)
    usual = [each for each in raw if each.name != _UNCOMMON]
    products = [row for row in training_calls(usual) if row.call.family == _PRODUCTS]
    tested = frozenset().union(*(shapes_of(each.rows, each.held_out()) for each in raw))
    seen = [row for each in may_be_learned(measured) for row in each.calls()]
    others = [row for row in training_calls(raw) if row.call.family != _PRODUCTS]
    return products + others + [
        MeasuredCall(call=row.call, seconds=row.seconds)
        for row in seen
        if row.call.family not in (*LINES, _PRODUCTS) and row.seconds > 0 and shape(row.call) not in tested
    ]  # fmt: skip


def may_be_learned(measured: Sequence[MeasuredStranger]) -> list[MeasuredStranger]:
    return [each for each in measured if not each.stranger.blind]


@cache
def single_rows() -> tuple[TimedCall, ...]:
    return (*single_operations(), *recurrent_layers())


def fitted_host(model: IterationModel, known: Sequence[MeasuredStranger]) -> HostCost:
    """Costs from networks that never wait for a value; doubts from kinds left out one at a time."""
    every = [*known, *measured_zoo()]
    by_name = host_by_name(every)
    model = replace(model, host=replace(model.host, by_name=by_name))
    rows = [
        (each.stranger.kind, model.issued(each.capture()), seconds)
        for each in every
        if not each.capture().waits and (seconds := issue_s(each, model)) is not None
    ]
    off = []
    for kind in sorted({kind for kind, _, _ in rows}):
        host = fit_host_of_gpu([(issued, s) for other, issued, s in rows if other != kind], 0.0, by_name)
        off += [abs(math.log(host.seconds(issued) / s)) for own, issued, s in rows if own == kind]
    return fit_host_of_gpu([(issued, s) for _, issued, s in rows], float(np.quantile(off, _COVERED)), by_name)


def host_by_name(every: Sequence[MeasuredStranger]) -> dict[str, float]:
    """The median over networks, to three digits."""
    seen: dict[str, list[float]] = defaultdict(list)
    for each in every:
        for name, seconds in each.host_s.items():
            seen[name].append(seconds)
    return {name: float(f"{median(seconds):.3g}") for name, seconds in sorted(seen.items())}


def issue_s(each: MeasuredStranger, model: IterationModel) -> float | None:
    """What the host needed: the whole iteration where nothing else was slower, nothing where that is not certain.

    What it takes to issue a single iteration is no measure of many in a row: that finds the host's caches cold.
    """
    device_s = max(model.predict(each.capture()).device_s, each.busy_s)
    waited = each.seconds > _SLOWER * device_s and each.issue_s > _ISSUED * each.seconds
    return each.seconds if waited else None


def fitted_memory(known: Sequence[MeasuredStranger]) -> MemoryModel:
    """A margin that covers all of them, and what a process holds besides its tensors."""
    context = max(each.used - each.reserved for each in known)
    model = MemoryModel(context=float(context))
    ratios = [(each.reserved - context) / model.held(each.capture().memory) for each in known]
    return replace(model, fragmentation=max(_LEAST_MARGIN, *ratios))


if __name__ == "__main__":
    main()
