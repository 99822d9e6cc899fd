"""What runs teach: speeds, delays and scaling curves of jobs, measured while they run and kept for the next quote."""

from penstock.learn.curve_store import CurveStore
from penstock.learn.delays import CostStore, Delay, DelayMeter
from penstock.learn.metric_forecast import ForecastTuning, MetricForecast, forecast_metric
from penstock.learn.points import Point, ProfileResult
from penstock.learn.progress_meter import Measurement, ProgressMeter
from penstock.learn.saving_costs import SavingCosts
from penstock.learn.scaling_model import Estimate, ScalingModel
from penstock.learn.tenant_scope import scope_of_tenant, scoped_fingerprint
from penstock.learn.trial_counts import profiling_plan

__all__ = [
    "CostStore",
    "CurveStore",
    "Delay",
    "DelayMeter",
    "Estimate",
    "ForecastTuning",
    "Measurement",
    "MetricForecast",
    "Point",
    "ProfileResult",
    "ProgressMeter",
    "SavingCosts",
    "ScalingModel",
    "forecast_metric",
    "profiling_plan",
    "scope_of_tenant",
    "scoped_fingerprint",
]
