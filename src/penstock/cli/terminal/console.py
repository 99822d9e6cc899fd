"""How things look in a terminal: tables on stdout, everything else on stderr."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from penstock.cli.terminal.control_characters import plain_text
from penstock.core import format_bytes, format_duration
from penstock.tools import write_atomically


class PlainConsole(Console):
    """Shows text without what a terminal would obey: names, reasons and last lines are other people's."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(plain_text(one) if isinstance(one, str) else one for one in objects), **options)


out = PlainConsole(markup=False, highlight=False, emoji=False)
err = PlainConsole(stderr=True, markup=False, highlight=False, emoji=False)


def complain(message: str) -> None:
    """One clear line about what went wrong."""
    err.print(f"penstock: {message}", style="bold red", soft_wrap=True)


def say(message: str) -> None:
    """Chatter that must not end up in a pipe."""
    err.print(message, style="dim", soft_wrap=True)


def write_page(page: Path, html: str) -> None:
    """Write a page for a browser, whole or not at all, and say where it is."""
    page.parent.mkdir(parents=True, exist_ok=True)
    size = write_atomically(page, html)
    say(f"{page}: {format_bytes(size)}, open it in a browser")


def plain_table(*columns: str, title: str = "") -> Table:
    """A table whose first column is text and whose others are numbers."""
    table = Table(
        title=title or None, title_justify="left", header_style="bold", box=None, pad_edge=False, collapse_padding=True
    )
    for position, column in enumerate(columns):
        table.add_column(column, justify="right" if position else "left", no_wrap=True)
    return table


def seconds(value: float) -> str:
    return "-" if math.isnan(value) else format_duration(value)


def percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.1f}%"


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C inside ends the command with a word and code 130 instead of a traceback."""
    try:
        yield
    except KeyboardInterrupt:
        complain("interrupted; nothing was written")
        raise typer.Exit(130) from None


@contextmanager
def bars(labels: Sequence[str], total: int) -> Iterator[Callable[[Sequence[int]], None]]:
    """One progress bar per label on stderr; call the result with how far each has come."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as progress:
        tasks = [progress.add_task(label, total=total) for label in labels]

        def update(done: Sequence[int]) -> None:
            for task, count in zip(tasks, done, strict=True):
                progress.update(task, completed=count)

        yield update
