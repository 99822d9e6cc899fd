"""Text that somebody else wrote, made harmless for a terminal.

A job's output may hold sequences that rename the window, write into the clipboard, answer as if a person had typed, or
hide what follows. Everything but line ends, tabs and carriage returns is taken out of text that goes to a terminal;
colours are sequences too. Nothing changes for pipes and files, which execute nothing.
"""

import re

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: cursor, colours, modes
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x90\x98\x9c-\x9f\n]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM
    r"|\x1b[ -/]*[0-Z\\^-~]"  # two characters, or a character set
)
_BEGUN = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*\Z"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x90\x98\x9c-\x9f\n]*\x1b?\Z"
    r"|\x1b[ -/]*\Z"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_LONGEST = 4096


def plain_text(text: str) -> str:
    """The text without sequences and control characters."""
    return _CONTROL.sub("", _SEQUENCE.sub("", text))


class PlainStream:
    """The same for text that comes in pieces: a sequence that is not complete yet waits for the rest."""

    def __init__(self) -> None:
        self._begun = ""

    def feed(self, piece: str) -> str:
        """What of the text so far is safe to show and was not shown yet."""
        text = self._begun + piece
        begun = _BEGUN.search(text[-_LONGEST:])
        self._begun = begun[0] if begun else ""
        return plain_text(text[: len(text) - len(self._begun)])

    def rest(self) -> str:
        """What is left at the end."""
        left, self._begun = self._begun, ""
        return plain_text(left)
