"""What an agent and the workers of its run say to each other, spelled once.

One message is one line of JSON with its name under ``type``. The worker speaks first: :class:`Hello` carries the
protocol's version and the run's secret, and an agent that cannot accept it answers with one :class:`Refusal` and hangs
up. Decoding is strict, because both ends are ours: an unknown name or field, a wrong type, a number out of range or a
line that is too long is a :class:`ProtocolError` that names the message, and the receiver decides what that means.
Bounds are those of :mod:`penstock.core.limits`.

Nothing here needs more than the standard library, so a worker pays nothing for it at its start.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from penstock.core.codec import build, plain
from penstock.core.errors import PenstockError
from penstock.core.limits import LONGEST_TEXT, MOST_STEPS, clean_text, is_count, is_duration, is_figure
from penstock.core.metric_series import MetricValue
from penstock.core.watching import Hotspots, LossFault, StepTimes, ThreadStack
from penstock.tools import parse_json

PROTOCOL_VERSION = 1
LONGEST_LINE = 2**20
"""Bytes of one message with its newline."""
MOST_AT_ONCE = 2000
"""Values of metrics in one message."""
MOST_THREADS, MOST_FRAMES = 64, 100
"""Of the stacks in one message."""
MOST_OPERATORS = 50
"""Of the hotspots in one message."""

_CONSTANTS = {"Infinity": "inf", "-Infinity": "-inf", "NaN": "nan"}
_SHOWN = 200
_LONGEST_NAME = 128
_MOST_GENERATIONS = 2**31 - 1
_STEP = f"a number from 0 to {MOST_STEPS}"
_GENERATION = f"a number from 0 to {_MOST_GENERATIONS}"
_TEXT = f"at most {LONGEST_TEXT} characters"


class ProtocolError(PenstockError):
    """A message that is not one of this protocol; says which message and what is wrong with it."""


class VersionError(ProtocolError):
    """The other end speaks another version of the protocol."""


# --- what workers say -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A worker has found its agent. ``elastic``: it can change its world without being started again.

    ``store`` makes this a line to the meeting store of that generation and not the one that orders come over; ``part``
    makes it the line of the host that starts the worker elsewhere.
    """

    worker: str
    pid: int
    elastic: bool = True
    version: int = PROTOCOL_VERSION
    secret: str = field(default="", repr=False)
    store: int | None = None
    part: str = ""

    def __post_init__(self) -> None:
        _require(0 < len(self.worker) <= _LONGEST_NAME, "worker", f"a name of at most {_LONGEST_NAME} characters")
        _require(0 < self.pid <= _MOST_GENERATIONS, "pid", "a number above 0 that a process can have")
        _require(is_count(self.store, _MOST_GENERATIONS), "store", _GENERATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A worker can join a world now; ``generation`` is the one it was started for."""

    generation: int

    def __post_init__(self) -> None:
        _require(is_count(self.generation, _MOST_GENERATIONS), "generation", _GENERATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """The members of a world have met. Loading their state and the first step may take long: models are compiled."""

    generation: int

    def __post_init__(self) -> None:
        _require(is_count(self.generation, _MOST_GENERATIONS), "generation", _GENERATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The members of a world have made their first step; training stood still for ``pause_s``."""

    generation: int
    pause_s: float = 0.0

    def __post_init__(self) -> None:
        _require(is_count(self.generation, _MOST_GENERATIONS), "generation", _GENERATION)
        _require(is_duration(self.pause_s), "pause_s", "seconds from 0 to a century")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingProgress:
    """How far training is. Only the latest counts; figures that are not finite are left out by the reader."""

    step: int
    total: int | None = None
    loss: float | None = None
    samples_per_s: float | None = None

    def __post_init__(self) -> None:
        _require(is_count(self.step), "step", _STEP)
        _require(is_count(self.total), "total", _STEP)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsLogged:
    """Metrics that a script logged since the last such message, in order."""

    values: tuple[MetricValue, ...]

    def __post_init__(self) -> None:
        _require(len(self.values) <= MOST_AT_ONCE, "values", f"at most {MOST_AT_ONCE} of them")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved:
    """State is where it outlives the run; training stood still for ``blocking_s`` of the time it took."""

    step: int
    path: str = ""
    blocking_s: float | None = None

    def __post_init__(self) -> None:
        _require(is_count(self.step), "step", _STEP)
        _require(is_duration(self.blocking_s), "blocking_s", "seconds from 0 to a century")
        _require(len(self.path) <= LONGEST_TEXT, "path", _TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFailed:
    """State could not be saved; training goes on."""

    step: int
    path: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        _require(is_count(self.step), "step", _STEP)
        _require(max(len(self.path), len(self.reason)) <= LONGEST_TEXT, "path and reason", _TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointUnreadable:
    """The newest checkpoint, of ``step``, cannot be read; training goes on from step ``used``, or stops without one."""

    step: int
    reason: str = ""
    used: int | None = None

    def __post_init__(self) -> None:
        _require(is_count(self.step) and is_count(self.used), "step and used", _STEP)
        _require(len(self.reason) <= LONGEST_TEXT, "reason", _TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSuspended:
    """The workers have saved their state up to ``step`` because they were asked to, and are about to leave."""

    step: int | None = None

    def __post_init__(self) -> None:
        _require(is_count(self.step), "step", _STEP)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsTimed:
    """How long the steps of this worker took since the last such message. Only the latest counts."""

    times: StepTimes

    def __post_init__(self) -> None:
        _require(is_count(self.times.step) and is_count(self.times.steps), "times.step", _STEP)
        seconds = (self.times.step_s, self.times.compute_s, self.times.input_s, self.times.wait_s)
        _require(all(map(is_duration, seconds)), "times", "seconds from 0 to a century")
        _require(is_figure(self.times.samples), "times.samples", "a finite number")


@dataclass(frozen=True, slots=True, kw_only=True)
class HotspotsSampled:
    """Where the time of a few steps went, from a profile of this worker."""

    hotspots: Hotspots

    def __post_init__(self) -> None:
        spots = self.hotspots
        _require(is_count(spots.step) and is_count(spots.steps), "hotspots.step", _STEP)
        parts = (
            spots.step_s, spots.input_s, spots.host_s, spots.kernels_s, spots.communication_s, spots.checkpoint_s,
            *(operator.seconds for operator in spots.operators),
        )  # fmt: skip
        _require(all(map(is_duration, parts)), "hotspots", "seconds from 0 to a century")
        _require(0.0 <= spots.cost <= 1.0, "hotspots.cost", "a share from 0 to 1")
        _require(len(spots.operators) <= MOST_OPERATORS, "hotspots.operators", f"at most {MOST_OPERATORS} of them")
        names = (spots.device, *(operator.name for operator in spots.operators))
        _require(_are_texts(names), "hotspots", _TEXT)
        _require(all(is_figure(one.calls) for one in spots.operators), "hotspots.operators", "finite numbers of calls")


@dataclass(frozen=True, slots=True, kw_only=True)
class StacksTaken:
    """What every thread of this worker is doing, in answer to a :class:`StackOrder` of the same ``look``."""

    look: int
    threads: tuple[ThreadStack, ...]

    def __post_init__(self) -> None:
        _require(is_count(self.look, _MOST_GENERATIONS), "look", _GENERATION)
        _require(len(self.threads) <= MOST_THREADS, "threads", f"at most {MOST_THREADS} of them")
        for thread in self.threads:
            _require(len(thread.frames) <= MOST_FRAMES, "frames", f"at most {MOST_FRAMES} in each thread")
            names = (thread.name, *(text for frame in thread.frames for text in (frame.file, frame.function)))
            _require(_are_texts(names), "threads", _TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossWrong:
    """The loss of the batch of ``step`` is not what it should be, and nothing is done about it, as ``reason`` says."""

    step: int
    fault: LossFault
    reason: str

    def __post_init__(self) -> None:
        _require(is_count(self.step), "step", _STEP)
        _require(_are_texts((self.reason,)), "reason", _TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRolledBack:
    """Training goes on from the checkpoint of ``step``, without the batches of steps ``skips`` to ``until``."""

    step: int
    skips: int
    until: int
    fault: LossFault
    reason: str

    def __post_init__(self) -> None:
        _require(all(map(is_count, (self.step, self.skips, self.until))), "step, skips and until", _STEP)
        _require(_are_texts((self.reason,)), "reason", _TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bye:
    """A worker has done its work and ends."""


# --- what agents say --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A set of workers that train together, in the order of their ranks.

    ``survivors`` were in the world before and hold the state. ``rendezvous`` is where the members meet: ``file:PATH``
    on one machine, ``agent:`` where the agent keeps the store of the generation, or ``env://`` where torchrun's
    variables say it all.
    """

    generation: int
    rank: int
    size: int
    members: tuple[str, ...]
    rendezvous: str
    survivors: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _require(self.generation >= 0, "generation", "a number from 0")
        _require(0 <= self.rank < self.size, "rank", f"a number from 0 to {self.size - 1}")
        _require(len(self.members) == self.size, "members", f"{self.size} names, as size says")
        _require(set(self.survivors) <= set(self.members), "survivors", "some of the members")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveOrder:
    """This worker is not in the next world."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendOrder:
    """Save the state and leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishOrder:
    """Training is over: save the state, end the loop, and do what a script does after its last step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackOrder:
    """Say at once what every thread is doing; ``look`` is repeated in the answer."""

    look: int

    def __post_init__(self) -> None:
        _require(is_count(self.look, _MOST_GENERATIONS), "look", _GENERATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The agent does not accept the worker that said hello, for a reason a person can read."""

    reason: str


WorkerMessage = (
    Hello | Ready | Met | Joined | TrainingProgress | MetricsLogged
    | CheckpointSaved | CheckpointFailed | CheckpointUnreadable | StateSuspended | StepsTimed | HotspotsSampled
    | StacksTaken | LossWrong | StateRolledBack | Bye
)  # fmt: skip
AgentMessage = World | LeaveOrder | SuspendOrder | FinishOrder | StackOrder | Refusal

MessageT = TypeVar("MessageT")


class Vocabulary(Generic[MessageT]):
    """The messages that go one way over a line, by the names they have on it."""

    def __init__(self, kinds: Mapping[str, type[Any]]) -> None:
        self._kinds = dict(kinds)
        self._names = {kind: name for name, kind in self._kinds.items()}

    def encode(self, message: MessageT) -> bytes:
        """A message as one line."""
        line = json.dumps({"type": self._names[type(message)], **plain(message)}).encode() + b"\n"
        if len(line) > LONGEST_LINE:
            raise ProtocolError(f"a {self._names[type(message)]} of {len(line)} bytes; at most {LONGEST_LINE} are sent")
        return line

    def decode(self, line: bytes) -> MessageT:
        """The message in a line, or a :class:`ProtocolError` that names it."""
        if len(line) > LONGEST_LINE:
            raise ProtocolError(f"a line of {len(line)} bytes; at most {LONGEST_LINE} are read")
        fields = _object(line)
        name = fields.pop("type", None)
        kind = self._kinds.get(name) if isinstance(name, str) else None
        if kind is None:
            raise ProtocolError(f"unknown message {str(name)[:_SHOWN]!r}; known: {', '.join(self._kinds)}")
        if kind is Hello:
            _check_version(fields.get("version"))
        return cast("MessageT", _strictly(kind, str(name), fields))


WORKER_MESSAGES: Vocabulary[WorkerMessage] = Vocabulary({
    "hello": Hello, "ready": Ready, "met": Met, "joined": Joined, "progress": TrainingProgress,
    "metrics": MetricsLogged,
    "checkpointed": CheckpointSaved, "checkpoint_failed": CheckpointFailed,
    "checkpoint_unreadable": CheckpointUnreadable, "suspended": StateSuspended,
    "times": StepsTimed, "hotspots": HotspotsSampled, "stacks": StacksTaken, "loss_wrong": LossWrong,
    "rolled_back": StateRolledBack, "bye": Bye,
})  # fmt: skip
AGENT_MESSAGES: Vocabulary[AgentMessage] = Vocabulary({
    "world": World, "leave": LeaveOrder, "suspend": SuspendOrder, "finish": FinishOrder, "take_stacks": StackOrder,
    "refused": Refusal,
})  # fmt: skip


def _check_version(spoken: object) -> None:
    """Before anything else is read: what another version says may look different in every field."""
    if spoken != PROTOCOL_VERSION:
        raise VersionError(
            f"the worker speaks version {spoken!r} of the protocol and this agent version {PROTOCOL_VERSION}:"
            " install the same version of penstock where the worker runs"
        )


def _require(holds: bool, field: str, allowed: str) -> None:
    if not holds:
        raise ValueError(f"{field} must be {allowed}")


def _are_texts(words: Iterable[str]) -> bool:
    """Whether every file, database and terminal takes them, and none is too long."""
    return all(len(word) <= LONGEST_TEXT and clean_text(word) == word for word in words)


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = parse_json(line, LONGEST_LINE, parse_constant=_CONSTANTS.__getitem__)
    except ValueError as error:
        raise ProtocolError(f"not a line of JSON ({error}): {_excerpt(line)}") from None
    if not isinstance(found, dict):
        raise ProtocolError(f"a message is a JSON object: {_excerpt(line)}")
    return found


def _strictly(kind: type, name: str, fields: dict[str, Any]) -> Any:
    """Built by the codec, and refused where the codec had to read something into a value."""
    try:
        message = build(kind, fields)
    except PenstockError as error:
        raise ProtocolError(f"a {name} that cannot be read: {error}") from None
    understood = plain(message)
    for name_of_field, sent in fields.items():
        if not _same(sent, understood[name_of_field]):
            raise ProtocolError(f"a {name} whose {name_of_field} is {str(sent)[:_SHOWN]!r}, which has the wrong type")
    return message


def _same(sent: Any, understood: Any) -> bool:
    """Whether two JSON values are one, except that a whole number may stand for a float."""
    if isinstance(sent, bool) or isinstance(understood, bool):
        return sent is understood
    if isinstance(sent, int | float) and isinstance(understood, int | float):
        return sent == understood and not (isinstance(sent, float) and isinstance(understood, int))
    if isinstance(sent, list) and isinstance(understood, list):
        return len(sent) == len(understood) and all(map(_same, sent, understood))
    return type(sent) is type(understood) and bool(sent == understood)


def _excerpt(line: bytes) -> str:
    return repr(line[:_SHOWN].decode(errors="replace").rstrip())
