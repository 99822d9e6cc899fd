"""Who waits for devices, for how long, and whether there were any."""

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.simulate.analysis.observed import Observed, ObservedJob
from penstock.simulate.analysis.occupancy import Occupancy
from penstock.simulate.analysis.sections import (
    Advice,
    Picture,
    Section,
    distribution,
    mean,
    percent,
    quantile,
    seconds,
)
from penstock.simulate.analysis.sizes import CLASSES, class_name

NEEDED = "when jobs started: a trace with waiting times (helios, acme, alibaba, swf), or a platform's own log"
_MANY_GROUPS = 12
_NOTABLE = 0.1


def queueing_section(observed: Observed, occupancy: Occupancy | None) -> Section:
    """O(jobs log jobs)."""
    told = [job for job in observed.jobs if job.waited_s is not None]
    if not told:
        return Section(name="queueing", title="Waiting for devices", unknown=NEEDED)
    waited = np.array([job.waited_s for job in told], dtype=np.float64)
    return Section(
        name="queueing", title="Waiting for devices",
        columns=("jobs", "how many", "mean wait", "median", "p99", "wait over run, mean"),
        rows=[_row("all", told), *(_row(name, jobs) for name, jobs in _groups(told) if jobs)],
        advice=[*_small_waits(told), *_free_while_waiting(occupancy if observed.devices else None)],
        picture=Picture(
            title="Jobs that waited no longer than", unit="s", log=True, lines=[distribution("jobs", waited)]
        ),
    )  # fmt: skip


def _groups(jobs: Sequence[ObservedJob]) -> Iterator[tuple[str, list[ObservedJob]]]:
    for least, most in CLASSES:
        yield f"on {class_name(least, most)}", [job for job in jobs if least <= job.asked <= most]
    for label, names in (("type", sorted({job.type for job in jobs})), ("tenant", _busiest(jobs))):
        if len(names) > 1:
            for name in names[:_MANY_GROUPS]:
                yield f"{label} {name or '-'}", [job for job in jobs if getattr(job, label) == name]


def _busiest(jobs: Sequence[ObservedJob]) -> list[str]:
    names, counts = np.unique([job.tenant for job in jobs], return_counts=True)
    return [str(name) for name in names[np.argsort(-counts, kind="stable")]]


def _row(name: str, jobs: Sequence[ObservedJob]) -> list[str]:
    waited = np.array([job.waited_s for job in jobs], dtype=np.float64)
    slowdown = waited / np.maximum([job.run_s for job in jobs], 1.0)
    return [
        name, f"{len(jobs):,}", seconds(mean(waited)), seconds(quantile(waited, 0.5)), seconds(quantile(waited, 0.99)),
        f"{mean(slowdown):,.1f}",
    ]  # fmt: skip


def _small_waits(jobs: Sequence[ObservedJob]) -> Iterator[Advice]:
    """Whether small jobs wait longer than large ones, as evaluations did beside reserved pretraining in Acme."""
    small = np.array([job.waited_s for job in jobs if job.asked <= 1], dtype=np.float64)
    large = np.array([job.waited_s for job in jobs if job.asked >= 9], dtype=np.float64)
    if len(small) >= 20 and len(large) >= 20 and mean(small) > 1.5 * mean(large):
        yield Advice(
            title="Small jobs wait longer than large ones",
            text=f"{seconds(mean(small))} on one device, {seconds(mean(large))} on nine and more, on average.",
            action="Share fairly (fair, unified), and let what is reserved be lent: penstock tenants.",
        )


def _free_while_waiting(occupancy: Occupancy | None) -> Iterator[Advice]:
    if occupancy is None or occupancy.waiting_s <= 0:
        return
    fitted, fragmented = occupancy.waited_though_fitting, occupancy.waited_fragmented
    if fitted > _NOTABLE:
        yield Advice(
            title=f"{percent(fitted)} of all waiting happened while enough devices were free",
            text="The first in the queue, or quotas and reservations, kept those back that would have fitted.",
            action="Fill gaps behind the first job (backfilling: fifo, deadline, unified), and let quotas be lent.",
        )
    if fragmented > _NOTABLE:
        yield Advice(
            title=f"{percent(fragmented)} of all waiting happened beside free devices, too few for whoever waited",
            text="Devices stood idle because gangs wanted more of them at once than were free.",
            action="Make jobs elastic, so that they begin on what is there and grow: penstock.elastic, devices: 1..8.",
        )
