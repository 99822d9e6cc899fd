"""How fast does a job run, on how many devices? Measured where possible, predicted where not, and it says which."""

from penstock.estimate.delays import CostStore, Delay, DelayMeter
from penstock.estimate.meter import Measurement, ProgressMeter
from penstock.estimate.model import Estimate, ScalingModel
from penstock.estimate.points import Point, ProfileResult
from penstock.estimate.prior import prior_curve
from penstock.estimate.profiling import profiling_plan
from penstock.estimate.store import CurveStore

__all__ = [
    "CostStore",
    "CurveStore",
    "Delay",
    "DelayMeter",
    "Estimate",
    "Measurement",
    "Point",
    "ProfileResult",
    "ProgressMeter",
    "ScalingModel",
    "prior_curve",
    "profiling_plan",
]
