"""What the script inside the page draws from."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock.core import Cluster
from penstock.policies import Floats
from penstock.simulate.report.arrays import FATES, Outcomes
from penstock.simulate.report.gantt import gantt_of
from penstock.simulate.report.packing import pack_bytes, pack_floats, pack_text
from penstock.simulate.report.series import Distribution, distribution
from penstock.simulate.report.study import Study

_NODE_LABELS = 16


def payload(study: Study) -> dict[str, Any]:
    crowd, start = study.crowd, study.clock.start
    due = np.where(np.isfinite(crowd.deadline), crowd.deadline - start, -1.0)
    return {
        "span": study.clock.end - start,
        "bin": study.clock.bin_s,
        "devices": study.devices,
        "nodes": list(_node_labels(study.setting.cluster)),
        "jobs": {
            "ids": pack_text(list(crowd.ids)), "model": pack_text(list(crowd.models)),
            "submitted": pack_floats(crowd.submitted - start), "deadline": pack_floats(due),
        },
        "policies": [_policy_data(study, run) for run in study.runs],
    }  # fmt: skip


def _node_labels(cluster: Cluster) -> Iterator[tuple[str, int]]:
    every = max(1, math.ceil(len(cluster.nodes) / _NODE_LABELS))
    for place in range(0, len(cluster.nodes), every):
        yield cluster.nodes[place].name, cluster.devices_of(place).start


def _policy_data(study: Study, run: Outcomes) -> dict[str, Any]:
    jobs = max(len(study.crowd), 1)
    use = study.use(run)
    drawn = None if run.timeline is None else gantt_of(run.timeline, study.crowd.ids, study.devices, study.clock)
    return {
        "name": run.policy,
        "end": _end(study, run),
        "fates": [run.count(fate) for fate in FATES],
        "jct_cdf": _curve(distribution(run.jct_s, jobs)),
        "wait_cdf": _curve(distribution(run.wait_s, jobs)),
        "use": None if use is None else {"y": _rounded(use)},
        "queue": {"y": _rounded(study.queue(run))},
        "jct": pack_floats(run.jct_s),
        "wait": pack_floats(run.wait_s),
        "fate": pack_bytes(run.fate),
        "gantt": None if drawn is None else drawn.packed(),
    }


def _end(study: Study, run: Outcomes) -> float:
    """When its last job ended; the whole span if none did."""
    ends = run.finished[~np.isnan(run.finished)]
    return float(ends.max() if len(ends) else study.clock.end) - study.clock.start


def _curve(found: Distribution) -> dict[str, list[float]]:
    return {"x": _rounded(found.values, 2), "y": _rounded(found.shares, 5)}


def _rounded(values: Floats, digits: int = 4) -> list[float]:
    return [float(value) for value in np.round(values, digits)]
