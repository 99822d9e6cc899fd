"""Reads exported configurations with DeepSpeed's own code; a process of its own, started with a checkout's path.

Reads a JSON list of ``{"config": {…}, "replicas": …, "launch": […]}``, writes a list of verdicts: an empty text, or the
exception.
"""

import contextlib
import io
import json
import os
import sys
from typing import Any


class _Groups:
    """As the script's own bookkeeping of process groups would answer."""

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas

    def get_data_parallel_world_size(self) -> int:
        return self._replicas


def _verdict(question: dict[str, Any]) -> str:
    from deepspeed.launcher.runner import parse_args
    from deepspeed.runtime import config

    config.dist.get_rank = lambda: 0
    try:
        config.DeepSpeedConfig(question["config"], mpu=_Groups(question["replicas"]))
        parse_args(question["launch"])
    except SystemExit as problem:
        return f"the launcher left with {problem.code}"
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return ""


def main() -> None:
    os.environ["DS_ACCELERATOR"] = "cpu"
    sys.path.insert(0, sys.argv[1])
    with contextlib.redirect_stdout(io.StringIO()):
        verdicts = [_verdict(question) for question in json.load(sys.stdin)]
    json.dump(verdicts, sys.stdout)


if __name__ == "__main__":
    main()
