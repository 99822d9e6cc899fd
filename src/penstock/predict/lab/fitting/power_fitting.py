"""Watts of each class of kernels, from the energy of whole runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.predict.hardware import Bound, Chip, ClassPower

_PULL = 0.1
"""How many seconds of every class the data sheet is worth, against a run of one second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredEnergy:
    """One run: kernel seconds by class, wall seconds and joules."""

    seconds: Mapping[Bound, float]
    wall_s: float
    joules: float


def fit_power(measured: Sequence[MeasuredEnergy], chip: Chip) -> ClassPower:
    """Watts that explain measured energies best, held near the data sheet's where few seconds speak for a class."""
    prior = ClassPower.of(chip)
    seconds = np.array([[run.seconds.get(bound, 0.0) for bound in Bound] for run in measured])
    total = np.array([run.wall_s for run in measured])
    expected = np.array([prior.watts[bound] for bound in Bound])
    shares = seconds / total[:, None]
    idle = np.maximum(0.0, 1 - shares.sum(axis=1)) * prior.idle_w
    drawn = np.array([run.joules for run in measured]) / total - idle
    pull = _PULL * np.eye(len(expected))
    watts = np.linalg.solve(shares.T @ shares + pull, shares.T @ drawn + pull @ expected)
    bounded = np.clip(watts, prior.idle_w, chip.tdp_w)
    return ClassPower(idle_w=prior.idle_w, watts=dict(zip(Bound, map(float, bounded), strict=True)))
