"""How fast does a job run, on how many devices? Measured where possible, predicted where not, and it says which."""

from penstock.estimate.meter import Measurement, ProgressMeter
from penstock.estimate.model import Estimate, ScalingModel
from penstock.estimate.points import Point, ProfileResult
from penstock.estimate.profiling import profiling_plan
from penstock.estimate.store import CurveStore

__all__ = [
    "CurveStore",
    "Estimate",
    "Measurement",
    "Point",
    "ProfileResult",
    "ProgressMeter",
    "ScalingModel",
    "profiling_plan",
]
