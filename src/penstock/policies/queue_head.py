"""The head of the queue: the waiting job for which the next devices are reserved, so that a large gang starts.

Small jobs that keep coming can hold a job that needs much of the cluster at once off for ever, because enough devices
are never free together. So waiting has a limit, the *patience* of a job: ``starving_s`` or ten times its run time,
whichever is less, and the less of it the larger the part of the cluster that the job needs. A job that has waited for
longer in all, over all its stints, is *due*. The first due job is the head of the queue: it starts before every job
that began to run after it was due, and devices are reserved for it from the earliest time on (EASY backfilling:
Lifka, JSSPP'95; elastic jobs shrink for it). A due job is not suspended again for a job that is promised nothing.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from penstock.policies.columns import Bools, Floats, Standing
from penstock.policies.parameters import Parameter
from penstock.policies.view import View

Starving = Annotated[float, Parameter("a job is due after waiting so long in all, sooner if it is wide", least=1.0)]
STARVING_S = 6 * 3600.0
RUN_TIMES = 10.0
"""A job is due at the latest after waiting so many times as long as it runs."""
WIDTH_POWER = 3.0
"""Patience falls with this power of the part of the cluster that a job does not need."""
NO_JOB = -1


@dataclass(frozen=True, slots=True)
class Queue:
    """When jobs that were admitted without a promise are due, by how long they have waited. All O(jobs)."""

    starving_s: float

    def due_since(self, view: View) -> Floats:
        """When each row became due, or will if it goes on waiting; infinite for rows that are answered otherwise."""
        waiting = view.width == 0
        now_s = np.where(waiting, view.now - view.stint_since, 0.0)
        over_s = view.waited_s + now_s - self.patience_s(view)
        # a running row became due before its present stint
        since = np.where(waiting, view.now, view.stint_since) - over_s
        known = (view.standing == Standing.ADMITTED) & (waiting | (over_s >= 0.0))
        return np.where(known, since, np.inf)

    def patience_s(self, view: View) -> Floats:
        """How long each row waits at most before it is due."""
        part = np.ones(len(view))
        for options, capacity in zip(view.by_kind, view.capacity.tolist(), strict=True):
            narrowest = np.where(options.depth > 0, options.levels[:, 0] / max(capacity, 1), 1.0)
            np.minimum(part, narrowest, out=part)
        return np.minimum(self.starving_s, RUN_TIMES * view.narrow_run_s) * (1.0 - part) ** WIDTH_POWER

    def head(self, view: View, due_since: Floats) -> int:
        """The waiting row that became due first; ``NO_JOB`` if none is due."""
        waiting = np.flatnonzero((view.width == 0) & (due_since <= view.now))
        if not len(waiting):
            return NO_JOB
        return int(waiting[np.lexsort((view.sequence[waiting], due_since[waiting]))[0]])

    def starving(self, view: View) -> Bools:
        """Rows without devices that have waited for ``starving_s`` in all."""
        waited_s = view.waited_s + view.now - view.stint_since
        return np.asarray((view.width == 0) & (waited_s >= self.starving_s) & (view.standing >= Standing.ADMITTED))
