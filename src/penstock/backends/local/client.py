"""One request to an agent: a line of JSON there, a line of JSON back."""

import json
import socket
from typing import Any

from penstock.backends.base import BackendError

ANSWER_S = 10.0


def ask(path: str, request: dict[str, Any], timeout_s: float = ANSWER_S) -> dict[str, Any]:
    """What the agent answers; raises OSError where nobody listens, BackendError where it refuses."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(timeout_s)
        line.connect(path)
        line.sendall(json.dumps(request).encode() + b"\n")
        with line.makefile("rb") as answers:
            text = answers.readline()
    if not text:
        raise ConnectionResetError("the agent hung up")
    answer: dict[str, Any] = json.loads(text)
    if not answer.get("ok"):
        raise BackendError(str(answer.get("error", "the agent refused without a reason")))
    return answer
