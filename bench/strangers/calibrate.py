"""Single operations, host costs, doubts and memory of the shipped H200 profile, from kinds that calibrate alone.

``python -m bench.strangers.calibrate`` writes them into the profile; kernels that have a family stay as they are.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from bench.predict import MEASUREMENTS
from bench.strangers.measure import RECURRENT
from bench.strangers.measured import MeasuredStranger, measured_strangers, recurrent_layers, single_operations
from penstock.predict import SHIPPED, DeviceProfile, profile_named
from penstock.predict.capture import Capture
from penstock.predict.iteration import HostCost, IterationModel
from penstock.predict.lab.fitting.host_cost_fitting import fit_host_of_gpu
from penstock.predict.lab.fitting.operation_fitting import TimedCall, fit_operations
from penstock.predict.lab.fitting.profile_fitting import captured
from penstock.predict.lab.records.measurements import MeasuredNetwork, read_measurements
from penstock.predict.memory import MemoryModel

DEVICE = "h200"
_NINE_OF_TEN = 0.9
_LEAST_MARGIN = 1.25
"""What networks of the zoo need beside their tensors at most."""
_ISSUED = 0.9
_SLOWER = 1.2
"""An iteration that takes so much longer than its kernels waited for the host."""


def main() -> None:
    profile = calibrated(profile_named(DEVICE), [each for each in measured_strangers() if not each.stranger.tests])
    profile.save(SHIPPED / DEVICE)


def calibrated(profile: DeviceProfile, measured: Sequence[MeasuredStranger]) -> DeviceProfile:
    """The profile with what is learned from some measured strangers, blind ones never, and from single operations."""
    known = may_be_learned(measured)
    rows = [*single_rows(), *(call for each in known for call in each.calls())]
    kernels = replace(profile.iteration.kernels, operations=fit_operations(rows, profile.iteration.kernels))
    model = replace(profile.iteration, kernels=kernels)
    model = replace(model, host=fitted_host(model, known))
    return replace(profile, iteration=model, memory=fitted_memory(known))


def may_be_learned(measured: Sequence[MeasuredStranger]) -> list[MeasuredStranger]:
    return [each for each in measured if not each.stranger.blind]


@cache
def single_rows() -> tuple[TimedCall, ...]:
    return (*single_operations(), *recurrent_layers())


def fitted_host(model: IterationModel, known: Sequence[MeasuredStranger]) -> HostCost:
    """Costs from networks that never wait for a value; doubts from kinds left out one at a time."""
    issued = {each: model.issued(each.capture()) for each in known if not each.capture().waits}
    taken = {each: issue_s(each, model) for each in issued}
    off = []
    for kind in {each.stranger.kind for each in issued}:
        others = [(issued[each], taken[each]) for each in issued if each.stranger.kind != kind]
        host = fit_host_of_gpu(others, 0.0)
        mine = [each for each in issued if each.stranger.kind == kind]
        off += [abs(math.log(host.seconds(issued[each]) / taken[each])) for each in mine]
    every = [*((issued[each], taken[each]) for each in issued), *zoo_issued(model)]
    return fit_host_of_gpu(every, float(np.quantile(off, _NINE_OF_TEN)))


def zoo_issued(model: IterationModel) -> list[tuple[dict[str, float], float]]:
    """What the host needed for networks of the zoo that are not held out, where it was the slower one."""
    return [
        (model.issued(seen), network.seconds)
        for network, seen in known_zoo()
        if network.issue_s > _ISSUED * network.seconds
    ]


@cache
def known_zoo() -> tuple[tuple[MeasuredNetwork, Capture], ...]:
    return tuple(captured(read_measurements(MEASUREMENTS), held_out=False))


def issue_s(each: MeasuredStranger, model: IterationModel) -> float:
    """What the host needed: the whole iteration where nothing else was slower, else what it took to issue one."""
    device_s = max(model.predict(each.capture()).device_s, each.busy_s)
    waited = each.seconds > _SLOWER * device_s and each.stranger.kind not in RECURRENT
    return each.seconds if waited else min(each.issue_s, each.seconds)


def fitted_memory(known: Sequence[MeasuredStranger]) -> MemoryModel:
    """A margin that covers all of them, and what a process holds besides its tensors."""
    context = max(each.used - each.reserved for each in known)
    model = MemoryModel(context=float(context))
    ratios = [(each.reserved - context) / model.held(each.capture().memory) for each in known]
    return replace(model, fragmentation=max(_LEAST_MARGIN, *ratios))


if __name__ == "__main__":
    main()
