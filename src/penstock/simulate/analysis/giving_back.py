"""Who holds the cluster, and who could give back what without losing anything."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from penstock.simulate.analysis.bubbles import BubbleRow
from penstock.simulate.analysis.observed import Observed, ObservedJob
from penstock.simulate.analysis.sections import Advice, Section, hours, percent
from penstock.simulate.traces import Ending

_MOST_TENANTS = 15
_CONCENTRATED = 0.5


def giving_back_section(observed: Observed, bubbles: Mapping[str, BubbleRow]) -> Section:
    """By tenant: what it held, what ended in vain, what was idle or wider than it was worth. O(jobs)."""
    by_tenant: dict[str, list[ObservedJob]] = defaultdict(list)
    for job in observed.jobs:
        by_tenant[job.tenant].append(job)
    ordered = sorted(by_tenant.items(), key=lambda each: -sum(job.device_s for job in each[1]))
    return Section(
        name="tenants", title="Who holds the cluster, and who could give back what",
        columns=("tenant", "jobs", "device-hours", "of all", "in vain", "held idle", "too wide"),
        rows=[_row(tenant, jobs, observed, bubbles) for tenant, jobs in ordered[:_MOST_TENANTS]],
        advice=[*_concentration(ordered, observed), *_idle(bubbles), *_too_wide(observed)],
    )  # fmt: skip


def _row(tenant: str, jobs: Sequence[ObservedJob], observed: Observed, bubbles: Mapping[str, BubbleRow]) -> list[str]:
    held = sum(job.device_s for job in jobs)
    vain = sum(job.device_s for job in jobs if job.ending in (Ending.FAILED, Ending.CANCELLED))
    idle = [bubbles[job.id].idle_s for job in jobs if job.id in bubbles]
    wide = [job.wasted_s for job in jobs if job.wasted_s is not None]
    return [
        tenant, f"{len(jobs):,}", hours(held), percent(held / observed.device_s if observed.device_s else 0.0),
        hours(vain) if observed.knows_endings else "not known", hours(sum(idle)) if idle else "not known",
        hours(sum(wide)) if wide else "not known",
    ]  # fmt: skip


def _concentration(ordered: Sequence[tuple[str, Sequence[ObservedJob]]], observed: Observed) -> Iterator[Advice]:
    if len(ordered) < 4 or not observed.device_s:
        return
    first = sum(job.device_s for job in ordered[0][1]) / observed.device_s
    if first > _CONCENTRATED:
        yield Advice(
            title=f"{ordered[0][0]} holds {percent(first)} of the device-time",
            text=f"The other {len(ordered) - 1} tenants share the rest.",
            action="Shares and quotas say who may have how much when others ask: penstock tenants set NAME --share 1.",
        )


def _idle(bubbles: Mapping[str, BubbleRow]) -> Iterator[Advice]:
    held = sum(row.held_s for row in bubbles.values())
    whole, part = sum(row.whole_s for row in bubbles.values()), sum(row.part_s for row in bubbles.values())
    if held and (whole + part) / held > 0.05:
        worst = max(bubbles.values(), key=lambda row: row.idle_s)
        yield Advice(
            title=f"{percent((whole + part) / held)} of what was held stood idle",
            text=f"{hours(whole)} device-hours in jobs of which nothing ran, {hours(part)} beside busy devices of the "
            f"same job; most by {worst.job} ({hours(worst.idle_s)}).",
            action="Sessions with an end (penstock shell --for 2h), and fewer devices for jobs that leave some idle.",
        )


def _too_wide(observed: Observed) -> Iterator[Advice]:
    wasted = sum(job.wasted_s or 0.0 for job in observed.jobs)
    if wasted > 0.1 * observed.device_s:
        yield Advice(
            title=f"{percent(wasted / observed.device_s)} of the device-time bought little speed",
            text="Measured speeds grew less than widths: so much would be left had each device brought as much.",
            action="Leave devices open (devices: 1..8) instead of fixing a number; the policy widens where it pays.",
        )
