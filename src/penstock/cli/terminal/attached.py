"""This terminal, attached to a command that runs beside a job: keys go there, output comes here."""

import os
import shutil
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from penstock.core import PenstockError

if TYPE_CHECKING:
    from penstock.client import Client
    from penstock.wire import TerminalSize

_KEYS = 4096
_END_OF_INPUT = "\x04"


def attach(client: "Client", job: str, command: Sequence[str]) -> int:
    """Until the command ends; returns its exit code. Every key goes to it, also those that end a program."""
    session: list[str] = []

    def opened(name: str) -> None:
        session.append(name)
        threading.Thread(target=_send_keys, args=(client, job, name), name="keys", daemon=True).start()

    def resized(*_: object) -> None:
        if session:
            with suppress(PenstockError):
                client.type_keys(job, session[0], size=_size())

    with _raw_keyboard(), _on_resize(resized):
        return client.execute(job, command, _show, terminal=_size(), opened=opened)


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _send_keys(client: "Client", job: str, session: str) -> None:
    keyboard = sys.stdin.fileno()
    with suppress(PenstockError, OSError):
        while keys := os.read(keyboard, _KEYS):
            client.type_keys(job, session, keys.decode("utf-8", "replace"))
        client.type_keys(job, session, _END_OF_INPUT)


def _size() -> "TerminalSize":
    from penstock.wire import TerminalSize

    size = shutil.get_terminal_size()
    return TerminalSize(rows=size.lines, columns=size.columns)


@contextmanager
def _raw_keyboard() -> Iterator[None]:
    """Keys as they are pressed, while this lasts; nothing where no keyboard is."""
    if not sys.stdin.isatty():
        yield
        return
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    tty.setraw(keyboard)
    try:
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


@contextmanager
def _on_resize(act: "signal._HANDLER") -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGWINCH, act)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
