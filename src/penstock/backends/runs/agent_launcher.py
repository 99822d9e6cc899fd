"""Starts agents: forked by a zygote where there is one, as processes of their own where it cannot be had.

What the machine is short of (processes, memory, descriptors, room on the disk) is no fault of whatever is being
started: it is told as a :class:`~penstock.backends.base.ShortageError`, and whoever asked tries again later.
"""

import contextlib
import errno
import json
import logging
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.backends.agent.processes import SHORTAGES
from penstock.backends.base import BackendError, ShortageError
from penstock.backends.runs.rundir import RunDir

_log = logging.getLogger(__name__)
_FULL_DISK = frozenset({errno.ENOSPC, errno.EDQUOT})
_MODULES = "penstock.backends.runs"
_QUIT_S = 5.0


class AgentLauncher:
    """Starts agents for runs below ``root``; the zygote is started with the first of them and ends with this.

    ``modules`` are what agents need besides, for the zygote to import once.
    """

    def __init__(self, root: Path, modules: Sequence[str] = ()) -> None:
        self._root = root
        self._modules = tuple(modules)
        self._environment: Mapping[str, str] = {}
        self._lock = threading.Lock()
        self._zygote: subprocess.Popen[bytes] | None = None
        self._quit: weakref.finalize[..., AgentLauncher] | None = None

    def start(
        self, run_dir: RunDir, options: list[str], environment: Mapping[str, str], secrets: Mapping[str, str]
    ) -> None:
        """Start an agent and return at once; it takes the lock of the run's directory when it is there.

        Secrets go through a pipe: neither its command line nor its environment nor any file of the run's holds them.
        """
        arguments = [str(run_dir.path), *options]
        request = {
            "arguments": arguments, "log": str(run_dir.agent_log), "cwd": str(run_dir.path), "secrets": dict(secrets),
        }  # fmt: skip
        if not self._fork(request, environment):
            _execute(run_dir, arguments, environment, secrets)

    def _fork(self, request: dict[str, Any], environment: Mapping[str, str]) -> bool:
        """Whether a zygote has forked it."""
        with self._lock:
            try:
                zygote = self._warm(environment)
                answer = _asked(zygote, request)
            except (OSError, ValueError) as error:
                _raise_shortage(error)
                _log.warning("the zygote of the agents cannot be used (%s); an agent starts without it", error)
                self._end_zygote()
                return False
        if (number := answer.get("errno")) is not None:
            raise _shortage(OSError(number, os.strerror(number)))
        return True

    def _warm(self, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        if self._zygote is None or self._zygote.poll() is not None or environment != self._environment:
            self._end_zygote()
            self._environment = dict(environment)
            self._zygote = subprocess.Popen(
                [sys.executable, "-P", "-m", f"{_MODULES}.agent_zygote", str(self._root), *self._modules],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._environment, cwd=self._root,
                start_new_session=True,
            )  # fmt: skip
            self._quit = weakref.finalize(self, _end, self._zygote)
        return self._zygote

    def _end_zygote(self) -> None:
        if self._quit is not None:
            self._quit()
        self._zygote = self._quit = None


def _end(zygote: "subprocess.Popen[bytes]") -> None:
    """A zygote ends with its input; agents stay."""
    for pipe in (zygote.stdin, zygote.stdout):
        with contextlib.suppress(OSError):
            pipe.close()  # type: ignore[union-attr]
    try:
        zygote.wait(_QUIT_S)
    except subprocess.TimeoutExpired:
        zygote.kill()
        zygote.wait()


def _execute(run_dir: RunDir, arguments: list[str], environment: Mapping[str, str], secrets: Mapping[str, str]) -> None:
    """The agent forks itself away at once, so waiting for its first process leaves no zombie here."""
    argv = [sys.executable, "-P", "-m", f"{_MODULES}.agent", "--detach", "--secrets", *arguments]
    with run_dir.agent_log.open("ab") as log:
        subprocess.run(
            argv, input=json.dumps(dict(secrets)).encode(), stdout=log, stderr=log, start_new_session=True, check=True,
            cwd=run_dir.path, env=dict(environment),
        )  # fmt: skip


@contextmanager
def shortages_told() -> Iterator[None]:
    """What the machine is short of leaves as a :class:`ShortageError`."""
    try:
        yield
    except OSError as error:
        _raise_shortage(error)
        raise
    except RuntimeError as error:
        if "new thread" in str(error):
            raise ShortageError(f"the machine is short of something: {error}") from error
        raise


def _asked(zygote: "subprocess.Popen[bytes]", request: dict[str, Any]) -> dict[str, Any]:
    assert zygote.stdin is not None
    assert zygote.stdout is not None
    zygote.stdin.write(json.dumps(request).encode() + b"\n")
    zygote.stdin.flush()
    line = zygote.stdout.readline()
    if not line:
        raise BrokenPipeError("it is gone")
    answer: dict[str, Any] = json.loads(line)
    return answer


def _raise_shortage(error: Exception) -> None:
    if isinstance(error, OSError) and error.errno in SHORTAGES | _FULL_DISK:
        raise _shortage(error) from error


def _shortage(error: OSError) -> BackendError:
    return ShortageError(f"the machine is short of something: {error.strerror or error}")
