"""What backends share that keep one agent beside the server for each run: its directory, its requests, its end.

Nothing about a run lives in a server's memory: any server that looks into the same directory finds all runs again. A
backend on top of this says which devices there are and makes recipes ready; where the workers live, processes of this
machine or parts of an engine, is the agent's business (:class:`AgentSettings`).
"""

import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.backends.agent.environment import NO_ACCELERATORS, inherited_environment
from penstock.backends.agent.logs import offset_since, read_log
from penstock.backends.agent.memory_place import memory_place
from penstock.backends.agent.metrics.metric_recorder import read_metrics
from penstock.backends.agent.ownership import own_directory
from penstock.backends.agent.parts import PartEngine
from penstock.backends.agent.plan_file import with_plan_path
from penstock.backends.agent.processes import kill_strays
from penstock.backends.agent.report_journal import ReportJournalReader
from penstock.backends.agent.usage import totals
from penstock.backends.agent.watch.run_observer import read_watch
from penstock.backends.base import BackendError, ShortageError, SilentError
from penstock.backends.runs.agent_launcher import AgentLauncher, shortages_told
from penstock.backends.runs.orphan_reaper import OrphanReaper
from penstock.backends.runs.requests import (
    Answer,
    PingRequest,
    Request,
    ResizeRequest,
    StopRequest,
    SuspendRequest,
    UsageRequest,
    ask,
)
from penstock.backends.runs.run_looks import RunLooks
from penstock.backends.runs.rundir import RunDir
from penstock.backends.runs.silent_agents import SilentAgents
from penstock.backends.runs.tenant_users import SERVERS_OWN, TenantUsers
from penstock.core import (
    INTERPRETER,
    AgentAddress,
    DeviceSlot,
    InputError,
    Launch,
    MetricSeries,
    Recipe,
    Report,
    RunState,
    RunStatus,
    RunWatch,
    UnknownNameError,
    Usage,
    Worker,
    first_directory,
)
from penstock.tools import SteadyClock, UnixUser

SecretValues = Callable[[str, Sequence[str]], Mapping[str, str]]
"""Secrets of a tenant by their names; raises :class:`~penstock.core.InputError` for one that is not there."""


def no_secrets(tenant: str, names: Sequence[str]) -> Mapping[str, str]:
    """Of a backend that was given none."""
    if names:
        raise UnknownNameError.of("secret", f"{names[0]} of {tenant}", (), "This backend was given no secrets")
    return {}


_log = logging.getLogger(__name__)

START_S = 30.0
"""How long a new agent may take to answer."""
_PASSABLE = 0o711
_SAFE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """What every agent of a backend is told.

    Workers reach their agent by a socket in the run's directory; ``listen`` gives an address for them instead, such as
    ``tcp://127.0.0.1:0`` for any free port. ``engine`` is who starts workers that are no processes of this machine; it
    needs an address that its machines reach. ``pass_environment`` adds to the variables that jobs inherit.
    ``modules`` are what agents import besides, once for all of them. ``certificate_of`` is the directory whose
    certificate encrypts the line to workers, where it is to be.
    """

    listen: AgentAddress | None = None
    engine: PartEngine | None = None
    pass_environment: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    certificate_of: Path | None = None

    def options(self) -> list[str]:
        """As the agent's command line has them."""
        listen = ["--listen", str(self.listen)] if self.listen else []
        listen += ["--certificate-of", str(self.certificate_of)] if self.certificate_of else []
        return listen + (["--parts", self.engine.to_json()] if self.engine else [])


AGENT_DEFAULTS = AgentSettings()


