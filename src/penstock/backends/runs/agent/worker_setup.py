"""The workers of a run as its launch asks for them: processes of this machine, or parts of an engine elsewhere."""

import os
import secrets as random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.backends.agent.environment import base_environment
from penstock.backends.agent.metrics.event_file_watch import USUAL_DIRECTORIES, EventFileWatch
from penstock.backends.agent.metrics.metric_recorder import MetricRecorder
from penstock.backends.agent.metrics.run_metrics import RunMetrics
from penstock.backends.agent.outputs import RunLog
from penstock.backends.agent.ownership import hand_over
from penstock.backends.agent.part_workers import HostedListener, PartWorkers
from penstock.backends.agent.parts import PartEngine, PartRun
from penstock.backends.agent.processes import Identity
from penstock.backends.agent.run_workers import ProcessWorkers
from penstock.backends.agent.secrets import deliver, split
from penstock.backends.runs.rundir import RunDir
from penstock.core import Launch, is_url
from penstock.tools import SteadyClock, UnixUser, write_atomically


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSetup:
    """What every worker of a run is started from; ``secrets`` are the values that its job asks for, by name.

    ``is_new``: no agent has looked after the run before.
    """

    run_dir: RunDir
    launch: Launch
    output: RunLog
    secrets: Mapping[str, str]
    is_new: bool = False

    def processes(self, identity: Identity, listener: HostedListener) -> ProcessWorkers:
        user = identity.user
        inherited = {**os.environ, **(user.variables if user else {})}
        delivered = deliver(self.launch.secrets, self.secrets, self.run_dir.secrets, user)
        return ProcessWorkers(
            self.run_dir.path, self.launch,
            {**base_environment(inherited, self.launch, self.run_dir.paths), **delivered}, self.output, listener,
            identity=identity, secret_file=self.run_dir.secret_file, plan_file=self.run_dir.plan_file,
            usage_file=self.run_dir.usage, report=listener.report,
        )  # fmt: skip

    def parts(self, engine: PartEngine, listener: HostedListener, secret: str, user: UnixUser | None) -> PartWorkers:
        variables, files = split(self.launch.secrets, self.secrets)
        workers = PartWorkers(
            self.launch, self.output, listener, secret=secret, variables=variables, files=files,
            start_limit_s=engine.start_limit_s, usage_file=self.run_dir.usage,
        )  # fmt: skip
        run = PartRun(
            run_id=self.launch.run_id, directory=self.run_dir.path, settings=engine.settings, user=user,
            is_new=self.is_new,
        )  # fmt: skip
        workers.use(engine.launcher(run, workers))
        return workers

    def metrics(
        self, clock: SteadyClock, user: UnixUser | None, observe: Callable[[str, int, float], None], *, is_local: bool
    ) -> RunMetrics:
        """Where this machine sees what workers write, event files are looked for below their working directory too."""
        shared = [Path(self.launch.working_dir) / name for name in USUAL_DIRECTORIES] if is_local else []
        recorder = MetricRecorder(self.run_dir.metrics, clock, self.output.remark, observe)
        return RunMetrics(recorder, EventFileWatch(self._output_directories(), shared=shared, user=user))

    def _output_directories(self) -> list[Path]:
        """Where a job leaves files, as far as this machine sees it."""
        saved = self.launch.checkpoint_dir
        return [self.run_dir.job, *([Path(saved)] if saved and not is_url(saved) else [])]


def new_secret(run_dir: RunDir, user: UnixUser | None) -> str:
    """What workers of this run know and nobody else: in a file that only their user can read."""
    secret = random.token_hex(32)
    write_atomically(run_dir.secret_file, secret, mode=0o600)
    hand_over(run_dir.secret_file, user)
    return secret
