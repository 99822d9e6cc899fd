"""What an agent and the host of one of its parts say to each other: JSON lines, as between agents and workers.

The host speaks first, with a :class:`~penstock.core.Hello` that names its part and knows the run's secret, and a
:class:`HostReady`. What must not be lost is numbered and said again after a broken line, until an :class:`Acknowledged`
covers it; a number that was heard before is passed over. Orders carry the number of the start they are about, so one
that comes late or twice changes nothing.
"""

from dataclasses import dataclass

from penstock.core import Launch, Refusal, Usage, Vocabulary

# --- what hosts say ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReady:
    """A host can start its worker. ``address`` is where the workers of other machines reach this one, ``port`` one
    that nobody uses there; ``start`` is the last order it has carried out, 0 for none."""

    address: str
    port: int
    start: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerBegan:
    """The worker's process exists."""

    seq: int
    start: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLine:
    """A line without its end; bytes that are no text are surrogates."""

    stream: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputBatch:
    """Some lines of the worker; ``lost`` came before them and could not be kept."""

    seq: int
    lines: tuple[OutputLine, ...]
    lost: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEnded:
    """The worker and all it started are gone."""

    seq: int
    start: int
    code: int
    signal: int | None = None
    tail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleEnded:
    """A module that was ordered has ended; ``output`` is the end of what it said."""

    seq: int
    call: int
    code: int
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLeaving:
    """This part is being taken away: in ``within_s`` seconds nothing of it will be left."""

    seq: int
    within_s: float
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUsage:
    """What the part uses; also the sign that its host is alive."""

    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProgress:
    """What the script's progress file says now."""

    step: int
    total: int | None = None
    loss: float | None = None
    samples_per_s: float | None = None


# --- what agents say --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOrder:
    """Start the worker. ``launch`` is the run's, with the plan of its present width alone; ``variables`` are the
    worker's own; ``files`` are secrets that it finds in files, by the variables that name these."""

    start: int
    launch: Launch
    variables: tuple[tuple[str, str], ...]
    files: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalOrder:
    """Ask the worker to end, or end it with all it started."""

    start: int
    kill: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleOrder:
    """Run a module of this package before the worker starts: with the Python and variables that the worker will have,
    or with the host's ``own``. The same ``call`` again changes nothing."""

    call: int
    module: str
    words: tuple[str, ...]
    own: bool
    launch: Launch
    variables: tuple[tuple[str, str], ...]
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleDrop:
    """Nobody wants to know any more how a module ends: end it."""

    call: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOrder:
    """The part is not needed any more: end what is left and leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """Everything up to ``seq`` has been heard."""

    seq: int = 0


HostMessage = (
    HostReady | WorkerBegan | OutputBatch | WorkerEnded | ModuleEnded | HostLeaving | HostUsage | FileProgress
)  # fmt: skip
HostOrder = StartOrder | SignalOrder | ModuleOrder | ModuleDrop | EndOrder | Acknowledged | Refusal

HOST_MESSAGES: Vocabulary[HostMessage] = Vocabulary({
    "ready": HostReady, "began": WorkerBegan, "output": OutputBatch, "ended": WorkerEnded, "module_ended": ModuleEnded,
    "leaving": HostLeaving, "usage": HostUsage, "progress": FileProgress,
})  # fmt: skip
HOST_ORDERS: Vocabulary[HostOrder] = Vocabulary({
    "start": StartOrder, "signal": SignalOrder, "module": ModuleOrder, "drop": ModuleDrop, "end": EndOrder,
    "acknowledged": Acknowledged, "refused": Refusal,
})  # fmt: skip
