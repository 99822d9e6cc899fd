"""What differs between the policies and why, in plain words.

Every sentence is computed from the outcomes; where the figures do not support one it is not written. The policy that
did best is compared with the plainest one that was run, because that is the choice a reader has to make.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from penstock.core import format_duration
from penstock.policies import Floats
from penstock.simulate.metrics import Summary
from penstock.simulate.outcomes import Fate
from penstock.simulate.report.arrays import Crowd, Outcomes
from penstock.simulate.report.job_groups import Fortune, JobClass, classes_of, fortune
from penstock.simulate.report.series import Clockwork, demand, devices_held, jobs_waiting, waiting

_PLAIN = ("fifo", "edf", "srtf", "tiresias", "gandiva", "themis")
_IDLE = 0.9
"""Below this share of devices held, waiting is not for want of devices."""
_FEW = 10
_NOTABLE = 0.02
_NAMED_CAUSES = 3
"""So many causes of broken promises are named."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing worth knowing: a headline and the figures behind it."""

    title: str
    text: str


def findings(crowd: Crowd, runs: Sequence[Outcomes], devices: int, clock: Clockwork) -> list[Finding]:
    """What a reader should know before looking at a chart. O(jobs x policies)."""
    if not len(crowd):
        return [Finding("Nothing happened", "The trace has no jobs.")]
    lead, plain = best(runs), plainest(runs)
    found = [_headline(lead, plain), *_promises(runs), *_admission(crowd, runs), *_gainers(crowd, lead, plain)]
    for run in dict.fromkeys((plain.policy, lead.policy)):
        found += _queue(crowd, next(one for one in runs if one.policy == run), devices, clock)
    return [*found, *_standstill(runs), *_load(crowd, devices, clock)]


def best(runs: Sequence[Outcomes]) -> Outcomes:
    """Most deadlines met, then the fewest promises broken, then the shortest completion times."""
    return max(runs, key=_merit)


def plainest(runs: Sequence[Outcomes]) -> Outcomes:
    """First come, first served if it was run, else the next simplest, else whoever did worst."""
    for name in _PLAIN:
        for run in runs:
            if run.policy == name:
                return run
    return min(runs, key=_merit)


def _merit(run: Outcomes) -> tuple[float, int, float]:
    return _or_zero(run.summary.ratio), -run.summary.broken, -_or_inf(run.summary.jct_mean_s)


def _headline(lead: Outcomes, plain: Outcomes) -> Finding:
    s, p = lead.summary, plain.summary
    if lead is plain:
        told = f"{_kept(lead)}; jobs take {format_duration(s.jct_mean_s)} on average."
        return Finding(f"{s.policy} by itself", told)
    if math.isnan(s.ratio):
        text = f"No job has a deadline. Jobs take {_both(s.jct_mean_s, p.jct_mean_s, p.policy)} on average."
        return Finding(f"{s.policy} finishes jobs soonest", text)
    text = f"{s.policy}: {_kept(lead)}. {p.policy}: {_kept(plain)}. "
    text += f"Jobs take {_both(s.jct_mean_s, p.jct_mean_s, p.policy)} on average"
    if s.declined > p.declined:
        text += f", counted over those that finished: {s.policy} refused {s.declined}"
    return Finding(
        f"{s.policy} meets {100 * s.ratio:.1f}% of the deadlines, {p.policy} {100 * p.ratio:.1f}%", text + "."
    )


def _kept(run: Outcomes) -> str:
    s = run.summary
    due = s.jobs - s.best_effort
    return f"{s.met} of {due} deadlines met, {s.late} late, {s.declined} refused" if due else "no deadlines"


def _both(mine: float, theirs: float, other: str) -> str:
    return f"{format_duration(mine)} instead of {format_duration(theirs)} under {other}"


def _promises(runs: Sequence[Outcomes]) -> Iterator[Finding]:
    made = [run.summary for run in runs if run.summary.promises]
    if not made:
        return
    clean = [s.policy for s in made if not s.broken]
    parts = [f"{s.policy} promised {s.promises} deadlines and broke {s.broken}{_causes(s)}" for s in made]
    title = f"Promises hold under {_list(clean)}" if clean else "Every policy that promises broke some promises"
    yield Finding(title, "; ".join(parts) + ".")


def _causes(summary: Summary) -> str:
    """Why promises were broken, the most frequent causes first."""
    named = [f"{cause}: {count}" for cause, count in islice(summary.broken_causes.items(), _NAMED_CAUSES)]
    more = len(summary.broken_causes) - len(named)
    return f" ({'; '.join([*named, f'{more} other causes'] if more else named)})" if named else ""


def _admission(crowd: Crowd, runs: Sequence[Outcomes]) -> Iterator[Finding]:
    """Who was turned away, whether anybody could have served them, and who did."""
    for run in runs:
        refused = run.ended(Fate.DECLINED)
        if not (count := int(refused.sum())):
            continue
        hopeless = int((refused & ~crowd.possible).sum())
        rest = count - hopeless
        others = [other for other in runs if other is not run]
        met = {other.policy: int((other.ended(Fate.MET) & refused).sum()) for other in others}
        text = f"{hopeless} of them could not have met their deadline even alone on the empty cluster"
        text += f"; the other {rest} could have alone, but not beside the work already there." if rest else "."
        served = [f"{number} under {name}" for name, number in met.items() if number]
        if served:
            text += f" Elsewhere some of the refused were in time: {_list(served)}."
        elif others:
            text += " No other policy met the deadline of any of them."
        yield Finding(f"{run.policy} refused {count} job{'s' if count != 1 else ''} in advance", text)


