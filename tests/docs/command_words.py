"""Commands as documents and programs print them, read by the real command line without running anything."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from penstock.cli import _application
from penstock.cli.submission.description import read_job
from penstock.spec import JobFile

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
_COMMAND = re.compile(r"(\$ )?([^#]*[;&|] *)?penstock ")
_SYNOPSIS = re.compile(r"…|\[(options|--)")
_BLOCK = re.compile(r"^```(?:sh|console|bash)?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands_in(page: Path) -> Iterator[str]:
    """Each line of a code block that begins with ``penstock``, or has it behind ``&&`` or ``;``; no synopsis."""
    for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            if not _COMMAND.match(line) or _SYNOPSIS.search(line):
                continue
            words = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=";&|<>()")
            words.whitespace_split, words.commenters = True, "#"
            yield from _calls(words)


def _calls(words: Iterator[str]) -> Iterator[str]:
    call: list[str] = []
    for word in (*words, ";"):
        if word[0] in ";&|<>()":
            if call[:1] == ["penstock"]:
                yield shlex.join(call)
            call = ["(behind a redirection)"] if word[0] in "<>" else []
        else:
            call.append(word)


def parameters(command: str) -> dict[str, Any]:
    """What the verb of a command would be called with; raises what the command line refuses its words with."""
    _, *words = shlex.split(command)
    found = typer.main.get_command(_application(words))
    context = found.make_context("penstock", list(words))
    while hasattr(found, "resolve_command") and context._protected_args:
        name, found, rest = found.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        context = found.make_context(name, rest, parent=context)
    return dict(context.params)


def job_of(command: str) -> JobFile:
    """The job that ``penstock run …`` or ``submit …`` would hand in."""
    return read_job(**parameters(command))
