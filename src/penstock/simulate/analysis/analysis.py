"""A cluster in tables, pictures and advice: what the studies of Acme, Philly and Helios asked, asked of any other."""

from collections.abc import Mapping

from penstock.core import InputError
from penstock.simulate.analysis.bubbles import BubbleRow
from penstock.simulate.analysis.failures import failure_section
from penstock.simulate.analysis.giving_back import giving_back_section
from penstock.simulate.analysis.observed import Observed
from penstock.simulate.analysis.occupancy import occupancy_of
from penstock.simulate.analysis.queueing import queueing_section
from penstock.simulate.analysis.sections import Analysis
from penstock.simulate.analysis.sizes import size_section
from penstock.simulate.analysis.usage import usage_section


def analyze(observed: Observed, bubbles: Mapping[str, BubbleRow] | None = None) -> Analysis:
    """Everything the jobs tell. O(jobs log jobs)."""
    if not observed.jobs:
        raise InputError("no jobs to analyze", "at least one job that ran", "Choose a longer time or another trace")
    occupancy = occupancy_of(observed)
    sections = (
        usage_section(observed, occupancy), queueing_section(observed, occupancy), size_section(observed),
        failure_section(observed), giving_back_section(observed, bubbles or {}),
    )  # fmt: skip
    return Analysis(
        name=observed.name, jobs=len(observed.jobs), devices=observed.devices,
        span_s=max(job.submitted_at for job in observed.jobs) - observed.since,
        device_hours=observed.device_s / 3600, sections=sections, notes=observed.notes,
    )  # fmt: skip
