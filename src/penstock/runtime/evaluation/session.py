"""``evaluation.init``: one worker's part in the evaluation of a checkpoint.

The model is loaded once and stays: the worker takes shard after shard until none is left. Raw outputs become metrics in
a process of their own, which needs no device (:mod:`~penstock.runtime.evaluation.scoring`); without a metric step the
first worker waits for the others, puts results together and tells them.
"""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.core import EVALUATION, EvaluationBrief, InputError, metric_values, require
from penstock.runtime.agent.environment import WorkerEnvironment
from penstock.runtime.evaluation.evaluation_files import EvaluationFiles, ShardResult, read_times
from penstock.runtime.evaluation.expected_times import expected_times
from penstock.runtime.evaluation.node_copy import NodeCopy, is_far
from penstock.runtime.evaluation.packing import Shard, pack
from penstock.runtime.evaluation.results import tell_results

if TYPE_CHECKING:
    from torch import nn

_LOOK_EVERY_S = 0.1


@dataclass(slots=True)
class ShardRun:
    """A shard in the hands of a worker: samples ``start`` to ``stop`` of the data set ``set``.

    ``stop`` is None for a data set whose size the job file does not give: all of it. Raw outputs for the metric step
    go to the file ``output``.
    """

    set: str
    start: int
    stop: int | None
    output: Path
    values: dict[str, float]

    def __len__(self) -> int:
        if self.stop is None:
            raise InputError(f"the size of {self.set} is not known", "a number of samples", "Give it in the job file")
        return self.stop - self.start

    @property
    def indices(self) -> range:
        """The samples to evaluate."""
        return range(self.start, self.start + len(self))

    def result(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Metrics of this shard, each the mean over its samples: ``shard.result(accuracy=0.71)``."""
        self.values |= {metric.name: metric.value for metric in metric_values({**(values or {}), **named})}


class Evaluation:
    """What :func:`init_evaluation` returns."""

    def __init__(self, brief: EvaluationBrief, directory: Path, worker: WorkerEnvironment, world: str) -> None:
        self.step = brief.step
        """The step that the checkpoint was saved at."""
        self.is_main = worker.rank == 0
        self._brief = brief
        self._worker = worker
        self._local_size = int(os.environ.get("LOCAL_WORLD_SIZE") or 1)
        self._files = EvaluationFiles(directory, world)
        self._began = time.monotonic()
        self._told = 0
        self._world = world
        self._copy: NodeCopy | None = None

    @property
    def checkpoint(self) -> Path:
        """The checkpoint on this machine: as it was saved, or a copy that all workers of the node share."""
        if not is_far(self._brief.checkpoint):
            if not (found := Path(self._brief.checkpoint)).exists():
                raise InputError(f"there is no checkpoint {found}", "one that is still kept", "Keep more of them")
            return found
        self._copy = NodeCopy(self._brief.checkpoint, self._world, users=self._local_size)
        return self._copy.fetch()

    def load(self, model: "nn.Module", *, name: str = "model") -> None:
        """Fill a PyTorch model with the weights of the checkpoint: of ``penstock.elastic``, or of ``torch.save``.

        ``name`` is what the model is called there, if the checkpoint holds more than one.
        """
        require("torch", extra="runtime", why="loading a checkpoint")
        from penstock.runtime.evaluation.weights import load_weights

        load_weights(model, self.checkpoint, name)

    def shards(self) -> Iterator[ShardRun]:
        """Shard after shard, until all are done; load the model before. Results are told when the last one is."""
        if self.is_main:
            self._files.keep_load_time(time.monotonic() - self._began)
        if self._copy is not None:
            self._copy.release()
        shards = self._agreed()
        for number, shard in enumerate(shards):
            if number in self._files.done() or not self._files.claim(str(number)):
                continue
            yield from self._run(number, shard)
            self._tell_progress(shards)
        self._finish(shards)

    def _agreed(self) -> list[Shard]:
        known = read_times(self._brief.earlier)
        times = expected_times(self._brief.sets, known, by_shard=self._brief.metric_by_shard)
        packed = pack(times.sets, self._worker.size, load_s=times.load_s, processors=cores())
        shards = self._files.agree_on(packed.shards)
        if self.is_main:
            about = f", about {packed.makespan_s:.0f} s" if known.sets else ""
            print(f"{len(shards)} shards of {len(self._brief.sets)} data sets{about}", flush=True)
        return shards

    def _run(self, number: int, shard: Shard) -> Iterator[ShardRun]:
        output = self._files.output(shard, apart=self._brief.metric_by_shard)
        run = ShardRun(shard.set, shard.start, shard.stop, output, {})
        began = time.monotonic()
        yield run
        if not run.values and not (self._brief.metric and run.output.exists()):
            expected = "raw outputs in shard.output" if self._brief.metric else "shard.result(accuracy=…)"
            raise InputError(f"a shard of {shard.set} ended without a result", expected, "Add it to the loop")
        self._files.keep_result(number, ShardResult(values=run.values, seconds=time.monotonic() - began))

    def _tell_progress(self, shards: list[Shard]) -> None:
        done = sum(shards[number].weight for number in self._files.done())
        if self.is_main and done != self._told:
            self._told = done
            print(f"penstock: step={done} total={self._brief.work}", flush=True)

    def _finish(self, shards: list[Shard]) -> None:
        """The first worker tells how far the others are; the devices of all of them are given back together."""
        if not self.is_main:
            return
        while len(self._files.done()) < len(shards):
            time.sleep(_LOOK_EVERY_S)
            self._tell_progress(shards)
        self._tell_progress(shards)
        if not self._brief.metric:
            tell_results(self._brief, self._files, shards)


def init_evaluation() -> Evaluation:
    """Find out what this worker has to evaluate, from what the platform told it."""
    brief, directory = given_brief()
    worker = WorkerEnvironment.from_environment()
    world = (
        f"{os.environ.get('TORCHELASTIC_RUN_ID', 'run')}-{worker.generation}-{os.environ.get('PENSTOCK_ATTEMPT', '0')}"
    )
    return Evaluation(brief, directory, worker, world)


def given_brief() -> tuple[EvaluationBrief, Path]:
    """What the platform told a process of an evaluation: what to do, and the directory that all of them share."""
    text, directory = os.environ.get(EVALUATION), os.environ.get("PENSTOCK_CHECKPOINT_DIR")
    if not text or not directory:
        raise InputError(
            "this process evaluates nothing: no platform started it for a checkpoint", "a job with `evaluate:`",
            "See docs/evaluation.md",
        )  # fmt: skip
    brief = EvaluationBrief.parse(text)
    if not brief.sets:
        raise InputError("no data sets to evaluate", "sets in `evaluate:` of the job file", "Try sets: {arc: 1_000}")
    return brief, Path(directory)


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0))
