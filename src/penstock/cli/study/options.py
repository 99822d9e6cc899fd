"""Options several verbs understand."""

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.terminal.console import say
from penstock.core import InputError

if TYPE_CHECKING:
    from penstock.simulate import Profiles


POLICY_HELP = "Names, separated by commas: deadline, srtf:order=device-time, mine.py:Mine (`penstock policies`)."


def load_profiles(directory: Path | None) -> "Profiles":
    """The tables in ``directory``, or the built-in ones, saying so."""
    from penstock.simulate import Profiles

    if directory is not None:
        return Profiles.load(directory)
    say("no --profiles given: using the built-in demo curves, which nobody measured")
    return Profiles.builtin()


def parse_bounds(text: str) -> tuple[float, float]:
    """ "0.5..1.5", or "1.2" for exactly that."""
    low, _, high = text.partition("..")
    try:
        return float(low), float(high or low)
    except ValueError:
        raise InputError(
            f"{text!r} does not say how tight deadlines are", "LOW..HIGH in multiples of the duration", 'Try "0.5..1.5"'
        ) from None
