"""The agent's side of the zygote: a warm Python that forks workers, so that only one process pays for imports.

If it cannot start (no torch in the job's Python, no runtime room) or dies, those who wait for a worker are told, and
the agent starts plain processes instead.
"""

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from penstock.backends.agent.processes import OURSELVES, Identity, kill_tree, start_process
from penstock.core import LONGEST_LINE
from penstock.tools import parse_json

Event = dict[str, Any]


class ZygoteClient:
    """One warm interpreter. The caller feeds :meth:`receive` when :attr:`output` is readable."""

    def __init__(
        self, interpreter: str, env: Mapping[str, str], cwd: str, log: int, identity: Identity = OURSELVES
    ) -> None:
        self._buffer = b""
        self.alive = True
        argv = [interpreter, "-m", "penstock.runtime.zygote"]
        self.process = start_process(argv, env, cwd, subprocess.PIPE, subprocess.PIPE, log, identity)
        assert self.process.stdout is not None
        self.output = self.process.stdout.fileno()
        os.set_blocking(self.output, False)

    def fork(self, worker_id: str, argv: list[str], env: Mapping[str, str], cwd: str, out: str, err: str) -> None:
        """Ask for a worker; a ``started`` event answers."""
        self._send({
            "op": "fork", "id": worker_id, "argv": argv, "env": dict(env), "cwd": cwd, "stdout": out, "stderr": err,
        })  # fmt: skip

    def receive(self, handle: Callable[[Event], None]) -> bool:
        """Pass on what the zygote said; whether it may say more."""
        try:
            data = os.read(self.output, 65536)
        except BlockingIOError:
            return True
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            with suppress(ValueError):
                handle(parse_json(line, LONGEST_LINE))
        return bool(data)

    def quit(self) -> None:
        """Let it go; it has no workers any more."""
        self._send({"op": "quit"})
        kill_tree(self.process.pid)
        self.bury()

    def bury(self) -> None:
        """Close what is open after its end."""
        self.alive = False
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _send(self, request: Event) -> None:
        if self.process.stdin is not None and self.alive:
            with suppress(OSError, ValueError):
                self.process.stdin.write(json.dumps(request).encode() + b"\n")
                self.process.stdin.flush()
