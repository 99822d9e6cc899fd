"""What is left of runs whose agent is gone: processes to end, once for each run, before anyone learns that it is dead.

Otherwise workers would go on unwatched beside the ones that a server starts in their place. A run whose directory was
removed under its agent is looked after too: the agent is still there, and nobody else remembers where.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.backends.agent.processes import ProcessMark, kill_marked, kill_strays
from penstock.backends.runs.rundir import AGENT_PROGRAM, RunDir

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class OrphanReaper:
    """Agents that were seen alive, and runs whose processes have been ended."""

    _paths: dict[str, Path] = field(default_factory=dict)
    _agents: dict[str, ProcessMark] = field(default_factory=dict)
    _reaped: set[str] = field(default_factory=set)

    def reap(self, dead: Iterable[RunDir]) -> None:
        """End what agents that are dead have left running; a run that came alive again is looked after again."""
        fresh = [one for one in dead if one.run_id not in self._reaped and not one.is_alive()]
        if fresh:
            kill_strays([one.path for one in fresh])
            self._reaped.update(one.run_id for one in fresh)

    def expect(self, run_dir: RunDir) -> None:
        """A run was started here: from now on its directory has to be there."""
        self._paths[run_dir.run_id] = run_dir.path

    def watch(self, found: Mapping[str, RunDir], spared: Collection[str]) -> None:
        """Take note of the agents that are there, and end those whose directory is not there any more."""
        for run_id in [run_id for run_id in self._paths if run_id not in found and run_id not in spared]:
            _log.warning("the directory of run %s is gone; its processes are ended", run_id)
            if (agent := self._agents.pop(run_id, None)) is not None:
                kill_marked(agent)
            kill_strays([self._paths.pop(run_id)])
        for run_id, one in found.items():
            self._paths[run_id] = one.path
            if run_id in self._reaped and one.is_alive():
                self._reaped.discard(run_id)
            if run_id not in self._agents and (told := one.read_agent()) is not None:
                self._agents[run_id] = ProcessMark.of(int(told["pid"]), AGENT_PROGRAM)

    def forget(self, run_id: str) -> None:
        self._paths.pop(run_id, None)
        self._agents.pop(run_id, None)
        self._reaped.discard(run_id)
