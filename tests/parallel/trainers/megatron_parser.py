"""Runs Megatron-LM's own parser over arguments given on stdin; a process of its own, started with a checkout's path.

Reads a JSON list of ``{"argv": […], "environment": {…}, "world_size": …, "capability": …}``, writes a list of verdicts:
an empty text, or the exception. With a list of names of arguments instead, writes the record of them that the tests
keep. The query of the device is answered by the question, and fused rotary positions are switched off, as Transformer
Engine need not be installed.
"""

import argparse
import contextlib
import io
import json
import os
import sys
import typing
from typing import Any

from tests.parallel.trainers.absent import stand_in_for


def _verdict(parser: Any, question: dict[str, Any]) -> str:
    from megatron.training.argument_utils import core_transformer_config_from_args

    parser.get_device_arch_version = lambda: question["capability"]
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    os.environ.update(question["environment"], WORLD_SIZE=str(question["world_size"]), RANK="0")
    sys.argv = ["pretrain.py", *question["argv"], "--no-rope-fusion"]
    try:
        arguments = parser.parse_args()
        parser.validate_args(arguments)
        core_transformer_config_from_args(arguments)
    except SystemExit as problem:
        return f"the parser left with {problem.code}"
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return ""


def _record(parser: Any, names: list[str]) -> dict[str, Any]:
    """Type and choices of each argument, and how many values it takes where that is not one."""
    whole = parser.add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False))
    found: dict[str, Any] = {}
    for name in names:
        action = whole._option_string_actions[name]
        kind = getattr(action.type or str, "__name__", "str") if action.nargs != 0 else "flag"
        found[name] = {"type": kind if kind in ("int", "float", "flag") else "str"}
        found[name] |= {"choices": [str(choice) for choice in action.choices]} if action.choices else {}
        found[name] |= {"values": 8} if action.nargs in ("+", "*") else {}
    return found


def main() -> None:
    stand_in_for("triton")
    sys.path.insert(0, sys.argv[1])
    typing.override = getattr(typing, "override", lambda method: method)  # type: ignore[attr-defined]
    questions, chatter = json.load(sys.stdin), io.StringIO()
    with contextlib.redirect_stdout(chatter):
        import megatron.training.arguments as parser

        named = all(isinstance(question, str) for question in questions)
        answer = _record(parser, questions) if named else [_verdict(parser, question) for question in questions]
    json.dump(answer, sys.stdout, indent=2)


if __name__ == "__main__":
    main()
