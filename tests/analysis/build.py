"""Clusters whose figures can be worked out on paper."""

from penstock.simulate import Ending, Hold, Observed, ObservedJob


def job(
    name: str, asked: int, submitted: float, started: float | None, run_s: float, *, tenant: str = "vision",
    ending: Ending = Ending.COMPLETED, cause: str = "", kind: str = "",
) -> ObservedJob:  # fmt: skip
    holds = () if started is None else (Hold(started, started + run_s, asked),)
    return ObservedJob(
        id=name, tenant=tenant, asked=asked, submitted_at=submitted, run_s=run_s, ending=ending, cause=cause, type=kind,
        waited_s=None if started is None else started - submitted, holds=holds,
    )  # fmt: skip


def four_devices(*jobs: ObservedJob) -> Observed:
    return Observed(name="four", jobs=jobs, devices=4)
