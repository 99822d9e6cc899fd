"""What an agent makes of what its workers measure: news for the reports, and the latest in a file beside the run."""

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.backends.agent.states import WorkerGroup
from penstock.backends.agent.watch.stragglers import StragglerWatch, Straggling
from penstock.core import (
    CodecError,
    Hotspots,
    LossWrong,
    ReportKind,
    RunWatch,
    StateRolledBack,
    StepTimes,
    WorkerTimes,
    build,
    plain,
)
from penstock.tools import write_atomically

WRITE_EVERY_S = 5.0
MOST_NEWS = 30
"""Of one kind that one run tells: who has more to say is not believed to say anything new."""


class RunObserver:
    """Takes in measurements; ``report`` tells the server something, ``remark`` whoever reads the run's output."""

    def __init__(
        self,
        path: Path,
        clock: Callable[[], float],
        report: Callable[[ReportKind, dict[str, Any]], object],
        remark: Callable[[str], None],
    ) -> None:
        self._path = path
        self._clock = clock
        self._report = report
        self._remark = remark
        self._stragglers = StragglerWatch()
        self._generation = -1
        self._times: dict[str, StepTimes] = {}
        self._group: WorkerGroup | None = None
        self._hotspots: Hotspots | None = None
        self._stacks = ""
        self._told: Counter[ReportKind] = Counter()
        self._unwritten = False
        self._write_at = 0.0

    def times(self, worker_id: str, times: StepTimes, group: WorkerGroup) -> None:
        """How long the steps of a worker took; of one that is not in the present world nothing is compared."""
        if group.generation != self._generation:
            self._generation, self._times = group.generation, {}
            self._stragglers.begin()
        if worker_id not in group.ids:
            return
        self._group, self._times[worker_id], self._unwritten = group, times, True
        for news in self._stragglers.take(worker_id, times, group.size):
            self._tell(news, group)

    def hotspots(self, found: Hotspots) -> None:
        self._hotspots, self._unwritten, self._write_at = found, True, 0.0

    def stuck(self, text: str, path: str) -> None:
        """Workers were looked at because no step came."""
        self._stacks, self._unwritten = path, True
        self._news(ReportKind.STUCK, text, path=path)

    def loss_wrong(self, message: LossWrong) -> None:
        self._news(ReportKind.LOSS_WRONG, message.reason, step=message.step)

    def rolled_back(self, message: StateRolledBack) -> None:
        text = (
            f"{message.reason}: training went back to step {message.step} and passes over the batches of steps"
            f" {message.skips} to {message.until}"
        )
        self._news(ReportKind.ROLLED_BACK, text, step=message.step)

    def tick(self) -> None:
        if self._unwritten and time.monotonic() >= self._write_at:
            self.flush()

    def flush(self) -> None:
        """Write down the latest, if there is anything new."""
        if not self._unwritten:
            return
        self._unwritten, self._write_at = False, time.monotonic() + WRITE_EVERY_S
        seen = RunWatch(at=self._clock(), hotspots=self._hotspots, workers=self._workers(), stacks=self._stacks)
        write_atomically(self._path, json.dumps(plain(seen)))

    def _workers(self) -> tuple[WorkerTimes, ...]:
        if self._group is None:
            return ()
        return tuple(
            WorkerTimes(
                worker=worker.id, rank=rank, place=str(worker.place), times=self._times[worker.id],
                slower=self._stragglers.factor_of(worker.id),
            )
            for rank, worker in enumerate(self._group.workers)
            if worker.id in self._times
        )  # fmt: skip

    def _tell(self, news: Straggling, group: WorkerGroup) -> None:
        rank = group.rank_of(news.worker)
        who = f"worker {news.worker} on {group.workers[rank].place}"
        if news.is_over:
            text = f"{who} keeps up with the others again"
        else:
            text = (
                f"{who} is {news.factor:.1f}x slower than the others in {news.cause} since step {news.since}"
                f" ({news.own_s:.3g} s of each step, the others {news.others_s:.3g} s)"
            )
        value = {} if news.is_over else {"value": news.factor}
        self._news(ReportKind.STRAGGLER, text, worker=news.worker, rank=rank, step=news.since, **value)

    def _news(self, kind: ReportKind, text: str, **said: Any) -> None:
        self._told[kind] += 1
        if self._told[kind] <= MOST_NEWS:
            self._remark(text)
            self._report(kind, {"reason": text, **said})


def read_watch(path: Path) -> RunWatch | None:
    """What was seen last of a run; nothing where nothing was, or by another version."""
    try:
        found: RunWatch = build(RunWatch, json.loads(path.read_text()))
    except (OSError, ValueError, CodecError):
        return None
    return found