class AgentBackend:
    """All of :class:`~penstock.backends.base.Backend` but devices and recipes. Holds nothing that is not on the disk.

    ``users`` says as whom the jobs of a tenant run; ``state_dir`` must then be a directory that those users can reach.
    ``secret_values`` gives the secrets of a tenant by name when a run is started. Agents tell the time by ``clock``.
    """

    def __init__(
        self,
        state_dir: Path | str,
        agents: AgentSettings = AGENT_DEFAULTS,
        *,
        users: TenantUsers = SERVERS_OWN,
        secret_values: SecretValues = no_secrets,
        clock: SteadyClock | None = None,
    ) -> None:
        self.state_dir = Path(state_dir).expanduser().resolve()
        self.users = users
        self.agents = agents
        self._root = self.state_dir / "runs"
        self._checkpoints = self.state_dir / "checkpoints"
        self._secret_values = secret_values
        self._readers: dict[str, ReportJournalReader] = {}
        self._launcher = AgentLauncher(self._root, agents.modules)
        self._clock = clock or SteadyClock()
        self._launching: set[str] = set()
        self._orphans = OrphanReaper()
        self._silent = SilentAgents()
        self._looks = RunLooks(self._root)
        with clear_disk_errors(self._root):
            for folder in (self.state_dir, self._root, self._checkpoints) if users.any else (self._root,):
                passable_directory(folder, users)
            probe = self._root / ".probe"
            probe.write_text("writable")
            probe.unlink(missing_ok=True)

    @property
    def promises(self) -> bool:
        return True

    def device_environment(self, place: DeviceSlot) -> Sequence[tuple[str, str]]:  # noqa: ARG002
        """What confines a worker to a device, where its engine does not; refuses a device that is not there."""
        return ()

    def cpu_environment(self, node: str) -> Sequence[tuple[str, str]]:  # noqa: ARG002
        """What a worker without a device has around it on a node: it sees no accelerator."""
        return NO_ACCELERATORS

    def memory_of(self, run_id: str) -> Path | None:
        """Where workers of a run, if they are processes of this machine, keep snapshots in its memory."""
        return memory_place(self._directory(run_id).path) if self.agents.engine is None else None

    def end_parts(self, run_id: str) -> bool:  # noqa: ARG002
        """End parts of an engine that a run's dead agent has left; whether none of them can run any more."""
        return True

    def environment_of_jobs(self) -> dict[str, str]:
        """What of the server's environment its jobs see."""
        return inherited_environment(_with_absolute_paths(os.environ), self.agents.pass_environment)

    def secret_variables(self, recipe: Recipe) -> dict[str, str]:
        """Secrets that a job has in variables, with their values; those in files are for its workers alone."""
        uses = [use for use in recipe.secrets if not use.as_file]
        values = self._secret_values(recipe.tenant, [use.secret for use in uses])
        return {use.variable: values[use.secret] for use in uses}

    def launch(self, launch: Launch) -> None:
        run_dir = self._directory(launch.run_id)
        user = self.users.of(launch.tenant)
        _check(launch)
        launch = replace(
            launch, workers=self._with_environment(launch.workers), cpu_worker=self._cpu_worker(launch),
            working_dir=str(Path(launch.working_dir).resolve()),
        )  # fmt: skip
        if self.agents.engine is None:
            launch = with_plan_path(launch, run_dir.plan_file)
        launch = replace(launch, command=with_interpreter(launch.command, sys.executable))
        self._launching.add(launch.run_id)
        try:
            with clear_disk_errors(run_dir.path), shortages_told():
                self._start(launch, run_dir, user)
        finally:
            self._launching.discard(launch.run_id)

    def _start(self, launch: Launch, run_dir: RunDir, user: UnixUser | None) -> None:
        with run_dir.launching():
            known = run_dir.read_launch()
            if run_dir.is_alive() or not _is_new(launch, known, run_dir):
                return
            secrets = self._secret_values(launch.tenant, [use.secret for use in launch.secrets])
            if known is not None:
                kill_strays([run_dir.path])
            if (own := Path(first_directory(launch.checkpoint_dir))) == self._checkpoints / launch.job_id:
                own_directory(own, user)
            run_dir.write_launch(launch)
            self._start_agent(run_dir, user, secrets)
            self._orphans.expect(run_dir)
            _wait_for_agent(run_dir)

    def resize(self, run_id: str, workers: tuple[Worker, ...], generation: int) -> None:
        if not workers:
            raise InputError(f"run {run_id!r} without workers", "at least one", "Suspend it to take all its devices")
        self._ask(run_id, ResizeRequest(generation=generation, workers=self._with_environment(workers)))

    def suspend(self, run_id: str) -> None:
        self._ask(run_id, SuspendRequest())

    def stop(self, run_id: str, grace_s: float) -> None:
        run_dir = self._known(run_id)
        if not run_dir.is_alive():
            kill_strays([run_dir.path])
            return
        try:
            self._ask(run_id, StopRequest(grace_s=grace_s))
        except BackendError as error:
            if isinstance(error, SilentError):
                self._silent.end(run_dir, grace_s)
                raise
            if not isinstance(error.__cause__, ConnectionError | FileNotFoundError):
                raise
            _log.debug("run %s is ending by itself", run_id)

    def forget(self, run_id: str) -> None:
        run_dir = self._directory(run_id)
        if run_dir.is_alive():
            raise InputError(f"run {run_id!r} still lives", "a run that has ended", "Stop it first")
        self._orphans.reap([run_dir])
        run_dir.forget()
        self._readers.pop(run_id, None)
        self._orphans.forget(run_id)
        self._silent.forget(run_id)

    def runs(self) -> tuple[RunStatus, ...]:
        """Every run with its state. A run that is told to be dead has no process left: see :class:`OrphanReaper`.

        One that was written down and never started, because a server died in between, is not there yet.
        """
        found = self._looks.directories()
        statuses = self._looks.statuses(found)
        dead = [found[run_id] for run_id, status in statuses.items() if status.state is RunState.ENDED]
        self._orphans.reap(dead)
        for one in dead:
            if not one.has_begun():
                del statuses[one.run_id]
            elif not self.end_parts(one.run_id):
                statuses[one.run_id] = replace(statuses[one.run_id], state=RunState.ENDING)
        self._orphans.watch(found, spared=self._launching)
        return tuple(statuses.values())

    def reports(self, run_id: str, after_seq: int) -> tuple[Report, ...]:
        run_dir = self._known(run_id)
        reader = self._readers.setdefault(run_id, ReportJournalReader(run_dir.journal, run_id))
        return reader.after(after_seq)

    def logs(self, run_id: str, worker: str | None, offset: int, limit: int) -> tuple[bytes, int]:
        if offset < 0 or limit < 1:
            raise InputError(f"offset={offset}, limit={limit}", "an offset from 0 and a limit from 1")
        return read_log(self._log(run_id, worker), offset, limit)

    def log_offset(self, run_id: str, worker: str | None, since: float) -> int:
        return offset_since(self._log(run_id, worker), since)

    def _log(self, run_id: str, worker: str | None) -> Path:
        run_dir = self._directory(run_id)
        if not run_dir.path.is_dir():
            self._known(run_id)
        return run_dir.merged_log if worker is None else _worker_log(run_dir, worker)

    def metrics(self, run_id: str) -> tuple[MetricSeries, ...]:
        return tuple(read_metrics(self._directory(run_id).metrics))

    def usage_curves(self, run_id: str) -> tuple[MetricSeries, ...]:
        return tuple(read_metrics(self._directory(run_id).usage_curves))

    def watched(self, run_id: str) -> RunWatch | None:
        return read_watch(self._directory(run_id).watch_file)

    def usage(self, run_id: str) -> Usage:
        run_dir = self._known(run_id)
        if run_dir.is_alive():
            with suppress(BackendError):  # it may be ending in this moment, and has written its totals then
                return self._ask(run_id, UsageRequest()).usage or Usage()
        return totals(run_dir.usage)

    def _start_agent(self, run_dir: RunDir, user: UnixUser | None, secrets: Mapping[str, str]) -> None:
        options = [*self.agents.options(), *(["--run-as", user.name] if user else [])]
        options += [f"--clock-offset={self._clock.offset!r}"]
        self._launcher.start(run_dir, options, self.environment_of_jobs(), secrets)

    def _with_environment(self, workers: tuple[Worker, ...]) -> tuple[Worker, ...]:
        """A worker that comes without its device's environment gets it here, where the devices are known."""
        return tuple(
            worker if worker.device_env else replace(worker, device_env=tuple(self.device_environment(worker.place)))
            for worker in workers
        )

    def _cpu_worker(self, launch: Launch) -> Worker | None:
        worker = launch.cpu_worker
        if worker is None:
            return None
        command = with_interpreter(worker.command, sys.executable)
        return replace(worker, command=command, device_env=tuple(self.cpu_environment(worker.node)))

    def _directory(self, run_id: str) -> RunDir:
        if not _SAFE_ID.fullmatch(run_id):
            raise InputError(f"run id {run_id!r}", "letters, digits, '.', '_' and '-', at most 128, no '.' in front")
        return RunDir(self._root / run_id)

    def _known(self, run_id: str) -> RunDir:
        run_dir = self._directory(run_id)
        if not run_dir.launch_file.exists():
            raise UnknownNameError.of("run", run_id, (status.run_id for status in self.runs()))
        return run_dir

    def _ask(self, run_id: str, request: Request) -> Answer:
        run_dir = self._known(run_id)
        agent = run_dir.read_agent()
        try:
            return self._silent.ask(run_id, agent["socket"] if agent else "", request)
        except TimeoutError as error:
            raise SilentError(f"the agent of run {run_id!r} does not answer to a {type(request).__name__}") from error
        except OSError as error:
            raise BackendError(
                f"the agent of run {run_id!r} cannot be reached with a {type(request).__name__}: {error}."
                " The run's reports say how it ended."
            ) from error


