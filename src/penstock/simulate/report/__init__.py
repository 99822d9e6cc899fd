"""Policies compared on one page: a single file that needs no network, for people rather than programs.

The charts are drawn by a small script inside the page from arrays that are packed with the data; nothing is fetched.
"""

import os
import tempfile
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


def render(workload: Workload, setting: Setting, results: Sequence[Result]) -> str:
    """The whole page. Results that kept their timelines (``Setting(timeline=True)``) also show who ran where."""
    if not results:
        raise InputError("a report about no policies", "at least one result")
    return page_of(Study.of(workload.trace.name, workload.jobs(), setting, results, seed=workload.seed))


def write_report(path: Path, workload: Workload, setting: Setting, results: Sequence[Result]) -> int:
    """Write the page in one step, so that nobody ever opens half of it; returns its size in bytes."""
    return replace_file(path, render(workload, setting, results))


def replace_file(path: Path, text: str) -> int:
    """Write beside the target and move it there."""
    data = text.encode("utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, staging = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(staging, 0o644)
        os.replace(staging, path)
    except BaseException:
        Path(staging).unlink(missing_ok=True)
        raise
    return len(data)


__all__ = [
    "Best",
    "Finding",
    "Markup",
    "Page",
    "Study",
    "page_of",
    "render",
    "replace_file",
    "section",
    "table",
    "write_report",
]
