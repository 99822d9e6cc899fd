"""What a person sees in a browser: pages in front of the same service as the API, drawn by NiceGUI.

Nothing here decides anything. A page asks :class:`~penstock.web.viewer.Viewer`, which acts for one signed-in person
on the platform service. Everything a browser needs comes from this server; nothing is fetched from elsewhere.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.core import require
from penstock.web.oidc_settings import OidcSettings

if TYPE_CHECKING:
    from fastapi import FastAPI

    from penstock.control import Platform


def mount(app: "FastAPI", platform: "Platform", data_dir: Path, oidc: OidcSettings | None = None) -> None:
    """Put the dashboard under ``/ui`` of an application; ``/`` leads there. Once per process: NiceGUI is global."""
    require("nicegui", extra="web", why="the dashboard")
    from penstock.web.application import mount_pages

    mount_pages(app, platform, data_dir, oidc)


__all__ = ["OidcSettings", "mount"]
