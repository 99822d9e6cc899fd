"""What a server asks of the agent of a run: one typed request there, one answer back, over the run's own socket."""

import socket
from dataclasses import dataclass

from penstock.backends.base import BackendError
from penstock.core import LONGEST_LINE, Usage, Vocabulary, Worker

ANSWER_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PingRequest:
    """Whether anybody is there, and in which state the run is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeRequest:
    """Change to another set of workers."""

    generation: int
    workers: tuple[Worker, ...]

    def __post_init__(self) -> None:
        if not self.workers:
            raise ValueError("a run needs at least one worker; suspend it to take all devices")


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendRequest:
    """Save the state and leave all devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """End within ``grace_s``."""

    grace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRequest:
    """What the run uses right now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a request; ``error`` says why it was refused."""

    error: str = ""
    state: str = ""
    usage: Usage | None = None


Request = PingRequest | ResizeRequest | SuspendRequest | StopRequest | UsageRequest

REQUESTS: Vocabulary[Request] = Vocabulary({
    "ping": PingRequest, "resize": ResizeRequest, "suspend": SuspendRequest, "stop": StopRequest, "usage": UsageRequest,
})  # fmt: skip
ANSWERS: Vocabulary[Answer] = Vocabulary({"answer": Answer})


def ask(path: str, request: Request, timeout_s: float = ANSWER_S) -> Answer:
    """What the agent answers; raises OSError where nobody listens, BackendError where it refuses."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(timeout_s)
        line.connect(path)
        line.sendall(REQUESTS.encode(request))
        with line.makefile("rb") as answers:
            text = answers.readline(LONGEST_LINE + 1)
    if not text:
        raise ConnectionResetError("the agent hung up")
    answer = ANSWERS.decode(text)
    if answer.error:
        raise BackendError(answer.error)
    return answer
