"""``penstock dashboard``: the pages in a browser, signed in."""

import os
import sys
from typing import Annotated

import typer

from penstock.cli.connect import connect
from penstock.cli.terminal.console import say
from penstock.core import InputError, install_command


def command(
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the link.")] = False,
) -> None:
    """Open the dashboard. Prints a link that signs one browser in, once, within five minutes."""
    with connect() as client:
        from penstock.wire import MissingError

        try:
            link = client.sign_in_link()
        except MissingError:
            raise InputError(
                f"the server at {client.url} has no dashboard", "a server with the web extra",
                f"Add the extra on its machine ({install_command('web')}), then start it again",
            ) from None  # fmt: skip
    print(link)
    if not no_browser and sys.stdout.isatty() and _has_display():
        import webbrowser

        if webbrowser.open(link):
            say("opened in the browser")


def _has_display() -> bool:
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