def _is_new(launch: Launch, known: Launch | None, run_dir: RunDir) -> bool:
    """Whether no agent has ever run this attempt and generation; one that was written but not started is new."""
    if known is None or not run_dir.has_begun():
        return True
    return (launch.attempt, launch.generation) > (known.attempt, known.generation)


def _check(launch: Launch) -> None:
    """Refuse what could never start; nothing is written yet."""
    if not launch.command or not launch.command[0]:
        raise InputError(f"run {launch.run_id!r} has no command", "at least one word")
    workers = [*launch.workers, *([launch.cpu_worker] if launch.cpu_worker is not None else [])]
    if not workers:
        raise InputError(f"run {launch.run_id!r} has no workers", "at least one")
    ids = [worker.id for worker in workers]
    if len(set(ids)) != len(ids) or not all(_SAFE_ID.fullmatch(one) for one in ids):
        raise InputError(f"workers called {', '.join(ids)}", "different names of letters, digits, '.', '_' and '-'")
    if not Path(launch.working_dir).is_dir():
        raise InputError(
            f"working directory {launch.working_dir!r} does not exist", "a directory of this machine",
            "Create it or change working_dir",
        )  # fmt: skip


def with_interpreter(command: tuple[str, ...], python: str) -> tuple[str, ...]:
    """A command that asks for the backend's own Python, with its path."""
    return (python, *command[1:]) if command[:1] == (INTERPRETER,) else command


