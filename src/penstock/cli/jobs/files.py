"""``penstock files``: what a job saved, listed or fetched."""

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JobArgument, JsonOption
from penstock.cli.terminal.console import out, plain_table, say
from penstock.cli.terminal.format import clock
from penstock.core import InputError, format_bytes

if TYPE_CHECKING:
    from penstock.client import Client
    from penstock.wire import FileList


def files(
    job: JobArgument,
    path: Annotated[str, typer.Argument(help="A file or directory among them; everything by default.")] = "",
    target: Annotated[Path | None, typer.Option("--out", help="Fetch them into this directory.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the files that a job saved, or fetch them with --out."""
    with connect() as client:
        found = client.files(job, path)
        if target is not None:
            _fetch(client, job, found, target)
            return
    if as_json:
        print_json(found)
        return
    table = plain_table("file", "changed", "size")
    for each in found.files:
        mark = {"directory": "/", "link": "@"}.get(each.kind, "")
        table.add_row(f"{each.path}{mark}", clock(each.changed_at), format_bytes(each.bytes) if not mark else "")
    out.print(table)
    say(f"in {found.place}{', and more' if found.truncated else ''}")


def _fetch(client: "Client", job: str, found: "FileList", target: Path) -> None:
    plain = [each for each in found.files if each.kind == "file"]
    total = 0
    for each in plain:
        place = target / _inside(each.path)
        place.parent.mkdir(parents=True, exist_ok=True)
        total += client.fetch_file(job, each.path, place)
    links = sum(each.kind == "link" for each in found.files)
    skipped = f"; {links} links were left out" if links else ""
    say(f"{len(plain)} files, {format_bytes(total)}, in {target}{skipped}")
    if found.truncated:
        raise InputError("there are more files than are listed at once", "a directory among them", "Name one at a time")


def _inside(path: str) -> PurePosixPath:
    """A path as a server says it, if it stays below where it is put."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts:
        raise InputError(f"the server names a file {path!r}", "a path without ..", "Nothing more was fetched")
    return PurePosixPath(path)
