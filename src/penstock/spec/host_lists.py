"""Slurm's way to name many hosts at once."""

import re
from collections.abc import Iterator

from penstock.core import InputError

MOST_HOSTS = 10_000
_RANGES = re.compile(r"^([^\[\]]*)\[([0-9,-]+)\](.*)$")
_WORDS = re.compile(r"(?:[^,\[]|\[[^\[\]]*\]|\[)+")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def expand_hosts(text: str) -> list[str]:
    """The hosts that an expression names.

    >>> expand_hosts("gpu-[08-10,17],login")
    ['gpu-08', 'gpu-09', 'gpu-10', 'gpu-17', 'login']
    """
    names: list[str] = []
    for word in _WORDS.findall(text):
        for name in _expanded(word.strip(), text):
            names.append(name)
            if len(names) > MOST_HOSTS:
                raise InputError(f"more than {MOST_HOSTS} hosts in {text!r}", "fewer", "Name those that count")
    return names


def _expanded(word: str, whole: str) -> Iterator[str]:
    found = _RANGES.match(word)
    if found is None:
        if "[" in word or "]" in word:
            raise InputError(f"the hosts {whole!r}", "names and ranges of numbers", 'Try "gpu-[1-4,7]"')
        yield word
        return
    before, ranges, after = found.groups()
    for each in ranges.split(","):
        one = _RANGE.fullmatch(each)
        if one is None:
            raise InputError(f"the range {each!r} of the hosts {whole!r}", "FIRST-LAST", 'Try "gpu-[1-4,7]"')
        first, last = one.group(1), one.group(2) or one.group(1)
        for number in range(int(first), int(last) + 1):
            yield from _expanded(f"{before}{number:0{len(first)}d}{after}", whole)
