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
