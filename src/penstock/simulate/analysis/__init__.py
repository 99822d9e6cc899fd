"""What a cluster's jobs tell about it: use, waiting, sizes, failures, and who could give back what."""

from penstock.simulate.analysis.analysis import analyze
from penstock.simulate.analysis.bubbles import BubbleRow, Sample, bubbles_of, read_samples
from penstock.simulate.analysis.observed import Hold, Observed, ObservedJob, observe_trace
from penstock.simulate.analysis.page import analysis_page
from penstock.simulate.analysis.sections import Advice, Analysis, Picture, Section, Series

__all__ = [
    "Advice",
    "Analysis",
    "BubbleRow",
    "Hold",
    "Observed",
    "ObservedJob",
    "Picture",
    "Sample",
    "Section",
    "Series",
    "analysis_page",
    "analyze",
    "bubbles_of",
    "observe_trace",
    "read_samples",
]
