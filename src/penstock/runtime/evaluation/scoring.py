"""``python -m penstock.runtime.evaluation.scoring``: has the metrics of an evaluation computed, and tells its results.

The platform starts it beside the workers of an evaluation, without a device, and it outlives them: their devices are
given back while it is still at work. It begins a metric step when all shards that the step needs are done. What it has
found is kept, so that one that is started in its place goes on where it was, and no worker has to come back for that.
"""

import sys
import time
from collections.abc import Callable, Mapping

from penstock.core import EvaluationBrief, InputError
from penstock.runtime.agent.environment import WorkerEnvironment
from penstock.runtime.agent.link import AgentLink
from penstock.runtime.evaluation.evaluation_files import EvaluationFiles
from penstock.runtime.evaluation.metric_steps import MetricSteps
from penstock.runtime.evaluation.packing import Shard
from penstock.runtime.evaluation.results import tell_results
from penstock.runtime.evaluation.session import cores, given_brief

_LOOK_EVERY_S = 0.2
_WORLD = "scoring"


class Scoring:
    """Metric steps of one evaluation. ``is_last`` says whether no worker is left that could do more shards."""

    def __init__(self, brief: EvaluationBrief, files: EvaluationFiles, is_last: Callable[[], bool]) -> None:
        self._brief = brief
        self._files = files
        self._is_last = is_last
        self._steps = MetricSteps(brief.metric, brief.step, at_once=cores())
        self._failed: set[str] = set()

    def run(self) -> None:
        """Until all results are told; raises for steps that failed when the others are done."""
        while (shards := self._look()) is None:
            time.sleep(_LOOK_EVERY_S)
        if self._failed:
            failed = f"{len(self._failed)} of {len(self._needed(shards))} metric steps failed"
            raise InputError(f"{failed}: {', '.join(sorted(self._failed))}", "steps that end with code 0")
        tell_results(self._brief, self._files, shards)

    def _look(self) -> list[Shard] | None:
        """Begin what can begin and keep what has ended; the shards, once nothing is left to do."""
        is_last = self._is_last()
        shards = self._files.plan()
        done = self._files.done()
        self._keep()
        if shards is None or len(done) < len(shards):
            if is_last:
                raise self._undone(shards, len(done))
            if shards is None:
                return None
        needed = self._needed(shards)
        known = self._files.scored() | self._failed
        for name, numbers in needed.items():
            if name not in known and name not in self._steps.under_way and done.issuperset(numbers):
                shard = shards[numbers[0]]
                self._steps.start(name, shard.set, self._files.outputs(shard, apart=self._brief.metric_by_shard))
        return shards if known >= needed.keys() else None

    def _needed(self, shards: list[Shard]) -> Mapping[str, list[int]]:
        """Which shards each step needs; steps are called after their data set, or after their only shard."""
        needed: dict[str, list[int]] = {}
        for number, shard in enumerate(shards):
            needed.setdefault(str(number) if self._brief.metric_by_shard else shard.set, []).append(number)
        return needed

    def _keep(self) -> None:
        for name, future in self._steps.over().items():
            try:
                self._files.keep_metrics(name, future.result())
            except InputError as error:
                self._failed.add(name)
                print(error, file=sys.stderr, flush=True)

    def _undone(self, shards: list[Shard] | None, done: int) -> InputError:
        what = "none of its shards" if shards is None else f"{done} of {len(shards)} shards"
        return InputError(
            f"all workers have ended and {what} are done", "a script that goes through run.shards() to its end",
            "See docs/evaluation.md",
        )  # fmt: skip


def main() -> int:
    brief, directory = given_brief()
    worker = WorkerEnvironment.from_environment()
    link = AgentLink(worker.agent, worker.worker, worker.secret, elastic=False)
    try:
        Scoring(brief, EvaluationFiles(directory, _WORLD), lambda: link.finish).run()
    except InputError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code
    finally:
        link.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
