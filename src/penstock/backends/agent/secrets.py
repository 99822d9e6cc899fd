"""Secrets on their last few steps: into the variables or private files of workers, and out of what workers print."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from penstock.backends.agent.ownership import hand_over, let_through
from penstock.core import SecretUse
from penstock.tools import UnixUser, write_atomically

SHORTEST_MASKED = 6
"""Shorter values are words that output is full of; hiding them would hide everything and say what they are."""
_MASKED = b"***"


def deliver(
    uses: Sequence[SecretUse], values: Mapping[str, str], directory: Path, user: UnixUser | None
) -> dict[str, str]:
    """The variables of workers: each the value of a secret, or the path of a file that only their user can read."""
    variables = {}
    for use in uses:
        variables[use.variable] = values[use.secret]
        if use.as_file:
            file = directory / use.variable
            let_through(directory, user)
            write_atomically(file, values[use.secret], mode=0o400)
            hand_over(file, user)
            variables[use.variable] = str(file)
    return variables


def split(uses: Sequence[SecretUse], values: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Values by variable for workers elsewhere: those that become variables, and those that become files there."""
    variables = {use.variable: values[use.secret] for use in uses if not use.as_file}
    return variables, {use.variable: values[use.secret] for use in uses if use.as_file}


class Mask:
    """Takes the values of secrets out of output; each line of a value by itself, for output comes in lines."""

    def __init__(self, values: Iterable[str]) -> None:
        lines = {line.strip() for value in values for line in value.splitlines()}
        hidden = sorted((line for line in lines if len(line) >= SHORTEST_MASKED), key=len, reverse=True)
        self._pattern = re.compile(b"|".join(re.escape(line.encode()) for line in hidden)) if hidden else None

    @property
    def hides(self) -> bool:
        """Whether there is anything to hide."""
        return self._pattern is not None

    def __call__(self, line: bytes) -> bytes:
        return line if self._pattern is None else self._pattern.sub(_MASKED, line)


NOTHING_HIDDEN = Mask(())
