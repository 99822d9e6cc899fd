"""The laboratory: what devices really do is measured here, and models are fitted to it. No prediction needs it.

``networks`` makes the networks to measure, ``measuring`` runs them, ``records`` keeps what was measured and ``fitting``
makes a device's profile of it. It needs PyTorch, and scikit-learn to fit.
"""

from typing import TYPE_CHECKING

from penstock.tools import lazy_door

if TYPE_CHECKING:
    from penstock.predict.lab.fitting.profile_fitting import fit_profile
    from penstock.predict.lab.measuring.campaigns import measure_random_networks
    from penstock.predict.lab.measuring.local_chip import local_chip
    from penstock.predict.lab.measuring.operation_campaign import time_model, time_named, with_operations
    from penstock.predict.lab.measuring.session import MeasuringSession
    from penstock.predict.lab.records.measurements import read_measurements, read_power

__all__ = [
    "MeasuringSession",
    "fit_profile",
    "local_chip",
    "measure_random_networks",
    "read_measurements",
    "read_power",
    "time_model",
    "time_named",
    "with_operations",
]

__getattr__ = lazy_door(__name__)
