"""Which kind of failure the words of a log resemble, where no signature knows its wording.

The examples of all signatures of a category, one's own included, say which words its messages are made of. The lines at
the end of a log that speak of a failure are compared with every category: words and pairs of words, the rarer the
heavier (TF-IDF), cosine to the sum of a category's examples. A line that is nearer to an ordinary message, such as any
program writes, is passed over. What comes out is a hint, never sure enough to decide anything.
"""

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path

from penstock.diagnose.logs.lines import read_line
from penstock.diagnose.signatures.catalogue import Catalogue

_ORDINARY_FILE = Path(__file__).parent / "signatures" / "ordinary.toml"
_FAILURE = re.compile(
    r"error|fail|exception|abort|kill|fatal|cannot|can't|unable|not found|timed? ?out|denied|refused|invalid|nan\b|xid|"
    r"mismatch|signal|no such|missing|incompatible|unexpected|corrupt|exceed|lost|unreachable|must|segfault",
    re.IGNORECASE,
)
_WORD = re.compile(r"[a-z_][a-z_]+")
_TALK = re.compile(r'^\s*File "|^\s*--\w|NCCL INFO')
"""Frames of a traceback, help on flags, and what NCCL says on its way: it tries much in vain, and goes on."""
MOST_LINES = 12
"""Of a log, the last that speak of a failure."""
_LEAST_WORDS = 4
"""A heading is no message."""
_SHARPNESS = 20.0
"""How much more likely a category is than another, as a logarithm, by what their cosines differ."""
_LEAST_SHARE, _LEAST_COSINE = 0.5, 0.12
"""Below these it is nobody's words: how much of the likeness the best category must have, and how like it must be."""

Words = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """A category, the line that speaks for it most, and what part of all likeness it has."""

    category: str
    line: str
    share: float


@dataclass(frozen=True)
class Resemblance:
    """Compares text with the examples of a catalogue. O(words of the examples) once, then O(words of the text)."""

    catalogue: Catalogue

    def nearest(self, text: str) -> Likeness | None:
        """What the end of a log resembles, if that is clear enough."""
        lines = [line for line in _telling(text.splitlines()) if not self._is_ordinary(line)]
        cosines = self._cosines("\n".join(lines))
        best = max(cosines, key=lambda name: cosines[name], default="")
        total = math.fsum(math.exp(_SHARPNESS * (cosine - cosines[best])) for cosine in cosines.values())
        if not best or 1.0 / total < _LEAST_SHARE or cosines[best] < _LEAST_COSINE:
            return None
        line = max(lines, key=lambda line: self._cosines(line)[best])
        return Likeness(category=best, line=line, share=1.0 / total)

    def _is_ordinary(self, line: str) -> bool:
        words = self._weighed(_words(line))
        nearest = max((_product(words, message) for message in self._ordinary), default=0.0)
        return nearest >= max((_product(words, centre) for centre in self._centres.values()), default=0.0)

    def _cosines(self, text: str) -> dict[str, float]:
        words = self._weighed(_words(text))
        return {name: _product(words, centre) for name, centre in self._centres.items()}

    @cached_property
    def _examples(self) -> list[tuple[str, str]]:
        return [(one.category, one.example) for one in self.catalogue.signatures.values() if one.example]

    @cached_property
    def _rarity(self) -> Words:
        texts = [*(text for _, text in self._examples), *ordinary_messages()]
        seen = Counter(word for text in texts for word in set(_words(text)))
        return {word: math.log((1 + len(texts)) / (1 + count)) + 1.0 for word, count in seen.items()}

    @cached_property
    def _centres(self) -> Mapping[str, Words]:
        sums: dict[str, dict[str, float]] = {}
        for name, text in self._examples:
            centre = sums.setdefault(name, {})
            for word, weight in self._weighed(_words(text)).items():
                centre[word] = centre.get(word, 0.0) + weight
        return {name: _of_length_one(centre) for name, centre in sums.items()}

    @cached_property
    def _ordinary(self) -> list[Words]:
        return [self._weighed(_words(message)) for message in ordinary_messages()]

    def _weighed(self, words: Iterable[str]) -> Words:
        """Words that examples have, by how often they come and how rare they are; together of length one."""
        rarity = self._rarity
        found = {word: (1.0 + math.log(n)) * rarity[word] for word, n in Counter(words).items() if word in rarity}
        return _of_length_one(found)


@cache
def ordinary_messages() -> tuple[str, ...]:
    """What programs say while all is well, and ordinary errors of a script."""
    return tuple(tomllib.loads(_ORDINARY_FILE.read_text(encoding="utf-8"))["messages"])


def _telling(lines: Sequence[str]) -> list[str]:
    read = (read_line(line).text.strip() for line in lines if not _TALK.search(line))
    return [line for line in read if _FAILURE.search(line) and len(_WORD.findall(line.lower())) >= _LEAST_WORDS][
        -MOST_LINES:
    ]


def _words(text: str) -> Iterator[str]:
    found = _WORD.findall(text.lower())
    yield from found
    yield from (f"{first} {second}" for first, second in pairwise(found))


def _of_length_one(words: Words) -> Words:
    length = math.sqrt(math.fsum(weight * weight for weight in words.values()))
    return {word: weight / length for word, weight in words.items()} if length else {}


def _product(few: Words, many: Words) -> float:
    return math.fsum(weight * many[word] for word, weight in few.items() if word in many)
