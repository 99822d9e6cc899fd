"""Nodes that fail the check before a run are drained, so that the job goes on elsewhere and others are spared.

What is reported comes from the run's agent, before any process of the job has started on the node. The check runs in
the job's environment all the same, and a broken one might fail everywhere: so one job has no more than a few nodes
drained, and never the last that there is.
"""

from penstock.control.state.entries import Entry, NodeUnfit, RunNoted
from penstock.control.state.platform_state import PlatformState
from penstock.control.state.records import JobRecord
from penstock.core import Report

_MOST_BY_ONE_JOB = 3
_LARGEST_SHARE = 0.25
"""Of all nodes, what one job may have drained, where that is more."""


def unfit_node(report: Report, record: JobRecord, state: PlatformState, at: float) -> Entry | None:
    """What follows for a node, and for the story of the job that met it."""
    node, reason = report.node or "", report.reason or ""
    usable = {known.name for _, known in state.scheduler.cluster.present()} - state.absent.keys()
    if node not in usable:
        return None
    if why_not := _why_not(usable, record):
        told = f"node {node} failed its preflight ({reason}) and stays in use: {why_not}"
        return RunNoted(at=at, job_id=record.id, run_id=report.run_id, text=told)
    return NodeUnfit(at=at, job_id=record.id, run_id=report.run_id, node=node, reason=reason)


def _why_not(usable: set[str], record: JobRecord) -> str:
    if len(usable) == 1:
        return "it is the only one"
    if record.unfit_nodes >= max(_MOST_BY_ONE_JOB, int(_LARGEST_SHARE * len(usable))):
        return f"{record.unfit_nodes} others failed for this job before, and its environment may be the cause"
    return ""


def is_clear_of(record: JobRecord, state: PlatformState) -> bool:
    """Whether a node that the job's run was to start on is out of use by now."""
    return any(worker.node in state.absent for worker in record.workers)
