"""What is typed into a job file as a command, and what a backend starts.

A list is started as it is. A string without anything only a shell understands is split into words, so that the
process that gets the signals is the training process itself; any other string is given to ``sh``, which stops at the
first line that fails.
"""

import re
import shlex
from functools import lru_cache

from penstock.core import InputError

SHELL = ("/bin/sh", "-ec")

_ONLY_A_SHELL_KNOWS = re.compile(r"[|&;<>()$`*?\[\]{}#~\n!]|^\s*[A-Za-z_][A-Za-z0-9_]*=")


def needs_shell(command: str | tuple[str, ...]) -> bool:
    return isinstance(command, str) and _ONLY_A_SHELL_KNOWS.search(command.strip()) is not None


def check_command(command: str | tuple[str, ...]) -> None:
    """Refuse what can never be started."""
    words = words_of(command)
    if not words or not words[0].strip():
        raise InputError("an empty command", "a command line or a list of words", 'Try "python train.py"')


def words_of(command: str | tuple[str, ...]) -> tuple[str, ...]:
    """The words of a command; of a shell's text, the pieces between blanks."""
    return _split(command) if isinstance(command, str) else command


@lru_cache(maxsize=16)
def _split(command: str) -> tuple[str, ...]:
    """Reading one job file asks for the words of its command again and again."""
    if needs_shell(command):
        return tuple(command.split())
    try:
        return tuple(shlex.split(command))
    except ValueError:
        raise InputError(f"the command {command!r} has an open quote", "quotes in pairs", "Close the quote") from None


def process_of(command: str | tuple[str, ...]) -> tuple[str, ...]:
    """The words to execute."""
    if isinstance(command, str) and needs_shell(command):
        return (*SHELL, command)
    return words_of(command)
