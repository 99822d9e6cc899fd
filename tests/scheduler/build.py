"""Small schedulers and jobs with speeds one can compute in one's head: n devices make n iterations per second."""

from collections.abc import Iterable
from typing import Any

from penstock.core import Cluster, Curve, Grant, Instruction, Job, Resize, Resume, Start, Work
from penstock.policies import policy_named
from penstock.scheduler import Scheduler

PROPORTIONAL = Curve.from_table({1: 1.0, 2: 2.0, 4: 4.0})


def job(name: str, iterations: float = 100.0, **changes: Any) -> Job:
    return Job(**({"id": name, "work": Work(iterations), "curve": PROPORTIONAL} | changes))


def scheduler(shape: str = "1x4", policy: str = "fifo", **options: Any) -> Scheduler:
    return Scheduler(Cluster.parse(shape), policy_named(policy), **options)


def kinds(instructions: Iterable[Instruction]) -> list[str]:
    """The instructions by name, in order."""
    return [type(instruction).__name__ for instruction in instructions]


def grants(instructions: Iterable[Instruction]) -> dict[str, tuple[int, ...]]:
    """Devices by job, out of everything that grants some."""
    given: dict[str, Grant] = {i.grant.job_id: i.grant for i in instructions if isinstance(i, Start | Resize | Resume)}
    return {name: grant.devices for name, grant in given.items()}
