"""Before a job's workers start on a node, one of them checks it for all.

Workers of one attempt of a job on one node share a lock and a verdict: eight of them measuring eight devices at once
would find each other's work and call it a slow node.
"""

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from penstock.core import InputError
from penstock.diagnose.preflight.node import NodeCheck
from penstock.diagnose.preflight.report import NodeReport
from penstock.tools import file_lock, write_atomically


def shared_report(
    check: NodeCheck, say: Callable[[str], None], env: Mapping[str, str] = os.environ, folder: Path | None = None
) -> NodeReport:
    """The report of this node: made now, or by another worker of the same attempt of the same job."""
    job, attempt = env.get("PENSTOCK_JOB_ID"), env.get("PENSTOCK_ATTEMPT", "0")
    if not job:
        return check.run(say)
    place = (folder or Path(tempfile.gettempdir())) / f"penstock-preflight-{os.getuid()}"
    place.mkdir(mode=0o700, exist_ok=True)
    if place.stat().st_uid != os.getuid():
        return check.run(say)
    verdict = place / f"{job}-{attempt}.json".replace("/", "_")
    with file_lock(place / "lock"):
        found = _read(verdict)
        if found is None:
            found = check.run(say)
            write_atomically(verdict, json.dumps(found.to_data()))
    return found


def _read(verdict: Path) -> NodeReport | None:
    try:
        return NodeReport.from_data(json.loads(verdict.read_text(encoding="utf-8")))
    except (OSError, ValueError, InputError):
        return None
