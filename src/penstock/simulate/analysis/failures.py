"""How jobs end, what those cost that end in vain, and when they fail."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from penstock.simulate.analysis.observed import EARLY_S, Observed, ObservedJob
from penstock.simulate.analysis.sections import Advice, Picture, Section, distribution, hours, percent, seconds
from penstock.simulate.traces import Ending

NEEDED = "how jobs ended: a trace that says so (helios, acme, alibaba, swf), or a platform's own log"
PUBLISHED = (
    ("Seren (Acme)", "49.7/7.5/42.9", "21.2/66.4/12.4"), ("Kalos (Acme)", "54.1/6.2/39.7", "31.3/60.7/8.0"),
    ("Philly", "60.4/9.0/30.5", "32.1/29.4/38.6"), ("Helios", "62.4/22.1/15.5", "51.3/39.4/9.3"),
)  # fmt: skip
"""GPU jobs and GPU time completed / cancelled / failed in %: summary table of InternLM/AcmeTrace."""
_MOST_CAUSES = 12


def failure_section(observed: Observed) -> Section:
    """O(jobs)."""
    if not observed.knows_endings:
        return Section(name="failures", title="How jobs end, and what that costs", unknown=NEEDED)
    failed = [job for job in observed.jobs if job.ending is Ending.FAILED]
    ran = np.array([job.run_s for job in failed])
    lines = [distribution("failed jobs", ran)]
    return Section(
        name="failures", title="How jobs end, and what that costs",
        columns=("jobs", "how many", "of jobs", "of device-time", "device-hours", "median run"),
        rows=[*_by_ending(observed), *_by_cause(observed, failed), *_published()],
        advice=[*_early(observed, failed), *_late(observed, failed), *_lost(observed)],
        picture=Picture(title="Failed jobs that ran no longer than", unit="s", log=True, lines=lines)
        if failed
        else None,
    )  # fmt: skip


def _by_ending(observed: Observed) -> Iterator[list[str]]:
    for ending in Ending:
        mine = [job for job in observed.jobs if job.ending is ending]
        if mine:
            yield _row(ending, mine, observed)


def _by_cause(observed: Observed, failed: Sequence[ObservedJob]) -> Iterator[list[str]]:
    causes: dict[str, list[ObservedJob]] = defaultdict(list)
    for job in failed:
        if job.cause:
            causes[job.cause].append(job)
    ordered = sorted(causes.items(), key=lambda each: -sum(job.device_s for job in each[1]))
    for cause, mine in ordered[:_MOST_CAUSES]:
        yield _row(f"failed: {cause}", mine, observed)


def _row(name: str, jobs: Sequence[ObservedJob], observed: Observed) -> list[str]:
    device_s = sum(job.device_s for job in jobs)
    return [
        str(name), f"{len(jobs):,}", percent(len(jobs) / len(observed.jobs)),
        percent(device_s / observed.device_s if observed.device_s else 0.0), hours(device_s),
        seconds(float(np.median([job.run_s for job in jobs]))),
    ]  # fmt: skip


def _published() -> Iterator[list[str]]:
    for name, jobs, time in PUBLISHED:
        yield [f"{name}: completed/cancelled/failed %", "", jobs, time, "", ""]


def _early(observed: Observed, failed: Sequence[ObservedJob]) -> Iterator[Advice]:
    early = [job for job in failed if job.run_s < EARLY_S]
    if len(early) < max(10, 0.02 * len(observed.jobs)):
        return
    held = sum(job.device_s for job in early)
    yield Advice(
        title=f"{percent(len(early) / len(failed))} of the failures come within ten minutes",
        text=f"{len(early):,} jobs, {hours(held)} device-hours: settings, imports and paths rather than hardware.",
        action="Run first minutes on few devices: penstock run --devices 1, and penstock doctor JOB for the reason.",
    )


def _late(observed: Observed, failed: Sequence[ObservedJob]) -> Iterator[Advice]:
    """Few failures cost most of what failures cost (Acme: infrastructure, a tenth of them, four fifths of the time)."""
    total = sum(job.device_s for job in failed)
    dearest = sorted(failed, key=lambda job: -job.device_s)[: max(1, len(failed) // 10)]
    cost = sum(job.device_s for job in dearest)
    if len(failed) < 10 or total < 0.02 * observed.device_s or cost < 0.5 * total:
        return
    causes = Counter(job.cause for job in dearest if job.cause).most_common(3)
    told = f" Named causes: {', '.join(f'{cause} ({count})' for cause, count in causes)}." if causes else ""
    yield Advice(
        title=f"A tenth of the failures costs {percent(cost / total)} of what failures cost",
        text=f"{hours(cost)} device-hours of {hours(total)} in jobs that failed.{told}",
        action="Save often and resume by itself (penstock.elastic), and test nodes first (penstock preflight).",
    )


def _lost(observed: Observed) -> Iterator[Advice]:
    lost = sum(job.lost_s for job in observed.jobs)
    if lost > 0.01 * observed.device_s:
        yield Advice(
            title=f"{percent(lost / observed.device_s)} of the device-time was done twice",
            text=f"{hours(lost)} device-hours lay behind the last checkpoint when a run ended.",
            action="Save more often, or say that a script can resume (resumable: true) once it does.",
        )
