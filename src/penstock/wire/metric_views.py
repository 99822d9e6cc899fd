"""Metrics of jobs on the wire: columns rather than points, because curves are long and read as columns everywhere.

In Python every value is a float. JSON has no infinity: there they are "nan", "inf" and "-inf".
"""

from typing import Annotated

from pydantic import Field, PlainSerializer

from penstock.core import plain_value
from penstock.wire.views import WireModel

MetricNumber = Annotated[float, PlainSerializer(plain_value, return_type=float | str, when_used="json")]


class MetricView(WireModel):
    """One metric. Equal positions of the columns belong together; a point may stand for several values."""

    name: str
    count: int = Field(description="How many values were told.")
    last: MetricNumber
    low: MetricNumber = Field(description="The least finite value; nan without any.")
    high: MetricNumber
    steps: list[int] = Field(description="The step of each point; of several the last.")
    times: list[float] = Field(description="Seconds since the epoch.")
    values: list[MetricNumber] = Field(description="The value of each point; of several the last.")
    lows: list[MetricNumber] = Field(description="The least finite value of each point.")
    highs: list[MetricNumber]


class MetricBand(WireModel):
    """Where the metric that a job trains until is going: at these steps one, five and nine of ten courses lie below."""

    metric: str
    target: float | None = None
    steps: list[float] = Field(default=[])
    low: list[float] = Field(default=[])
    middle: list[float] = Field(default=[])
    high: list[float] = Field(default=[])


class JobMetricsView(WireModel):
    """The metrics of a job across all its runs, in the order of their names."""

    job_id: str
    name: str
    metrics: list[MetricView]
    band: MetricBand | None = Field(default=None, description="Of the metric that it trains until.")

    def __getitem__(self, name: str) -> MetricView:
        """The metric of a name; raises :class:`KeyError`."""
        for metric in self.metrics:
            if metric.name == name:
                return metric
        raise KeyError(name)
