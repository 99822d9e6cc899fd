"""Single operations, host costs, doubts and memory of the shipped H200 profile, from kinds that calibrate alone.

``python -m bench.strangers.calibrate`` writes them into the profile; kernels that have a family stay as they are.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bench.strangers.measured import MeasuredStranger, measured_strangers, single_operations
from penstock.predict import SHIPPED, DeviceProfile, profile_named
from penstock.predict.iteration import HostCost
from penstock.predict.lab.fitting.operation_fitting import fit_operations

DEVICE = "h200"


def main() -> None:
    profile = calibrated(profile_named(DEVICE), [each for each in measured_strangers() if not each.stranger.tests])
    profile.save(SHIPPED / DEVICE)


def calibrated(profile: DeviceProfile, known: Sequence[MeasuredStranger]) -> DeviceProfile:
    """The profile with what is learned from some measured strangers and from all single operations."""
    rows = [*single_operations(), *(call for each in known for call in each.calls())]
    kernels = replace(profile.iteration.kernels, operations=fit_operations(rows, profile.iteration.kernels))
    model = replace(profile.iteration, kernels=kernels)
    model = replace(model, host=fitted_host(model, known))
    return replace(profile, iteration=model)


def fitted_host(model, known) -> HostCost:  # type: ignore[no-untyped-def]
    return model.host
