"""Torch's store over the line to the agent, for workers that share no disk with each other.

Unlike torch's own TCP store it is hosted by no worker and knows the run's secret. A store serves one generation; it is
asked one thing at a time, so several threads may use it.
"""

import base64
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

import torch.distributed as dist
from torch._C._distributed_c10d import Store

from penstock.core import (
    LONGEST_LINE,
    STORE_REPLIES,
    STORE_REQUESTS,
    WORKER_MESSAGES,
    AgentAddress,
    Hello,
    ProtocolError,
    StoreOp,
    StoreReply,
    StoreRequest,
)

_DIAL_S = 10.0
_ANSWER_S = 30.0
"""How long an answer may be on its way, beyond what was asked to be waited for."""


class AgentStore(Store):
    """The meeting of one generation, kept by the agent. The line is closed with the last reference to it."""

    def __init__(self, agent: AgentAddress, hello: Hello, timeout_s: float) -> None:
        super().__init__()
        self._agent = agent
        self._hello = hello
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        try:
            self._line = agent.connect(_DIAL_S)
            self._stream = self._line.makefile("rwb")
            self._write(WORKER_MESSAGES.encode(hello))
        except OSError as error:
            raise ConnectionResetError(f"the agent cannot be reached for a meeting: {error}") from error

    @classmethod
    def open(cls, agent: AgentAddress, worker: str, secret: str, generation: int, timeout_s: float) -> "AgentStore":
        hello = Hello(worker=worker, pid=os.getpid(), secret=secret, store=generation)
        return cls(agent, hello, timeout_s)

    def set(self, key: str, value: bytes | str) -> None:
        self._ask(StoreOp.SET, key, value=_text(value))

    def get(self, key: str) -> bytes:
        reply = self._ask(StoreOp.GET, key, timeout_s=self._timeout_s)
        if not reply.done:
            raise dist.DistStoreError(f"{key!r} was not set within {self._timeout_s:g} s")
        return base64.b64decode(reply.value)

    def add(self, key: str, amount: int) -> int:
        return self._ask(StoreOp.ADD, key, amount=amount).amount

    def check(self, keys: Sequence[str]) -> bool:
        return self._ask(StoreOp.CHECK, *keys).done

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        patience_s = self._timeout_s if timeout is None else timeout.total_seconds()
        if not self._ask(StoreOp.WAIT, *keys, timeout_s=patience_s).done:
            raise dist.DistStoreError(f"{', '.join(keys)} were not set within {patience_s:g} s")

    def compare_set(self, key: str, expected: bytes | str, desired: bytes | str) -> bytes:
        reply = self._ask(StoreOp.COMPARE_SET, key, expected=_text(expected), value=_text(desired))
        return base64.b64decode(reply.value)

    def delete_key(self, key: str) -> bool:
        return self._ask(StoreOp.DELETE, key).done

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout_s = timeout.total_seconds()

    @property
    def timeout(self) -> timedelta:
        return timedelta(seconds=self._timeout_s)

    def clone(self) -> "AgentStore":
        return AgentStore(self._agent, self._hello, self._timeout_s)

    def __del__(self) -> None:
        with suppress(OSError, AttributeError):
            self._stream.close()
            self._line.close()

    def _ask(
        self, op: StoreOp, *keys: str, value: str = "", expected: str = "", amount: int = 0, timeout_s: float = 0.0
    ) -> StoreReply:
        request = StoreRequest(
            op=op, keys=keys, value=value, expected=expected, amount=amount, timeout_s=timeout_s
        )  # fmt: skip
        try:
            with self._lock:
                self._line.settimeout(timeout_s + _ANSWER_S)
                self._write(STORE_REQUESTS.encode(request))
                return STORE_REPLIES.decode(self._stream.readline(LONGEST_LINE + 1))
        except (OSError, ProtocolError) as error:
            raise ConnectionResetError(f"the agent does not keep this meeting any more: {error}") from error

    def _write(self, line: bytes) -> None:
        self._stream.write(line)
        self._stream.flush()


def _text(value: bytes | str) -> str:
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()
