"""Single operations, host costs, doubts and memory of the shipped H200 profile, from kinds that calibrate alone.

``python -m bench.strangers.calibrate`` writes them into the profile; kernels that have a family stay as they are.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bench.strangers.measured import MeasuredStranger, measured_strangers, single_operations
from penstock.predict import SHIPPED, DeviceProfile, profile_named
from bench.strangers.measure import RECURRENT
from penstock.predict.iteration import HostCost, IterationModel
from penstock.predict.lab.fitting.host_cost_fitting import fit_host_of_gpu
from penstock.predict.lab.fitting.operation_fitting import fit_operations
from penstock.predict.memory import MemoryModel

DEVICE = "h200"
_NINE_OF_TEN = 0.9
_LARGE = 5e8
"""Bytes from which on the allocator's rounding to whole segments does not count."""
_SLOWER = 1.2
"""An iteration that takes so much longer than its kernels waited for the host."""


def main() -> None:
    profile = calibrated(profile_named(DEVICE), [each for each in measured_strangers() if not each.stranger.tests])
    profile.save(SHIPPED / DEVICE)


def calibrated(profile: DeviceProfile, known: Sequence[MeasuredStranger]) -> DeviceProfile:
    """The profile with what is learned from some measured strangers and from all single operations."""
    rows = [*single_operations(), *(call for each in known for call in each.calls())]
    kernels = replace(profile.iteration.kernels, operations=fit_operations(rows, profile.iteration.kernels))
    model = replace(profile.iteration, kernels=kernels)
    model = replace(model, host=fitted_host(model, known))
    return replace(profile, iteration=model, memory=fitted_memory(known))


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
    return fit_host_of_gpu([(issued[each], taken[each]) for each in issued], float(np.quantile(off, _NINE_OF_TEN)))


def issue_s(each: MeasuredStranger, model: IterationModel) -> float:
    """What the host needed: the whole iteration where nothing else was slower, else what it took to issue one."""
    device_s = max(model.predict(each.capture()).device_s, each.busy_s)
    waited = each.seconds > _SLOWER * device_s and each.stranger.kind not in RECURRENT
    return each.seconds if waited else min(each.issue_s, each.seconds)


def fitted_memory(known: Sequence[MeasuredStranger]) -> MemoryModel:
    """A margin that covers all of them, and what a process holds besides its tensors."""
    context = max(each.used - each.reserved for each in known)
    model = MemoryModel(context=float(context))
    ratios = [each.reserved / model.held(each.capture().memory) for each in known if each.reserved > _LARGE]
    return replace(model, fragmentation=max(1.0, *ratios))


if __name__ == "__main__":
    main()
