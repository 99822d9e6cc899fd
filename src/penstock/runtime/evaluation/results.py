"""What an evaluation found, put together from its shards and metric steps."""

from collections.abc import Mapping, Sequence

from penstock.core import EvaluationBrief
from penstock.runtime.evaluation.evaluation_files import ShardResult
from penstock.runtime.evaluation.packing import SetTime, Shard


def results_of(
    shards: Sequence[Shard], results: Mapping[int, ShardResult], metrics: Mapping[str, ShardResult]
) -> dict[str, dict[str, float]]:
    """Metrics by data set: those of shards as means over all samples, those of metric steps as they are."""
    sums: dict[str, dict[str, float]] = {}
    weights: dict[str, dict[str, int]] = {}
    for number, result in results.items():
        shard = shards[number]
        for name, value in result.values.items():
            of_set, counted = sums.setdefault(shard.set, {}), weights.setdefault(shard.set, {})
            of_set[name] = of_set.get(name, 0.0) + value * shard.weight
            counted[name] = counted.get(name, 0) + shard.weight
    means = {of: {name: total / weights[of][name] for name, total in found.items()} for of, found in sums.items()}
    for of, result in metrics.items():
        means.setdefault(of, {}).update(result.values)
    return dict(sorted(means.items()))


def measured_times(
    brief: EvaluationBrief,
    shards: Sequence[Shard],
    results: Mapping[int, ShardResult],
    metrics: Mapping[str, ShardResult],
) -> tuple[SetTime, ...]:
    """How long each data set took, for the next checkpoint."""
    device_s: dict[str, float] = {}
    for number, result in results.items():
        device_s[shards[number].set] = device_s.get(shards[number].set, 0.0) + result.seconds
    return tuple(
        SetTime(
            name=each.name, device_s=device_s[each.name], samples=each.samples,
            metric_s=metrics[each.name].seconds if each.name in metrics else 0.0,
        )
        for each in brief.sets
    )  # fmt: skip
