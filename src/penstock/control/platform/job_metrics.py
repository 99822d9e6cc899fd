"""The metrics of a job and what it used, joined from those of its runs.

Nothing is kept in the server: series are where the agents of the runs wrote them, and are read when somebody asks.
"""

from collections.abc import Collection, Iterable, Sequence

from penstock.backends import Backend
from penstock.core import MetricSeries, joined_series
from penstock.wire import MetricView


def metric_views(
    backend: Backend, runs: Sequence[str], names: Collection[str] = (), evaluated: Iterable[MetricSeries] = ()
) -> list[MetricView]:
    """The metrics of some runs of one job, the earliest run first, and what evaluations of its checkpoints found.

    Only those called ``names``, if any are given.
    """
    found = joined_series([*(backend.metrics(run_id) for run_id in runs), evaluated])
    return [_view(series) for series in found if not names or series.name in names]


def usage_views(backend: Backend, runs: Sequence[str]) -> list[MetricView]:
    """What the runs of one job used over time; the steps are whole seconds."""
    return [_view(series) for series in joined_series(backend.usage_curves(run_id) for run_id in runs)]


def _view(series: MetricSeries) -> MetricView:
    points = series.points
    return MetricView(
        name=series.name, count=series.count, last=series.last.value, low=series.low, high=series.high,
        steps=[point.step for point in points], times=[point.at for point in points],
        values=[point.value for point in points], lows=[point.low for point in points],
        highs=[point.high for point in points],
    )  # fmt: skip