def _gainers(crowd: Crowd, lead: Outcomes, plain: Outcomes) -> Iterator[Finding]:
    """The class that gains most and the one that pays most when the lead replaces the plainest policy."""
    if lead is plain:
        return
    groups = [group for group in classes_of(crowd) if len(group) >= _FEW]
    told = [(group, fortune(crowd, lead, group), fortune(crowd, plain, group)) for group in groups]
    due = [one for one in told if one[1].due >= _FEW]
    if due:
        winner = max(due, key=lambda one: one[1].ratio - one[2].ratio)
        if winner[1].ratio - winner[2].ratio > _NOTABLE:
            yield Finding(f"Who gains most: {winner[0].label}", _fared(winner, lead, plain))
        loser = min(due, key=lambda one: one[1].ratio - one[2].ratio)
        if loser[1].ratio - loser[2].ratio < -_NOTABLE:
            yield Finding(f"Who pays: {loser[0].label}", _fared(loser, lead, plain))
    slower = [one for one in told if one[1].jct_p50_s > (1 + _NOTABLE) * one[2].jct_p50_s]
    if slower:
        worst = max(slower, key=lambda one: one[1].jct_p50_s / one[2].jct_p50_s)
        yield Finding(f"Who waits longer: {worst[0].label}", _fared(worst, lead, plain))


def _fared(one: tuple[JobClass, Fortune, Fortune], lead: Outcomes, plain: Outcomes) -> str:
    group, mine, theirs = one
    text = f"Of the {len(group)} jobs of this class "
    if mine.due:
        text += f"{lead.policy} brought {mine.met} home in time and {plain.policy} {theirs.met}, of {mine.due} with a "
        text += "deadline. Half of those that finished took "
    else:
        text += "half of those that finished took "
    return text + f"at most {_both(mine.jct_p50_s, theirs.jct_p50_s, plain.policy)}."


def _queue(crowd: Crowd, run: Outcomes, devices: int, clock: Clockwork) -> Iterator[Finding]:
    """When jobs wait, and whether for want of devices or for the policy's own reasons."""
    starts, ends = jobs_waiting(crowd, run)
    waited_s = float((ends - starts).sum())
    if not waited_s:
        yield Finding(f"Nobody queues under {run.policy}", "Every job that ran started in the round after it came.")
        return
    line = waiting(crowd, run, clock)
    peak = int(line.argmax())
    text = f"{len(starts)} jobs wait {format_duration(waited_s / len(starts))} on average. "
    text += (
        f"The queue is longest {format_duration(peak * clock.bin_s)} into the trace, with {line[peak]:.0f} jobs in it. "
    )
    if run.timeline is not None:
        idle = devices_held(run.timeline, clock) < _IDLE * devices
        share = float(line[idle].sum() / line.sum())
        text += _cause(share, run.policy)
    yield Finding(f"Where the queue of {run.policy} comes from", text.strip())


def _cause(idle_share: float, policy: str) -> str:
    if idle_share < 0.005:
        return "All waiting happens while at least nine tenths of the devices are held: there is more work than that."
    told = f"{100 * idle_share:.0f}% of all waiting happens while more than a tenth of the devices is free"
    if idle_share > 0.5:
        return f"{told}: it comes from how {policy} hands devices out, not from a lack of them."
    if idle_share < 0.1:
        return f"Only {told}: it comes from more work than devices."
    return f"{told}; the rest is for want of devices."


def _standstill(runs: Sequence[Outcomes]) -> Iterator[Finding]:
    moved = [run for run in runs if run.summary.rescales or run.summary.suspensions]
    if not moved:
        return
    parts = [
        f"{run.policy} resized {run.summary.rescales:,} times and suspended {run.summary.suspensions:,} times "
        f"({100 * run.summary.overhead_share:.2g}% of its device time)"
        for run in moved
    ]
    yield Finding("What moving jobs costs", "; ".join(parts) + ".")


def _load(crowd: Crowd, devices: int, clock: Clockwork) -> Iterator[Finding]:
    """Whether the trace asks for more than there is, and when."""
    asked = demand(crowd, clock)
    last = max(1, math.ceil((float(crowd.submitted.max()) - clock.start) / clock.bin_s))
    load = float(asked[:last].sum() / last / devices)
    window = max(1, last // 12)
    busiest = _rolling(asked[:last], window)
    at = int(busiest.argmax())
    text = (
        f"While jobs arrive, they bring {load:.2g} times the work the {devices} devices can do at the widths asked for"
    )
    text += f"; in the busiest stretch ({format_duration(at * clock.bin_s)} to "
    text += f"{format_duration((at + window) * clock.bin_s)}) {busiest[at] / devices:.2g} times."
    yield Finding("How heavy the trace is", text)


def _rolling(values: Floats, window: int) -> Floats:
    return np.convolve(values, np.ones(window) / window, mode="valid")


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def _or_inf(value: float) -> float:
    return math.inf if math.isnan(value) else value
