"""What is seen of a training run while it trains: stacks, the times of its steps, where they go, and its loss.

Values only. Workers measure them, agents compare them, the platform shows them.
"""

import signal
from dataclasses import dataclass
from enum import StrEnum

WATCH_LOSS = "PENSTOCK_WATCH_LOSS"
"""The variable by which a job file tells its workers what to do about a loss that goes wrong."""
WATCH_HOTSPOTS = "PENSTOCK_WATCH_HOTSPOTS"
"""The variable by which a job file switches the sampled profiles of its workers ``off``."""

STACK_SIGNAL = int(signal.SIGRTMIN) + 9
"""On which a worker that said hello as elastic writes its stacks to its output. Scripts and libraries use others."""


class LossPolicy(StrEnum):
    """What is done about a loss that goes wrong."""

    AUTO = "auto"
    """A loss that stays NaN or infinite is rolled back where there is a healthy checkpoint; spikes are told."""
    TELL = "tell"
    """Everything is told, nothing is done."""
    ROLLBACK = "rollback"
    """Spikes that last are rolled back too."""
    OFF = "off"


class LossFault(StrEnum):
    """What is wrong with a loss."""

    NOT_FINITE = "not_finite"
    SPIKE = "spike"


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFrame:
    """One call on a stack."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStack:
    """What one thread of a worker is doing: its calls, the outermost first."""

    name: str
    frames: tuple[StackFrame, ...]
    is_main: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """How long the steps of one worker took lately, each figure the median of a step, in seconds.

    ``wait_s`` is what it stood in the exchange of gradients after its own were complete: who is slow waits least.
    ``compute_s`` is the rest of a step but for its ``input_s``; ``samples`` are its share of a batch.
    """

    step: int
    steps: int
    step_s: float
    compute_s: float
    input_s: float
    wait_s: float
    samples: float

    @property
    def own_s(self) -> float:
        """What the worker itself needs of a step, whoever it waits for."""
        return self.compute_s + self.input_s


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorTime:
    """What one operator or kernel takes of a step."""

    name: str
    seconds: float
    calls: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hotspots:
    """Where the time of a step goes, in seconds of one step, over ``steps`` that were profiled from ``step`` on.

    The five parts add up to ``step_s``. Communication is what computing does not hide; ``host`` is what is left when
    neither the device computes nor anything else is known to happen: Python, launches, waiting. Checkpoints are rare:
    theirs is the mean over all steps so far. ``cost`` is the share of the run's time that looking has taken so far.
    """

    step: int
    steps: int
    device: str
    step_s: float
    input_s: float
    host_s: float
    kernels_s: float
    communication_s: float
    checkpoint_s: float
    cost: float
    operators: tuple[OperatorTime, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTimes:
    """The times of one worker, and where it is; ``slower`` is by how much it lags behind the others, if it does."""

    worker: str
    rank: int
    place: str
    times: StepTimes
    slower: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWatch:
    """What was seen last of one run; ``stacks`` is the directory where the latest stacks of its workers are."""

    at: float
    hotspots: Hotspots | None = None
    workers: tuple[WorkerTimes, ...] = ()
    stacks: str = ""
