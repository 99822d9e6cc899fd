"""The dashboard in front of the API, where its packages are installed.

A server without them works as well; its front page then says how to get them.
"""

from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

from penstock.control import Platform
from penstock.core import MissingExtraError, install_command
from penstock.web import OidcSettings, mount

_WITHOUT_DASHBOARD = (
    "This is a Penstock server. Its API is described at /docs.\n"
    "It has no dashboard, because {missing} is not installed. On this machine: {install}\n"
    "and start the server again.\n"
)


def mount_dashboard(app: FastAPI, platform: Platform, data_dir: Path, oidc: OidcSettings | None = None) -> bool:
    """Put the dashboard, or a page that says how to install it, at ``/``; returns whether there is a dashboard."""
    try:
        mount(app, platform, data_dir, oidc)
    except MissingExtraError as problem:
        page = PlainTextResponse(_WITHOUT_DASHBOARD.format(missing=problem.name, install=install_command("web")))
        app.add_api_route("/", lambda: page, include_in_schema=False)
        return False
    return True
