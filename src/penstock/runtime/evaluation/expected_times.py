"""How long each data set will probably take: as it took the last time, else as long as others of its size did."""

from collections.abc import Iterable
from dataclasses import replace
from statistics import median

from penstock.core import EvaluationSet
from penstock.runtime.evaluation.evaluation_files import KnownTimes
from penstock.runtime.evaluation.packing import SetTime


def expected_times(sets: Iterable[EvaluationSet], known: KnownTimes, *, by_shard: bool = False) -> KnownTimes:
    """What an earlier evaluation took, scaled where a data set has another size now.

    With nothing to go by, a sample takes one unit of time, whatever that is: the order comes out the same.
    """
    paces = [each.device_s / (each.samples or 1) for each in known.sets]
    tails = [each.metric_s / (each.samples or 1) for each in known.sets]
    pace, tail = (median(paces), median(tails)) if paces else (1.0, 0.0)
    expected = (_expected(each, known, pace, tail) for each in sets)
    return KnownTimes(load_s=known.load_s, sets=tuple(replace(each, by_shard=by_shard) for each in expected))


def _expected(each: EvaluationSet, known: KnownTimes, pace: float, tail: float) -> SetTime:
    before, size = known.of(each.name), each.samples or 1
    if before is None:
        return SetTime(name=each.name, device_s=pace * size, metric_s=tail * size, samples=each.samples)
    scale = size / (before.samples or 1)
    return SetTime(
        name=each.name, device_s=before.device_s * scale, metric_s=before.metric_s * scale, samples=each.samples
    )
