"""The literal text that every match of a regular expression has.

Whoever writes a signature writes a pattern; the reader of logs needs plain bytes to look for first. Only what is
certain counts: text in groups, classes and optional parts is passed over, so the result may be shorter than it could
be, and never wrong. Where nothing long enough is left, a signature has to name its anchors itself.
"""

import re
from collections.abc import Iterator

LEAST_ANCHOR = 7
"""Shorter text is in too many lines, and does not cover four bytes at every alignment."""
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[*+?]\??|\{\d*,?\d*\}\??|.", re.DOTALL)
_PLAIN_ESCAPE = re.compile(r"\\[^A-Za-z0-9]")
_OPTIONAL = ("*", "?", "{")
_MOST_REPEATS = {r"\w": 40, r"\d": 40, r"\s": 40, r"\S": 80}
_MOST_OF_CLASS = 200
"""Characters that one repeat of a class covers: more than any name, number or word of a message has."""


def anchors_of(regex: str) -> tuple[str, ...]:
    """For each alternative of a pattern its longest certain literal; empty if one of them has none."""
    found = [max(_literals(branch), key=len, default="") for branch in _branches(regex)]
    return tuple(found) if all(len(text.encode()) >= LEAST_ANCHOR for text in found) else ()


def _branches(regex: str) -> list[list[str]]:
    """The tokens of each alternative at the top; what is in parentheses is one token, without text."""
    branches: list[list[str]] = [[]]
    depth = 0
    for token in _TOKEN.findall(regex):
        if token == "(":
            depth += 1
        elif token == ")":
            depth -= 1
            if depth == 0:
                branches[-1].append("()")
        elif depth == 0 and token == "|":
            branches.append([])
        elif depth == 0:
            branches[-1].append(token)
    return branches


def _literals(tokens: list[str]) -> Iterator[str]:
    """Runs of characters that are there exactly once, one after the other."""
    run = ""
    for token, following in zip(tokens, [*tokens[1:], ""], strict=False):
        text = _text(token)
        if text is None or following.startswith(_OPTIONAL):
            yield run
            run = ""
        elif following.startswith("+"):
            yield run + text
            run = ""
        else:
            run += text
    yield run


def _text(token: str) -> str | None:
    if _PLAIN_ESCAPE.fullmatch(token):
        return token[1]
    return token if len(token) == 1 and token not in ".^$*+?" else None


def bounded(regex: str) -> str:
    """The pattern with an end to every repeat of a class or a character; dots and groups stay as they are.

    Two repeats without an end beside each other, such as ``\\w*.{0,60}``, cost the square of what a line has of them.
    """
    found: list[str] = []
    for token in _TOKEN.findall(regex):
        before = found[-1] if found else ""
        is_class = before.startswith("[") or _text(before) is not None
        most = _MOST_REPEATS.get(before, _MOST_OF_CLASS if is_class and before not in ("(", ")", "|") else 0)
        if token[0] in "*+" and most:
            token = f"{{{int(token[0] == '+')},{most}}}{token[1:]}"
        found.append(token)
    return "".join(found)
