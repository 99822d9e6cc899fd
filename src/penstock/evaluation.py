"""Evaluation of checkpoints beside training, in the script that ``evaluate:`` of a job file names::

    import penstock.evaluation as evaluation

    run = evaluation.init()
    run.load(model)
    for shard in run.shards():
        hits = sum(is_right(model, data[shard.set][index]) for index in shard.indices)
        shard.result(accuracy=hits / len(shard))

The model is loaded once, whatever the number of data sets; results are curves of the job that trains.
See ``docs/evaluation.md``.
"""

from penstock.runtime import Evaluation, PackedEvaluation, SetTime, Shard, ShardRun, pack
from penstock.runtime import init_evaluation as init

__all__ = ["Evaluation", "PackedEvaluation", "SetTime", "Shard", "ShardRun", "init", "pack"]
