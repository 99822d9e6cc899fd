"""What people see of a job that ends when its metric says so: how far the metric is, and where it is going."""

import math

from penstock.control.state.records import JobRecord
from penstock.wire import MetricBand, StopView, stamp


def stop_view(record: JobRecord, rate: float, expected_at: float | None) -> StopView | None:
    """``rate`` is how fast it goes now, ``expected_at`` when it is expected to be over."""
    rule, best, outlook = record.until, record.best, record.outlook
    if rule is None:
        return None
    value, step = (None, None) if best is None else (best.value, best.step)
    shown = StopView(rule=str(rule), metric=rule.metric, best=value, best_step=step)
    if outlook is None or record.over:
        return shown
    more_s = max(outlook.safe - outlook.expected, 0.0) / rate if rate else math.inf
    safe_at = expected_at + more_s if expected_at is not None and math.isfinite(more_s) else None
    known = {"expected_steps": outlook.expected, "safe_steps": outlook.safe, "reach": outlook.reach}
    return shown.model_copy(update={**known, "expected_at": stamp(expected_at), "safe_at": stamp(safe_at)})


def metric_band(record: JobRecord) -> MetricBand | None:
    """The target, and the course that the metric will probably take; drawn anew whenever somebody looks."""
    rule = record.until
    if rule is None:
        return None
    from penstock.learn import forecast_metric

    forecast = None if record.over else forecast_metric(rule, record.metric, record.work)
    if forecast is None:
        return MetricBand(metric=rule.metric, target=rule.target)
    steps, levels = forecast.band()
    low, middle, high = (level.tolist() for level in levels)
    return MetricBand(metric=rule.metric, target=rule.target, steps=steps.tolist(), low=low, middle=middle, high=high)
