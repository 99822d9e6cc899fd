"""How large jobs are and how long they run: most of them are small, most of the device-time is not theirs."""

from collections.abc import Iterator

import numpy as np

from penstock.policies import Floats
from penstock.simulate.analysis.observed import Observed
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

CLASSES = ((1, 1), (2, 4), (5, 8), (9, 64), (65, 256), (257, 10**9))
"""Devices of a job: one, part of a node, a node, some, many, very many."""
PUBLISHED = (
    ("Seren (Acme)", 122, 1414, 5.7), ("Kalos (Acme)", 124, 1260, 26.8), ("Philly", 874, 18006, 1.9),
    ("Helios", 206, 6652, 3.7), ("PAI", 481, 4787, 0.7),
)  # fmt: skip
"""Median and mean run time of GPU jobs in seconds and their mean GPUs: summary table of InternLM/AcmeTrace."""
_SMALL_SHARE, _LARGE_SHARE = 0.8, 0.5


def class_name(least: int, most: int) -> str:
    return str(least) if least == most else f"{least}+" if most >= CLASSES[-1][1] else f"{least}-{most}"


def size_section(observed: Observed) -> Section:
    """O(jobs log jobs)."""
    asked, run_s = observed.column("asked"), observed.column("run_s")
    device_s = np.array([job.device_s for job in observed.jobs])
    return Section(
        name="sizes", title="Sizes and run times",
        columns=("devices", "jobs", "of jobs", "of device-time", "median run", "mean run", "p99 run"),
        rows=[*_rows(asked, run_s, device_s), *_published()],
        advice=list(_advice(asked, run_s, device_s)),
        picture=Picture(
            title="Jobs that ran no longer than", unit="s", log=True,
            lines=[distribution("jobs", run_s), distribution("device-time", run_s, device_s)],
        ),
    )  # fmt: skip


def _rows(asked: Floats, run_s: Floats, device_s: Floats) -> Iterator[list[str]]:
    for least, most in CLASSES:
        inside = (asked >= least) & (asked <= most)
        if inside.any():
            yield _row(class_name(least, most), inside, run_s, device_s)
    yield _row("all", np.ones(len(asked), dtype=bool), run_s, device_s)


def _row(name: str, inside: np.ndarray, run_s: Floats, device_s: Floats) -> list[str]:
    mine = run_s[inside]
    return [
        name, f"{int(inside.sum()):,}", percent(inside.mean()), percent(float(device_s[inside].sum() / device_s.sum())),
        seconds(quantile(mine, 0.5)), seconds(mean(mine)), seconds(quantile(mine, 0.99)),
    ]  # fmt: skip


def _published() -> Iterator[list[str]]:
    """The same of clusters that were studied, to see which of them this one is like."""
    for name, median, average, devices in PUBLISHED:
        yield [f"{name}, {devices:g} devices a job", "", "", "", seconds(median), seconds(average), ""]


def _advice(asked: Floats, run_s: Floats, device_s: Floats) -> Iterator[Advice]:
    total = float(device_s.sum())
    for least, _ in CLASSES[::-1]:
        large = asked >= least
        if device_s[large].sum() >= _LARGE_SHARE * total and large.mean() <= 1 - _SMALL_SHARE:
            yield Advice(
                title=f"{percent(float(large.mean()))} of the jobs take "
                f"{percent(float(device_s[large].sum() / total))} of the device-time",
                text=f"Jobs on {least} devices and more decide how the cluster is used; the others are many.",
                action="Let small jobs fill the gaps beside large ones: elastic jobs under unified or deadline.",
            )
            break
    short = run_s < 600
    if short.mean() > 0.5:
        yield Advice(
            title=f"{percent(float(short.mean()))} of the jobs are over within ten minutes",
            text=f"They take {percent(float(device_s[short].sum() / total))} of the device-time.",
            action="Order by remaining time (srtf, unified) or keep a few devices for jobs that say they are short.",
        )
