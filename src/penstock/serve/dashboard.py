"""The pages in front of the API, where they are installed.

They live in a room above this one, so they are found by name and not imported. A server without them works as well;
its front page then says how to get them.
"""

import importlib
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

from penstock.control import Services

_WITHOUT = (
    "This is a Penstock server. Its API is described at /docs.\n"
    'It has no dashboard, because {missing} is not installed. On this machine: pip install "penstock[web]"\n'
    "and start the server again.\n"
)


def dress(app: FastAPI, services: Services, data_dir: Path) -> bool:
    """Put the dashboard in front; whether there is one."""
    try:
        importlib.import_module("penstock.web").mount(app, services, data_dir)
    except ImportError as problem:
        missing = getattr(problem.__cause__, "name", None) or problem.name or "a package"
        app.add_api_route("/", lambda: PlainTextResponse(_WITHOUT.format(missing=missing)), include_in_schema=False)
        return False
    return True
