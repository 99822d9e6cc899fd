"""How a verb reaches the platform: a server named in the environment, or the local one, started if need be."""

import json
from typing import TYPE_CHECKING, Any

from penstock.cli.terminal.console import say

if TYPE_CHECKING:
    from penstock.client import Client


def connect() -> "Client":
    """A client of the server the environment names, else of the local one."""
    from penstock.client import reach

    return reach(say=say)


def print_json(value: Any) -> None:
    """One document on stdout; views and lists of views as they are on the wire."""
    plain = [item.model_dump(mode="json") for item in value] if isinstance(value, list) else value
    if hasattr(plain, "model_dump"):
        plain = plain.model_dump(mode="json")
    print(json.dumps(plain, indent=2))
