"""What a worker prints far from its agent: gathered for a moment, then sent in batches of bounded size."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from penstock.backends.agent.outputs import TAIL_LINES
from penstock.backends.agent.part_messages import OutputLine

GATHER_S = 0.05
"""How long a line may wait for others."""
BATCH_BYTES = 128 * 1024
"""Of one message: lines are cut at half of this before they come here, and JSON may make six bytes of one."""


class ForwardedOutput:
    """An :class:`~penstock.backends.agent.outputs.OutputSink` for the one worker of a host; ``send`` gets batches."""

    def __init__(self, send: Callable[[Sequence[OutputLine]], None]) -> None:
        self._send = send
        self._waiting: list[OutputLine] = []
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def open(self, worker_id: str, rank: int) -> "ForwardedLines":  # noqa: ARG002
        return ForwardedLines(self, rank)

    def remark(self, text: str) -> None:
        self.take("stderr", [f"penstock: {text}".encode()])

    def take(self, stream: str, lines: Sequence[bytes]) -> None:
        for line in lines:
            self._waiting.append(OutputLine(stream=stream, text=line.decode(errors="surrogateescape")))
            self._bytes += len(line)
            if self._bytes >= BATCH_BYTES:
                self.flush()
        if self._waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_S, self.flush)

    def flush(self) -> None:
        """Send what there is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            lines, self._waiting, self._bytes = self._waiting, [], 0
            self._send(lines)

    def close(self) -> None:
        self.flush()


class ForwardedLines:
    """The lines of one process of the worker."""

    def __init__(self, output: ForwardedOutput, rank: int) -> None:
        self._output = output
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.rank = rank

    def take(self, stream: str, lines: Sequence[bytes], raw: bytes | None = None) -> None:  # noqa: ARG002
        self._output.take(stream, lines)

    def note(self, text: str) -> None:
        self._tail.append(text)

    def tail(self) -> tuple[str, ...]:
        """Only what the agent has not seen as output."""
        return tuple(self._tail)

    def close(self) -> None:
        self._output.flush()
