"""``penstock top``: the platform at a glance, live."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.live import Live

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.terminal.console import out
from penstock.cli.terminal.keyboard import Keys, keyboard
from penstock.cli.terminal.top_screen import Screen, draw

if TYPE_CHECKING:
    from penstock.client import Client
    from penstock.wire import OverviewView

_MOST_JOBS = 200
_NEWS = 12


def command(
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.")] = 1.0,
    once: Annotated[
        bool, typer.Option("--once", help="Look once and end; so it does where there is no screen.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Devices, jobs with promise and forecast, and the news, live. q ends the view, nothing else."""
    with connect() as client:
        if as_json:
            print_json(client.overview(jobs=_MOST_JOBS, events=_NEWS))
        elif once or not out.is_terminal:
            out.print(picture(client))
        else:
            watch(client, every)


def picture(client: "Client") -> RenderableType:
    """What is going on now, as large as it is."""
    return draw(client.overview(jobs=_MOST_JOBS, events=_NEWS), Screen(width=out.width))


def watch(client: "Client", every_s: float) -> None:
    """Look again and again until told to stop."""
    screen, seen = Screen(), client.overview(jobs=_MOST_JOBS, events=_NEWS)
    with keyboard() as keys, Live(console=out, screen=True, auto_refresh=False) as live:
        try:
            while True:
                screen = replace(screen, width=out.width, height=out.height)
                live.update(draw(seen, screen), refresh=True)
                after = _after(keys, every_s, screen)
                if after is None:
                    return
                screen = after
                if not screen.held:
                    seen, screen = _look(client, seen, screen)
        except KeyboardInterrupt:
            return


def _after(keys: Keys, every_s: float, screen: Screen) -> Screen | None:
    """What a key changes; nothing is left of the screen after q."""
    match keys.wait(every_s):
        case "q":
            return None
        case "j":
            return replace(screen, show=screen.show.next())
        case "p":
            return replace(screen, promised_only=not screen.promised_only)
        case " ":
            return replace(screen, held=not screen.held)
    return screen


def _look(client: "Client", last: "OverviewView", screen: Screen) -> "tuple[OverviewView, Screen]":
    """A server that is away for a moment is waited for; what was seen last stays."""
    from penstock.wire import UnavailableError

    try:
        return client.overview(jobs=_MOST_JOBS, events=_NEWS), replace(screen, trouble="")
    except UnavailableError:
        return last, replace(screen, trouble="the server does not answer; trying again")
