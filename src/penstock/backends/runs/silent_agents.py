"""Agents that do not answer: stopped by a signal, stuck in the kernel, or starved.

Nobody waits long for one, and not again and again: for a while after a silence it is not asked at all. A run that has
to end ends without its agent's help, by the same steps: its workers are asked, and after the job's own grace everything
is killed, the agent first.
"""

import logging
import signal
import time
from dataclasses import dataclass, field

from penstock.backends.agent.processes import ProcessMark, kill_marked, kill_strays, signal_below
from penstock.backends.runs.requests import Answer, Request, StopRequest, ask
from penstock.backends.runs.rundir import AGENT_PROGRAM, RunDir

_log = logging.getLogger(__name__)
ANSWER_S = 3.0
"""How long an agent may take to answer."""
_LEFT_ALONE_S = 10.0


@dataclass(slots=True)
class SilentAgents:
    """Who has not answered, and until when each has to be gone."""

    _not_before: dict[str, float] = field(default_factory=dict)
    _deadlines: dict[str, float] = field(default_factory=dict)

    def ask(self, run_id: str, socket: str, request: Request) -> Answer:
        """What the agent answers. Only an order to stop is given to one that was silent a moment ago."""
        if time.monotonic() < self._not_before.get(run_id, 0.0) and not isinstance(request, StopRequest):
            raise TimeoutError("it did not answer a moment ago")
        try:
            answer = ask(socket, request, ANSWER_S)
        except TimeoutError:
            self._not_before[run_id] = time.monotonic() + _LEFT_ALONE_S
            raise
        self.forget(run_id)
        return answer

    def end(self, run_dir: RunDir, grace_s: float) -> None:
        """Ask the workers of a silent agent to end; asked again after the grace, end all of them."""
        agent = run_dir.read_agent()
        if agent is None:
            return
        pid, now = int(agent["pid"]), time.monotonic()
        if run_dir.run_id not in self._deadlines:
            _log.warning("the agent of run %s does not answer; its workers are asked to end", run_dir.run_id)
            self._deadlines[run_dir.run_id] = now + max(0.0, grace_s - ANSWER_S)
            signal_below(pid, signal.SIGTERM)
        if now >= self._deadlines[run_dir.run_id]:
            _log.warning("run %s and its silent agent are killed", run_dir.run_id)
            kill_marked(ProcessMark.of(pid, AGENT_PROGRAM))
            kill_strays([run_dir.path])

    def forget(self, run_id: str) -> None:
        self._not_before.pop(run_id, None)
        self._deadlines.pop(run_id, None)
