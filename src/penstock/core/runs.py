"""A job in the real world: what is started, on what, and what is heard of it."""

import re
from dataclasses import dataclass
from enum import StrEnum

from penstock.core.limits import LATEST, is_count, is_duration, is_figure, is_whole
from penstock.core.parallel_plan import ParallelPlan
from penstock.core.preflight import Preflight, PreflightRule
from penstock.core.stopping import MetricBest, StopRule


@dataclass(frozen=True, slots=True, order=True)
class DeviceSlot:
    """One device as backends know it: a place on a node. Its index in a scheduler's cluster is nobody else's."""

    node: str
    slot: int

    def __str__(self) -> str:
        return f"{self.node}/{self.slot}"


NO_DEVICE = -1
"""The slot of a worker that holds no device."""
CPU_WORKER = "cpu"
"""What the worker of a run that holds no device is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One process of a run, on one device. ``id`` is unique in the run and survives a change of rank.

    A worker without a device has a ``command`` of its own.
    """

    id: str
    rank: int
    node: str
    slot: int
    device_env: tuple[tuple[str, str], ...] = ()
    command: tuple[str, ...] = ()

    @property
    def has_device(self) -> bool:
        return self.slot != NO_DEVICE

    @property
    def place(self) -> DeviceSlot:
        return DeviceSlot(self.node, self.slot)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretUse:
    """A secret by its name, and the variable in which workers find its value, or the path of a file that holds it.

    The value itself is with whoever stores it and with the workers, and in nothing that is written down.
    """

    variable: str
    secret: str
    as_file: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A file or directory of the machine that a container sees, and where it sees it."""

    source: str
    target: str
    read_only: bool = False

    def __str__(self) -> str:
        """As job files and the runtimes of containers have it."""
        return f"{self.source}:{self.target}{':ro' if self.read_only else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The image that every worker runs in, and what of the machine it sees besides the job's own directories.

    ``runtime`` is the program of a machine that starts containers, once a backend has chosen one; an engine that
    starts containers by itself leaves it empty.
    """

    image: str
    mounts: tuple[Mount, ...] = ()
    runtime: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """What a job may use of its machines' memory and processors for each device it holds; None is no limit."""

    memory_bytes: int | None = None
    cpus: float | None = None

    @property
    def any(self) -> bool:
        return self.memory_bytes is not None or self.cpus is not None

    def of(self, devices: int) -> "ResourceLimits":
        """What workers on so many devices of one machine may use together."""
        memory = None if self.memory_bytes is None else self.memory_bytes * devices
        return ResourceLimits(memory_bytes=memory, cpus=None if self.cpus is None else self.cpus * devices)


NO_LIMITS = ResourceLimits()

