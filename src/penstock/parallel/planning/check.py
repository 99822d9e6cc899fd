"""Does a plan compute what the undivided model computes? Real processes on this machine, a toy of the model.

The toy keeps everything about a plan that could be wrong: stages and their cuts, tensor, sequence and context splits,
schedule, sharding and recomputation. Only numbers that mean more of the same shrink: samples, replicas, hidden sizes.
"""

import importlib.util
import json
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.core import ParallelPlan, install_command, why_not_executable

MOST_PROCESSES = 16
PATIENCE_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """``equal`` is None where nothing was run, and ``reason`` says why."""

    equal: bool | None
    reason: str = ""
    processes: int = 0
    loss_error: float = math.nan
    gradient_error: float = math.nan

    @property
    def words(self) -> str:
        if self.equal is None:
            return self.reason
        errors = f"loss off by {self.loss_error:.1e}, gradients by {self.gradient_error:.1e} of the largest"
        if self.equal:
            return f"equal: {self.processes} processes compute what the undivided model computes ({errors})"
        return f"NOT equal: {self.reason or errors}"


def check_plan(plan: ParallelPlan) -> Checked:
    """One training step of a toy of the planned model under the plan, compared with the undivided toy."""
    reason = why_not_executable(plan)
    if reason:
        return Checked(equal=None, reason=f"export only: {reason}")
    toy = shrunk(plan)
    if toy.devices > MOST_PROCESSES:
        return Checked(
            equal=None, reason=f"not checked: {toy.devices} processes even with few replicas, at most {MOST_PROCESSES}"
        )
    if importlib.util.find_spec("torch") is None:
        return Checked(equal=None, reason=f"not checked: PyTorch is not installed ({install_command('runtime')})")
    return _run(toy)


def shrunk(plan: ParallelPlan) -> ParallelPlan:
    """The same plan with as few replicas as keep their proportions, one or two samples each, and few micro-batches."""
    degrees = {dp for stage in plan.stages for dp in stage.dp}
    common = math.gcd(*degrees)
    fewer = common if len(degrees) > 1 else max(1, common // 2)
    stages = tuple(
        replace(
            stage, devices=stage.devices // fewer, dp=tuple(dp // fewer for dp in stage.dp)
        )
        for stage in plan.stages
    )  # fmt: skip
    size = math.lcm(*(dp // fewer for dp in degrees))
    count = min(plan.micro_batches, 2 * len(stages) * plan.interleave)
    return replace(plan, stages=stages, micro_batch=size, global_batch=size * count)


def _run(toy: ParallelPlan) -> Checked:
    """In a fresh interpreter, because the checker forks and this process may hold threads."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "plan.json")
        file.write_text(json.dumps(toy.to_mapping()), encoding="utf-8")
        command = [sys.executable, "-m", "penstock.runtime.parallel.check", str(file)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        except subprocess.TimeoutExpired:
            return Checked(equal=False, reason=f"no answer within {PATIENCE_S:.0f} s", processes=toy.devices)
    try:
        verdict = json.loads(done.stdout)
    except ValueError:
        last = done.stderr.strip().splitlines()[-1:] or ["no output"]
        return Checked(equal=False, reason=f"the check failed: {last[0]}", processes=toy.devices)
    return Checked(
        equal=verdict["equal"], reason=verdict["problem"], processes=toy.devices, loss_error=verdict["loss_error"],
        gradient_error=verdict["gradient_error"],
    )  # fmt: skip
