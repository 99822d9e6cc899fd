"""A process that has imported what workers need and forks them on request: a new worker in milliseconds, not seconds.

Requests come as JSON lines on standard input, answers go as JSON lines to standard output::

    {"op": "fork", "id": "w3", "argv": ["train.py"], "env": {...}, "cwd": "...", "stdout": "...", "stderr": "..."}
    {"event": "started", "id": "w3", "pid": 123}
    {"event": "error", "id": "w3", "message": "..."}
    {"op": "quit"}

It stays single-threaded, for a fork copies one thread only, and never touches a device. ``env`` is laid over its own
environment. A worker is forked twice, so that it becomes a child of whoever started the zygote (a *subreaper*), who
learns how it ends; the zygote's end is not the worker's, but the kernel ends a worker whose starter is gone. A worker
runs only once its start has been told, so nobody meets one they have not heard of.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

_NOT_THE_SCRIPT = frozenset({__file__, runpy.__file__, "<frozen runpy>"})
_WARM = (
    "numpy",
    "torch",
    "torch.distributed.fsdp",
    "torch.nn.parallel",
    "torch.utils.data",
    "torch._dynamo",
    "penstock.elastic",
)
"""``torch._dynamo`` because the first DDP of a process imports it, at a bad moment."""

_PR_SET_PDEATHSIG = 1


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
    """Reads requests and forks."""

    def __init__(self, starter: int) -> None:
        self._starter = starter
        self._received = bytearray()

    def serve(self) -> Fork | None:
        """Work until told to quit. In a forked worker this returns what the worker is to become."""
        while chunk := os.read(sys.stdin.fileno(), 65536):
            self._received += chunk
            while (request := self._next_request()) is not None:
                if request.get("op") == "quit":
                    return None
                if (worker := self._answer(request)) is not None:
                    return worker
        return None

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
        """Fork; returns the request in the worker and nothing in the zygote."""
        try:
            if request.get("op") != "fork":
                raise ValueError("a request is an object with op 'fork' or 'quit'")
            fork = Fork.parse(request)
            sys.stdout.flush()
            return fork if self._fork_twice(fork.id) else None
        except (KeyError, TypeError, ValueError, OSError) as error:
            _tell(event="error", id=request.get("id"), message=f"{type(error).__name__}: {error}")
            return None

    def _fork_twice(self, worker: str) -> bool:
        """Whether this is the worker now. Its go-ahead comes when it is known and has its final parent."""
        pid_r, pid_w = os.pipe()
        go_r, go_w = os.pipe()
        middle = os.fork()
        if middle == 0:
            _become_orphan(pid_w)
            os.close(pid_r)
            os.close(go_w)
            self._wait_for_go(go_r)
            return True
        os.close(pid_w)
        os.close(go_r)
        pid = os.read(pid_r, 32)
        os.waitpid(middle, 0)
        if pid:
            _tell(event="started", id=worker, pid=int(pid))
            os.write(go_w, b"g")
        os.close(pid_r)
        os.close(go_w)
        if not pid:
            raise OSError("the second fork failed")
        return False

    def _wait_for_go(self, go_r: int) -> None:
        if not os.read(go_r, 1):
            os._exit(1)  # the zygote died before it told anyone
        os.close(go_r)
        _die_with_parent()
        if os.getppid() != self._starter:
            os._exit(1)


def become(fork: Fork) -> None:
    """Turn this process into a fresh interpreter running the script, as far as the script can tell."""
    _redirect(fork)
    os.environ.update(fork.env)
    os.chdir(fork.cwd)
    _refresh()
    sys.excepthook = _show_own_frames
    sys.argv = list(fork.argv)
    if fork.argv[0] == "-m":
        sys.argv = list(fork.argv[1:])
        sys.path[0] = os.getcwd()
        runpy.run_module(fork.argv[1], run_name="__main__", alter_sys=True)
        return
    sys.path[0] = str(Path(fork.argv[0]).resolve().parent)
    runpy.run_path(fork.argv[0], run_name="__main__")


def _show_own_frames(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A traceback as a fresh interpreter prints it: without the frames that brought the script to run."""
    own = trace
    while own is not None and own.tb_frame.f_code.co_filename in _NOT_THE_SCRIPT:
        own = own.tb_next
    shown = own or trace
    sys.__excepthook__(kind, error.with_traceback(shown), shown)


def main() -> None:
    # Numpy's BLAS would start threads of its own while being imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    starter = os.getppid()
    for module in _WARM:
        importlib.import_module(module)
    # What is loaded now is never collected: no page is copied in a child just to look for garbage.
    gc.collect()
    gc.freeze()
    atexit.register(_thaw)
    worker = Zygote(starter).serve()
    if worker is not None:
        become(worker)


def _thaw() -> None:
    """Let what was frozen be collected at the end where an extension counts what is left, as Triton's does on stderr.

    Only there: the last collection copies every page that a worker shares with this process.
    """
    if "triton" in sys.modules:
        gc.unfreeze()


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


def _become_orphan(pid_w: int) -> None:
    """Fork once more and end; the one that is left leads a group of its own and says who it is."""
    try:
        if os.fork():
            os._exit(0)
    except OSError:
        os._exit(1)
    os.setpgid(0, 0)
    os.write(pid_w, str(os.getpid()).encode())
    os.close(pid_w)


def _die_with_parent() -> None:
    """Have the kernel end this process with its parent; where it cannot, the platform finds it by its environment."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _tell(**event: object) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
