"""The agent's end of the socket over which servers ask for things: a state, a resize, a suspension, an end."""

import asyncio
from pathlib import Path

from penstock.backends.agent.run_workers import RunWorkers
from penstock.backends.agent.supervisor import Supervisor
from penstock.backends.runs.requests import (
    ANSWERS,
    REQUESTS,
    Answer,
    PingRequest,
    Request,
    ResizeRequest,
    StopRequest,
    SuspendRequest,
    UsageRequest,
)
from penstock.core import LONGEST_LINE, PenstockError


class RequestServer:
    """Answers one line with one line; what cannot be done is told to whoever asked, and changes nothing."""

    def __init__(self, supervisor: Supervisor, workers: RunWorkers) -> None:
        self._supervisor = supervisor
        self._workers = workers
        self._server: asyncio.Server | None = None

    async def listen(self, path: Path) -> None:
        self._server = await asyncio.start_unix_server(self._serve, path=path, limit=LONGEST_LINE)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(ANSWERS.encode(self._answer(line)))
                await writer.drain()
        except (OSError, ValueError):
            pass  # a line too long, or a peer that is gone: either way this connection is over
        finally:
            writer.close()

    def _answer(self, line: bytes) -> Answer:
        try:
            return self._obey(REQUESTS.decode(line))
        except PenstockError as error:
            return Answer(error=f"{type(error).__name__}: {error}")

    def _obey(self, request: Request) -> Answer:
        match request:
            case PingRequest():
                return Answer(state=self._supervisor.state)
            case ResizeRequest():
                self._supervisor.resize(request.generation, request.workers)
            case SuspendRequest():
                self._supervisor.suspend()
            case StopRequest():
                self._supervisor.stop(request.grace_s)
            case UsageRequest():
                return Answer(usage=self._workers.usage())
        return Answer()
