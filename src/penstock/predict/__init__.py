"""How fast is a model, how big, how much energy does it take, before anything runs?"""

from typing import TYPE_CHECKING

from penstock.tools import lazy_door

if TYPE_CHECKING:
    from penstock.predict.capture import Hook, Phase, Setup
    from penstock.predict.capture.capturing import explained
    from penstock.predict.capture.composites import FusedOperations
    from penstock.predict.capture.recorder import Recorder
    from penstock.predict.capture.setup import Workload, arithmetic, workload
    from penstock.predict.device_profile import SHIPPED, DeviceProfile, own_profiles, profile_named
    from penstock.predict.hardware import DEVICES, Chip, Precision, device_named
    from penstock.predict.kernels import KernelCall, KernelModel, Layout
    from penstock.predict.lab.chips import chip_here
    from penstock.predict.lab.profile_fitting import fit_profile
    from penstock.predict.lab.raw import read_power, read_raw
    from penstock.predict.lab.session import Session, suite
    from penstock.predict.model_sources import load_hook, offers_hook
    from penstock.predict.predict_in_child import Foresight, Question, counts_up_to
    from penstock.predict.predicted_curve import prior_curve
    from penstock.predict.prediction import Forecast, Scaled, forecast

__all__ = [
    "DEVICES",
    "SHIPPED",
    "Chip",
    "DeviceProfile",
    "Forecast",
    "Foresight",
    "FusedOperations",
    "Hook",
    "KernelCall",
    "KernelModel",
    "Layout",
    "Phase",
    "Precision",
    "Question",
    "Recorder",
    "Scaled",
    "Session",
    "Setup",
    "Workload",
    "arithmetic",
    "chip_here",
    "counts_up_to",
    "device_named",
    "explained",
    "fit_profile",
    "forecast",
    "load_hook",
    "offers_hook",
    "own_profiles",
    "prior_curve",
    "profile_named",
    "read_power",
    "read_raw",
    "suite",
    "workload",
]

__getattr__ = lazy_door(__name__)
