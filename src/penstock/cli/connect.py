"""How a verb reaches the platform: a server named in the environment, or the local one, started if need be."""

import json
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from penstock.cli.terminal.console import say

if TYPE_CHECKING:
    from penstock.client import Client


def connect() -> "Client":
    """A client of the server the environment names, else of the local one."""
    _leave_out_httpx_command()
    from penstock.client import reach

    return reach(say=say)


def _leave_out_httpx_command() -> None:
    """httpx loads a command line of its own with two further libraries, a tenth of what a short verb takes to start."""
    if "httpx" not in sys.modules:

        def main() -> None:
            raise SystemExit("this program has no command line of httpx; run python -m httpx instead")

        command = ModuleType("httpx._main")
        vars(command)["main"] = main
        sys.modules.setdefault(command.__name__, command)


def print_json(value: Any) -> None:
    """One document on stdout; views and lists of views as they are on the wire."""
    plain = [item.model_dump(mode="json") for item in value] if isinstance(value, list) else value
    if hasattr(plain, "model_dump"):
        plain = plain.model_dump(mode="json")
    print(json.dumps(plain, indent=2))
