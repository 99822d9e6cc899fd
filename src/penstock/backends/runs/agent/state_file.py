"""The state of a run where servers find it without asking."""

from contextlib import suppress
from pathlib import Path

from penstock.core import RunState
from penstock.tools import write_atomically


class StateFile:
    """One line with the state and, while a run waits, the engine's words below it. Written when it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = ""

    def tell(self, state: RunState, waiting: str | None = None) -> None:
        """``waiting`` is why workers are not there yet; None where nothing is waited for."""
        if state is RunState.STARTING and waiting is not None:
            state = RunState.WAITING if waiting else RunState.ACCEPTED
        text = f"{state.value}\n{waiting}" if waiting else state.value
        if text != self._written:
            with suppress(OSError):
                write_atomically(self._path, text)
                self._written = text
