"""Operations that a profile does not know yet, timed on this machine: named ones over sizes, or those of a model."""

import gc
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from penstock.core import UnknownNameError
from penstock.predict.capture.setup import Hook, Setup
from penstock.predict.device_profile import DeviceProfile
from penstock.predict.lab.fitting.operation_fitting import TimedCall, fit_operations
from penstock.predict.lab.measuring.operation_timing import record
from penstock.predict.lab.measuring.training import Training
from penstock.predict.lab.networks.single_operations import OPERATIONS, Prepared
from penstock.predict.lab.records.operations import TimedOperation

_MOST_ELEMENTS = {"cuda": 6e7, "cpu": 3e5}
_TOGETHER = 16
_WARM_STEPS = 2


def time_named(names: Sequence[str], on: str) -> list[TimedCall]:
    """Every operation that is called so, or so and something else: ``cumsum`` is ``cumsum across`` as well."""
    found: list[TimedCall] = []
    prepared = [each for name in names for each in _preparations(name, on)]
    for place in range(0, len(prepared), _TOGETHER):
        found += _timed(prepared[place : place + _TOGETHER], on)
    return found


def time_model(hook: Hook, batch: int, setup: Setup, on: str) -> list[TimedCall]:
    """The operations of a few real iterations of a model."""
    training = Training(hook, batch, setup, on)
    training.warm_up(_WARM_STEPS)
    return _calls(record(training.step, on).operations, setup)


def with_operations(profile: DeviceProfile, timed: Sequence[TimedCall]) -> DeviceProfile:
    """The profile, with lines for what was timed and no family of it knows."""
    kernels = profile.iteration.kernels
    table = kernels.operations.joined(fit_operations(timed, kernels))
    return replace(profile, iteration=replace(profile.iteration, kernels=replace(kernels, operations=table)))


def _preparations(name: str, on: str) -> list[Prepared]:
    words = name.replace("_", " ").strip().lower()
    mine = [
        sizes for known, sizes in OPERATIONS.items() if known == words or known.startswith((words + " ", words + ","))
    ]
    if not mine:
        raise UnknownNameError.of("operation", name, OPERATIONS, "A script with penstock_model times all of its own")
    return [each for sizes in mine for each in sizes(_MOST_ELEMENTS[on])]


def _timed(some: Sequence[Prepared], on: str) -> list[TimedCall]:
    ready: list[Any] = []
    for prepare in some:
        with torch.device(on):
            run = prepare()
        run()
        ready.append(run)
    found = _calls(record(lambda: [run() for run in ready], on).operations, Setup(precision="default"))
    gc.collect()
    return found


def _calls(operations: Sequence[TimedOperation], setup: Setup) -> list[TimedCall]:
    found = []
    for each in operations:
        convolved = "convolution" in each.operation.name
        call = each.operation.call(tf32=setup.tf32_convolutions if convolved else setup.tf32)
        if call is not None and each.launches:
            found.append(TimedCall(call=call, seconds=each.seconds, launches=each.launches))
    return found
