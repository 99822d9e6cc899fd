"""What an evaluation found, put together from its shards and metric steps, and told as metrics."""

from collections.abc import Iterable, Mapping, Sequence

from penstock.core import EvaluationBrief
from penstock.runtime.evaluation.evaluation_files import EvaluationFiles, KnownTimes, ShardResult
from penstock.runtime.evaluation.packing import SetTime, Shard
from penstock.runtime.training.metric_log import log


def tell_results(brief: EvaluationBrief, files: EvaluationFiles, shards: Sequence[Shard]) -> None:
    """Everything is there: log it, and keep how long it took for the next checkpoint."""
    results, metrics = files.results(), files.metrics()
    times = measured_times(brief, shards, results, metrics)
    files.keep_times(KnownTimes(load_s=files.load_time(), sets=times))
    for name, values in results_of(shards, results, metrics, by_shard=brief.metric_by_shard).items():
        log({f"{name}/{metric}": value for metric, value in values.items()})


def results_of(
    shards: Sequence[Shard], results: Mapping[int, ShardResult], metrics: Mapping[str, ShardResult], *, by_shard: bool
) -> dict[str, dict[str, float]]:
    """Metrics by data set: those of shards as means over all samples, those of whole data sets as they are."""
    told = [(shards[number], result.values) for number, result in results.items()]
    if by_shard:
        told += [(shards[int(number)], result.values) for number, result in metrics.items()]
    means = _means(told)
    for of, result in metrics.items() if not by_shard else ():
        means.setdefault(of, {}).update(result.values)
    return dict(sorted(means.items()))


def _means(told: Iterable[tuple[Shard, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    sums: dict[str, dict[str, float]] = {}
    weights: dict[tuple[str, str], int] = {}
    for shard, values in told:
        of_set = sums.setdefault(shard.set, {})
        for name, value in values.items():
            of_set[name] = of_set.get(name, 0.0) + value * shard.weight
            weights[shard.set, name] = weights.get((shard.set, name), 0) + shard.weight
    return {of: {name: total / weights[of, name] for name, total in found.items()} for of, found in sums.items()}


def measured_times(
    brief: EvaluationBrief,
    shards: Sequence[Shard],
    results: Mapping[int, ShardResult],
    metrics: Mapping[str, ShardResult],
) -> tuple[SetTime, ...]:
    """How long each data set took, for the next checkpoint."""
    device_s, metric_s = dict[str, float](), dict[str, float]()
    for number, result in results.items():
        device_s[shards[number].set] = device_s.get(shards[number].set, 0.0) + result.seconds
    for name, result in metrics.items():
        of = shards[int(name)].set if brief.metric_by_shard else name
        metric_s[of] = metric_s.get(of, 0.0) + result.seconds
    return tuple(
        SetTime(
            name=each.name, device_s=device_s[each.name], metric_s=metric_s.get(each.name, 0.0), samples=each.samples
        )
        for each in brief.sets
    )