INTERPRETER = "{python}"
"""Stands first in a recipe's command where a backend's own Python, or the one it has prepared, is meant."""
CHECKPOINT_EVERY = "PENSTOCK_CHECKPOINT_EVERY"
"""The variable by which a job file tells its workers how many seconds may pass between checkpoints."""
SAVED_STEP = "PENSTOCK_SAVED_STEP"
"""The variable that tells workers which step an earlier run of their job has saved; without it nothing was."""
MEMORY_DIR = "PENSTOCK_MEMORY_DIR"
"""The variable that tells workers where in their machine's memory snapshots may stay between checkpoints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a job is started: what a :class:`Launch` needs besides devices, and what has to be there before.

    A recipe as it is submitted names its environment: packages, a ``conda`` environment (a name, a directory or a
    file), an image, the ``setup`` script that is run in it once. The one that
    :meth:`~penstock.backends.Backend.prepare` returns starts in an environment that is ready. ``tenant`` is whose job
    it is: a backend may run it as that tenant's user. What is said meanwhile goes to the file ``preparation_log``.
    ``retries_early_exits``: whether a script that ends by itself before its first step is tried again like any other.
    ``learns_hangs``: without ``hang_after_s``, how long a step may take is learned from the run itself.
    ``preflight`` says when its nodes are checked before its workers start; without it they are not.
    ``cpu_command`` is what a worker without a device does beside the others and after them, if there is one.
    """

    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    working_dir: str = "."
    checkpoint_dir: str = ""
    grace_s: float = 30.0
    hang_after_s: float | None = None
    learns_hangs: bool = False
    fingerprint: str = ""
    max_retries: int = 3
    retries_early_exits: bool = True
    backoff_s: float = 10.0
    requirements: tuple[str, ...] = ()
    requirements_file: str = ""
    conda: str = ""
    setup: str = ""
    container: Container | None = None
    limits: ResourceLimits = NO_LIMITS
    preparation_log: str = ""
    tenant: str = ""
    secrets: tuple[SecretUse, ...] = ()
    preflight: PreflightRule | None = None
    cpu_command: tuple[str, ...] = ()

    @property
    def prepared_parts(self) -> tuple[str, ...]:
        """What a backend has to make ready before the first run, by the names that a job file has for it."""
        asked = {
            "requirements": self.requirements or self.requirements_file, "conda": self.conda,
            "image": self.container, "setup": self.setup,
        }  # fmt: skip
        return tuple(name for name, wanted in asked.items() if wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Everything a backend needs to start a run. A *generation* is one world of workers; resizing makes the next.

    ``plans``: how the model is split, one for each width the run may have. Every worker finds the one of its world's
    width in the file that ``PENSTOCK_PLAN`` names, also after a resize. ``until``: the run is finished when its metric
    says so; ``best`` is what earlier runs of the job reached.

    ``cpu_worker`` holds no device and outlives the others: when they have ended well the run tells that its devices are
    ``released``, and it is over when this worker is. A run that has done its part on devices is started with it alone.
    """

    run_id: str
    job_id: str
    command: tuple[str, ...]
    workers: tuple[Worker, ...]
    generation: int = 0
    attempt: int = 0
    env: tuple[tuple[str, str], ...] = ()
    working_dir: str = "."
    checkpoint_dir: str = ""
    grace_s: float = 30.0
    hang_after_s: float | None = None
    learns_hangs: bool = False
    plans: tuple[ParallelPlan, ...] = ()
    container: Container | None = None
    limits: ResourceLimits = NO_LIMITS
    tenant: str = ""
    secrets: tuple[SecretUse, ...] = ()
    until: StopRule | None = None
    best: MetricBest | None = None
    preflight: Preflight | None = None
    cpu_worker: Worker | None = None


class ReportKind(StrEnum):
    """What a run can tell."""

    LAUNCHED = "launched"
    WORKER_STARTED = "worker_started"
    PROGRESS = "progress"
    RESIZED = "resized"
    CHECKPOINTED = "checkpointed"
    CHECKPOINT_FAILED = "checkpoint_failed"
    CHECKPOINT_UNREADABLE = "checkpoint_unreadable"
    """The newest checkpoint, of ``step``, cannot be read; ``reason`` says why and what the run does instead."""
    WORKER_EXITED = "worker_exited"
    SUSPENDED = "suspended"
    RELEASED = "released"
    """Its workers have done their part and left their devices; its worker without a device goes on."""
    FINISHED = "finished"
    FAILED = "failed"
    METRIC = "metric"
    """The metric that the job trains until: its ``value`` at a ``step``."""
    STUCK = "stuck"
    """No step for longer than is usual: ``reason`` says what the workers do, ``path`` is where their stacks are."""
    STRAGGLER = "straggler"
    """A ``worker`` is slower than the others, by ``value`` times, or not any more: then there is no value."""
    LOSS_WRONG = "loss_wrong"
    """The loss is not what it should be; nothing is done about it."""
    ROLLED_BACK = "rolled_back"
    """Training went back to ``step`` because of its loss, and passes over the batches that ``reason`` names."""
    RESUMABLE = "resumable"
    """It can go on from where it was when its devices change: its script speaks the protocol."""
    NODE_FIT = "node_fit"
    """A ``node`` was checked before workers started there, as thoroughly as ``level`` says, and may be used."""
    NODE_UNFIT = "node_unfit"
    """A ``node`` failed that check for this ``reason``; no worker has started there."""
    NONSENSE = "nonsense"
    """Something that could not be read or cannot be true; ``reason`` says what. It is ignored."""


WATCHED = (
    ReportKind.STUCK, ReportKind.STRAGGLER, ReportKind.LOSS_WRONG, ReportKind.ROLLED_BACK,
    ReportKind.CHECKPOINT_UNREADABLE,
)  # fmt: skip
"""What a run reports that users should read; ``reason`` says it in words."""


class FailureReason(StrEnum):
    """Why a run failed, in a word; a backend that knows more says it in words of its own instead."""

    EXIT = "exit"
    """It ended by itself with a code other than 0."""
    SIGNAL = "signal"
    HANG = "hang"
    STOPPED = "stopped"
    """It ended because it was told to."""
    LAUNCH = "launch"
    """It could not be started."""
    LOST = "lost"
    """Its processes were gone when somebody looked."""
    VANISHED = "vanished"
    """Nothing was left of it."""
    UNREADABLE = "unreadable"
    """It stopped rather than begin again: it has saved state, and none of it can be read."""
    PREFLIGHT = "preflight"
    """It was not started: the check of its nodes failed."""
    NONSENSE = "nonsense"
    """It said what cannot be true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One line of what a run told, numbered without gaps from 1, never lost, possibly read twice.

    Numbers are within the bounds of :mod:`penstock.core.limits`: there is no report with others.
    """

    run_id: str
    seq: int
    at: float
    kind: ReportKind
    step: int | None = None
    total: int | None = None
    loss: float | None = None
    samples_per_s: float | None = None
    width: int | None = None
    generation: int | None = None
    pause_s: float | None = None
    in_place: bool | None = None
    path: str | None = None
    blocking_s: float | None = None
    worker: str | None = None
    rank: int | None = None
    pid: int | None = None
    code: int | None = None
    signal: int | None = None
    reason: str | None = None
    tail: tuple[str, ...] = ()
    value: float | None = None
    node: str | None = None
    level: str | None = None

    def __post_init__(self) -> None:
        if self.seq < 1 or not is_whole(self.seq) or not 0.0 <= self.at <= LATEST:
            raise ValueError("a report is numbered from 1 and dated before the year 10000")
        if not (is_count(self.step) and is_count(self.total)):
            raise ValueError("steps are counted from 0 to 10^15")
        if not all(map(is_whole, (self.width, self.generation, self.rank, self.pid, self.code, self.signal))):
            raise ValueError("a whole number is too large")
        if not (is_duration(self.pause_s) and is_duration(self.blocking_s)):
            raise ValueError("pauses last from 0 seconds to a century")
        if not all(map(is_figure, (self.loss, self.samples_per_s, self.value))):
            raise ValueError("loss, samples_per_s and the values of metrics are finite")


class RunState(StrEnum):
    """How far a run has come, as its backend sees it."""

    ACCEPTED = "accepted"
    """The backend knows of it and has not asked its engine yet."""
    WAITING = "waiting"
    """The engine has not found room for it: a queue, an image to pull, a node to start."""
    STARTING = "starting"
    """Its workers are being started."""
    RUNNING = "running"
    ENDING = "ending"
    """Its workers have been asked to go and have not all gone."""
    ENDED = "ended"
    """No process of it is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """Where a run stands, how far its reports go, and in the engine's own words why it is not further."""

    run_id: str
    state: RunState
    last_seq: int
    reason: str = ""

    @property
    def alive(self) -> bool:
        """Whether the run may still have processes, or will."""
        return self.state is not RunState.ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUsage:
    """What one device of a run does right now, as far as its driver tells."""

    id: str
    percent: float | None = None
    memory_bytes: int | None = None
    power_w: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a run uses right now, all its processes together; device figures only where a driver tells.

    ``cpu_s`` and ``energy_j`` count since the run's first process, also after its end. ``estimated``: power and energy
    are, in part at least, a model's and not a meter's. ``memory_limit_bytes`` is what it may hold at most where that is
    enforced, ``memory_peak_bytes`` the most it ever held; ``unlimited`` says why limits that it has are not enforced.
    """

    cpu_percent: float = 0.0
    memory_bytes: int = 0
    device_percent: float | None = None
    device_memory_bytes: int | None = None
    power_w: float | None = None
    cpu_s: float = 0.0
    energy_j: float | None = None
    estimated: bool = False
    devices: tuple[DeviceUsage, ...] = ()
    memory_limit_bytes: int | None = None
    memory_peak_bytes: int | None = None
    unlimited: str = ""


_FRESH = re.compile(r"(.*)/from-scratch-(\d{1,9})")


def fresh_directory(directory: str) -> str:
    """Return where a job saves from now on that begins again at step 0; what it saved before stays where it is.

    >>> fresh_directory("s3://bucket/night"), fresh_directory("/data/night/from-scratch-1")
    ('s3://bucket/night/from-scratch-1', '/data/night/from-scratch-2')
    """
    found = _FRESH.fullmatch(directory)
    return f"{found[1]}/from-scratch-{int(found[2]) + 1}" if found else f"{directory.rstrip('/')}/from-scratch-1"


def first_directory(directory: str) -> str:
    """Return where a job saved at first, however often it began again."""
    found = _FRESH.fullmatch(directory)
    return found[1] if found else directory
