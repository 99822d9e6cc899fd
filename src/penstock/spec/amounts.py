"""How long a job trains, as it appears among its own arguments.

A script is told how much to do by an argument, and the job file says the same under ``work``. Where an argument is
written as ``{steps}`` or ``{epochs}`` it follows from ``work``, so the two cannot contradict each other. Either way
more or less of the same work runs at the same speed: :func:`timeless` is what is left of a command without its amount.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from penstock.core import JobError

_OPTIONS = frozenset(
    f"{prefix}{unit}"
    for prefix in ("", "max-", "num-", "n-", "total-", "train-", "training-", "max-train-", "num-train-")
    for unit in ("steps", "epochs", "iters", "iterations")
)
"""Options that say how long to train, in the spellings of common trainers, without dashes in front."""

_NUMBER = re.compile(r"[0-9][0-9_]*(\.[0-9]+)?([eE][0-9]+)?[kKM]?")
_PLACE = re.compile(r"\{(steps|epochs)\}")


def filled(word: str, amounts: Mapping[str, int | None]) -> str:
    """A word with ``{steps}`` and ``{epochs}`` replaced; other braces stay as they are."""

    def amount(found: re.Match[str]) -> str:
        number = amounts[found[1]]
        if number is None:
            raise JobError(
                f"{found[0]} in {word!r}, but the work is not a whole number of epochs that could be counted",
                "work in epochs, or steps that make whole epochs together with steps_per_epoch",
                "Give the work in epochs, or write {steps}",
            )
        return str(number)

    return _PLACE.sub(amount, word)


def timeless(words: Iterable[str]) -> Iterator[str]:
    """The words of a command without the numbers that only say how long to train."""
    expects_amount = False
    for word in words:
        name, equals, value = word.partition("=")
        if expects_amount and _is_amount(word):
            yield ""
        elif equals and _says_how_long(name) and _is_amount(value):
            yield f"{name}="
        else:
            yield word
        expects_amount = not equals and word.startswith("-") and _says_how_long(word)


def _says_how_long(name: str) -> bool:
    """``--max_steps``, ``-steps`` and ``trainer.max_steps`` all name the same option."""
    return name.lstrip("-+").rpartition(".")[2].replace("_", "-").lower() in _OPTIONS


def _is_amount(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text) or _PLACE.fullmatch(text))