def recipe_with_interpreter(recipe: Recipe, python: str) -> Recipe:
    """A recipe all of whose commands know the path of their Python."""
    return replace(
        recipe, command=with_interpreter(recipe.command, python),
        cpu_command=with_interpreter(recipe.cpu_command, python),
    )  # fmt: skip


def _worker_log(run_dir: RunDir, worker: str) -> Path:
    """``w0`` for all of a worker's output, ``w0/stderr`` for one of its streams."""
    worker_id, _, stream = worker.partition("/")
    workers = run_dir.worker("")
    known = sorted(path.name for path in workers.iterdir()) if workers.is_dir() else []
    if worker_id not in known:
        raise UnknownNameError.of("worker", worker_id, known)
    if stream not in ("", "stdout", "stderr"):
        raise UnknownNameError.of("stream", stream, ("stdout", "stderr"))
    return workers / worker_id / f"{stream or 'output'}.log"


def _with_absolute_paths(env: Mapping[str, str]) -> dict[str, str]:
    """The agent works in another directory; what Python finds from here it must find from there."""
    if not env.get("PYTHONPATH"):
        return dict(env)
    places = env["PYTHONPATH"].split(os.pathsep)
    return {**env, "PYTHONPATH": os.pathsep.join(str(Path(place).absolute()) for place in places)}


def _wait_for_agent(run_dir: RunDir) -> None:
    deadline = time.monotonic() + START_S
    seen_alive = False
    while time.monotonic() < deadline:
        if agent := run_dir.read_agent():
            if not run_dir.is_alive():
                return  # a very short run: started, told everything, and gone
            try:
                ask(agent["socket"], PingRequest())
                return
            except OSError:
                pass  # about to listen, or about to leave
        alive = run_dir.is_alive()
        if seen_alive and not alive and not run_dir.read_agent():
            break
        seen_alive = seen_alive or alive
        time.sleep(0.01)
    raise ShortageError(f"the agent of run {run_dir.run_id!r} did not start. {_last_words(run_dir.path)}")


def _last_words(path: Path) -> str:
    log = RunDir(path).agent_log
    tail = log.read_text(errors="replace").splitlines()[-5:] if log.exists() else []
    return f"{log} says: {' / '.join(tail)}"


def passable_directory(path: Path, users: TenantUsers) -> None:
    """Make a directory of the server's; users of jobs pass through to what is theirs, by name, and look at nothing."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.chmod(_PASSABLE if users.any else 0o700)


@contextmanager
def clear_disk_errors(path: Path) -> Iterator[None]:
    """What is wrong with a disk, told to whoever chose the directory."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"cannot write to {path}: {error.strerror or error}",
            "a directory on a disk with room, writable by this user",
            "Free some space, fix its permissions, or give another state directory",
        ) from error
    except subprocess.CalledProcessError as error:
        raise BackendError(
            f"the agent in {path} could not be started (exit code {error.returncode}). {_last_words(path)}"
        ) from error
