"""Policies compared on one page: a single file that needs no network, for people rather than programs.

The charts are drawn by a small script inside the page from arrays that are packed with the data; nothing is fetched.
"""

from collections.abc import Sequence
from pathlib import Path

from penstock.core import InputError
from penstock.simulate.comparison import Setting
from penstock.simulate.engine import Result
from penstock.simulate.report.findings import Finding
from penstock.simulate.report.frame import Best, Markup, Page, section, table
from penstock.simulate.report.page import page_of
from penstock.simulate.report.study import Study
from penstock.simulate.workload import Workload
from penstock.tools import write_atomically


def render(workload: Workload, setting: Setting, results: Sequence[Result]) -> str:
    """The whole page. Results that kept their timelines (``Setting(timeline=True)``) also show who ran where."""
    if not results:
        raise InputError("a report about no policies", "at least one result")
    return page_of(Study.of(workload.trace.name, workload.jobs(), setting, results, seed=workload.seed))


def write_report(path: Path, workload: Workload, setting: Setting, results: Sequence[Result]) -> int:
    """Write the page in one step, so that nobody ever opens half of it; returns its size in bytes."""
    text = render(workload, setting, results)
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_atomically(path, text)


__all__ = [
    "Best",
    "Finding",
    "Markup",
    "Page",
    "Study",
    "page_of",
    "render",
    "section",
    "table",
    "write_report",
]
