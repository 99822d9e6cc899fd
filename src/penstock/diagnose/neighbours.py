"""The example of the catalogue that a line is most like, for lines that no signature finds.

A signature knows its wording; a release that words the same failure anew is found by none. What is left of it is
likeness: runs of three to five characters, rare ones counting more (TF-IDF), compared by cosine. One alike example may
be chance, so two have to agree on the category. The idea is that of retrieving past incidents for what rules do not
know (Hu et al., NSDI'24); the measure and the rule of two are our own.
"""

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.core import Evidence
from penstock.diagnose.signatures.catalogue import Catalogue
from penstock.diagnose.signatures.model import Signature

LEAST_LIKENESS = 0.35
_SIZES = (3, 4, 5)
_BUCKETS = 1 << 16
_LONGEST = 300
_ERROR_LIKE = re.compile(
    r"error|fail|exception|fatal|abort|kill|cannot|could not|couldn't|unable|timed? ?out|mismatch|invalid|refused|"
    r"denied|not found|corrupt|unexpected|错误|失败|异常",
    re.IGNORECASE,
)
_TALK = re.compile(
    r"\b(INFO|DEBUG)\b|[Ww]arning|^\[?[IWD] \S+\.\w+:\d+\]|^\s*File \"|^\s*at |0 errors|"
    r"^(FileNotFound|Key|Name|Syntax|Indentation|Index|ZeroDivision|UnboundLocal|Permission)Error\b"
)
"""What sounds like an error and is none, and errors of a script that say nothing but what was missing."""
_VARIABLE = re.compile(r"0x[0-9a-f]+|\d+")
_PATH = re.compile(r"(?:/[\w.+-]+){2,}/")

Buckets = npt.NDArray[np.intp]
Weights = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A line and the example it is most like."""

    line: Evidence
    signature: Signature
    likeness: float


@dataclass(frozen=True, slots=True)
class Examples:
    """The grams of every example as buckets and weights; O(grams of all examples) for each line that is asked about."""

    signatures: tuple[Signature, ...]
    rows: tuple[tuple[Buckets, Weights], ...]
    rarity: Weights

    @classmethod
    def of(cls, catalogue: Catalogue) -> "Examples":
        signatures = tuple(one for one in catalogue.signatures.values() if one.example)
        counted = [_grams(one.example) for one in signatures]
        having = np.bincount(np.concatenate([buckets for buckets, _ in counted]), minlength=_BUCKETS)
        rarity = (np.log((len(counted) + 1) / (having + 1)) + 1).astype(np.float32)
        rows = tuple((buckets, _unit(counts * rarity[buckets])) for buckets, counts in counted)
        return cls(signatures, rows, rarity)

    def nearest(self, lines: Iterable[Evidence]) -> Neighbour | None:
        """The likest of all lines that two examples of one category are like enough."""
        found = [neighbour for line in lines if is_error_like(line.text) and (neighbour := self._nearest(line))]
        return max(found, key=lambda neighbour: neighbour.likeness, default=None)

    def _nearest(self, line: Evidence) -> Neighbour | None:
        buckets, counts = _grams(line.text)
        asked = np.zeros(_BUCKETS, dtype=np.float32)
        asked[buckets] = _unit(counts * self.rarity[buckets])
        likeness = np.array([asked[its_buckets] @ weights for its_buckets, weights in self.rows])
        first, second = (int(place) for place in np.argsort(likeness)[:-3:-1])
        best = self.signatures[first]
        if best.category != self.signatures[second].category or likeness[first] < LEAST_LIKENESS:
            return None
        return Neighbour(line=line, signature=best, likeness=float(likeness[first]))


def is_error_like(text: str) -> bool:
    return _ERROR_LIKE.search(text) is not None and _TALK.search(text) is None


def _grams(text: str) -> tuple[Buckets, Weights]:
    """Which buckets the grams of a text fall into, and how often, damped; numbers and directories are all the same."""
    plain = _PATH.sub("/p/", _VARIABLE.sub("0", text[:_LONGEST].lower()))
    data = f" {' '.join(plain.split())} ".encode()
    places = [zlib.crc32(data[at : at + size]) % _BUCKETS for size in _SIZES for at in range(len(data) - size + 1)]
    buckets, counts = np.unique(np.array(places or [0], dtype=np.intp), return_counts=True)
    return buckets, np.log1p(counts).astype(np.float32)


def _unit(weights: Weights) -> Weights:
    length = float(np.sqrt(weights @ weights))
    return weights / np.float32(length or 1.0)
