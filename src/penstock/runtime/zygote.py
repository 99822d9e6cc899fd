"""A process that has imported what workers need and forks them on request: a new worker in milliseconds, not seconds.

Requests come as JSON lines on standard input, answers go as JSON lines to standard output::

    {"op": "fork", "id": "w3", "argv": ["train.py"], "env": {...}, "cwd": "...", "stdout": "...", "stderr": "..."}
    {"event": "started", "id": "w3", "pid": 123}
    {"event": "exited", "id": "w3", "code": 0, "signal": null}
    {"event": "error", "id": "w3", "message": "..."}
    {"op": "quit"}

It stays single-threaded, for a fork copies one thread only, and never touches a device. ``env`` is laid over its own
environment. A child gets a process group of its own, so the end of the zygote is not the end of its children.
"""

import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_WARM = (
    "numpy",
    "torch",
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.nn.parallel",
    "torch.utils.data",
    "torch._dynamo",
    "penstock.elastic",
)
"""``torch._dynamo`` because the first DDP of a process imports it, at a bad moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """A worker to be."""

    id: str
    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    stdout: str
    stderr: str

    @classmethod
    def parse(cls, request: dict[str, Any]) -> "Fork":
        argv = tuple(str(word) for word in request["argv"])
        if not argv:
            raise ValueError("argv is empty")
        return cls(
            id=str(request["id"]),
            argv=argv,
            env={str(key): str(value) for key, value in request.get("env", {}).items()},
            cwd=str(request.get("cwd", ".")),
            stdout=str(request.get("stdout", os.devnull)),
            stderr=str(request.get("stderr", os.devnull)),
        )


class Zygote:
    """Reads requests, forks, and reports how children end."""

    def __init__(self) -> None:
        self._children: dict[int, str] = {}
        self._received = bytearray()
        self._child_r, self._child_w = os.pipe()
        os.set_blocking(self._child_w, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._child_w, warn_on_full_buffer=False)

    def serve(self) -> Fork | None:
        """Work until told to quit. In a forked child this returns what the child is to become."""
        with selectors.DefaultSelector() as selector:
            selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
            selector.register(self._child_r, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    chunk = os.read(key.fd, 65536)
                    if key.fd == self._child_r:
                        self._reap()
                    elif not chunk:
                        return None
                    else:
                        self._received += chunk
                while (request := self._next_request()) is not None:
                    if request.get("op") == "quit":
                        return None
                    if (child := self._answer(request)) is not None:
                        return child

    def _next_request(self) -> dict[str, Any] | None:
        line, newline, rest = self._received.partition(b"\n")
        if not newline:
            return None
        self._received = rest
        try:
            request = json.loads(line)
            return request if isinstance(request, dict) else {}
        except ValueError:
            return {}

    def _answer(self, request: dict[str, Any]) -> Fork | None:
        """Fork; returns the request in the child and nothing in the parent."""
        try:
            if request.get("op") != "fork":
                raise ValueError("a request is an object with op 'fork' or 'quit'")
            fork = Fork.parse(request)
            sys.stdout.flush()
            pid = os.fork()
        except (KeyError, TypeError, ValueError, OSError) as error:
            _tell(event="error", id=request.get("id"), message=f"{type(error).__name__}: {error}")
            return None
        if pid == 0:
            self._detach()
            return fork
        self._children[pid] = fork.id
        _set_group(pid)
        _tell(event="started", id=fork.id, pid=pid)
        return None

    def _reap(self) -> None:
        for pid in list(self._children):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                _tell(event="exited", id=self._children.pop(pid), code=code, signal=-code if code < 0 else None)

    def _detach(self) -> None:
        _set_group(0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(self._child_r)
        os.close(self._child_w)


def become(fork: Fork) -> None:
    """Turn this process into a fresh interpreter running the script, as far as the script can tell."""
    _redirect(fork)
    os.environ.update(fork.env)
    os.chdir(fork.cwd)
    _refresh()
    sys.argv = list(fork.argv)
    if fork.argv[0] == "-m":
        sys.argv = list(fork.argv[1:])
        sys.path[0] = os.getcwd()
        runpy.run_module(fork.argv[1], run_name="__main__", alter_sys=True)
        return
    sys.path[0] = str(Path(fork.argv[0]).resolve().parent)
    runpy.run_path(fork.argv[0], run_name="__main__")


def main() -> None:
    # Numpy's BLAS would start threads of its own while being imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for module in _WARM:
        importlib.import_module(module)
    # What is loaded now is never collected: no page is copied in a child just to look for garbage.
    gc.collect()
    gc.freeze()
    child = Zygote().serve()
    if child is not None:
        become(child)


def _redirect(fork: Fork) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    for path, flags, target in (
        (os.devnull, os.O_RDONLY, 0),
        (fork.stdout, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 1),
        (fork.stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 2),
    ):
        handle = os.open(path, flags, 0o644)
        os.dup2(handle, target)
        os.close(handle)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def _refresh() -> None:
    """Undo what children of one parent share although fresh processes would not: random states, a thread count."""
    import random

    import numpy as np
    import torch

    random.seed()
    np.random.seed()
    if threads := os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(threads))


def _set_group(pid: int) -> None:
    """Both parent and child do this, so that neither can be too early; whoever is late may fail."""
    with suppress(OSError):
        os.setpgid(pid, 0)


def _tell(**event: object) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
