"""How workers meet over their agent: a store of keys and values that outlives every one of them.

Where all workers share a disk they meet through a file. Elsewhere the agent keeps the store of each generation: a
worker opens a second line to it with a :class:`~penstock.core.Hello` that names the generation, and asks one thing at a
time. Values are bytes, written as base64.
"""

from dataclasses import dataclass
from enum import StrEnum

from penstock.core.protocol import Vocabulary


class StoreOp(StrEnum):
    """What can be asked of a meeting store."""

    SET = "set"
    GET = "get"
    ADD = "add"
    CHECK = "check"
    WAIT = "wait"
    COMPARE_SET = "compare_set"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRequest:
    """One question. ``get`` and ``wait`` are answered when all keys are there, or after ``timeout_s``."""

    op: StoreOp
    keys: tuple[str, ...]
    value: str = ""
    expected: str = ""
    amount: int = 0
    timeout_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.keys:
            raise ValueError("keys must be at least one")
        if not 0.0 <= self.timeout_s < float("inf"):
            raise ValueError("timeout_s must be seconds from 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReply:
    """``done``: whether the keys are there (``get``, ``wait``, ``check``) or were (``delete``)."""

    done: bool = True
    value: str = ""
    amount: int = 0


STORE_REQUESTS: Vocabulary[StoreRequest] = Vocabulary({"ask": StoreRequest})
STORE_REPLIES: Vocabulary[StoreReply] = Vocabulary({"reply": StoreReply})
