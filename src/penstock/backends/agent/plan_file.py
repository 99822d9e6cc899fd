"""The file in which the workers of a run find the parallel plan of their width.

One file for the whole run: its name stands in their command and environment, and it is written anew whenever a group of
another width is started. Workers of such jobs are plain ones, so those of the last width have ended by then.
"""

import json
from dataclasses import replace
from pathlib import Path

from penstock.core import Launch
from penstock.tools import write_atomically

PLAN_PLACE = "{plan}"
"""What stands for the file among the words of a command."""


def with_plan_path(launch: Launch, path: Path) -> Launch:
    """The launch with the file's name in its command; unchanged for runs without plans."""
    if not launch.plans:
        return launch
    return replace(launch, command=tuple(word.replace(PLAN_PLACE, str(path)) for word in launch.command))


def write_plan(path: Path, launch: Launch, width: int) -> None:
    """Put the plan of a width into the file; a width without one leaves no file, and its workers say so."""
    if not launch.plans:
        return
    plan = next((plan for plan in launch.plans if plan.devices == width), None)
    if plan is None:
        path.unlink(missing_ok=True)
    else:
        write_atomically(path, json.dumps(plan.to_mapping()))
