"""The trace formats that are read, one module each: what a file says, as records; nothing is made up here.

A format with a header line lists the columns it cannot do without; one without a header tells by the first line whether
a file is its own, and names the columns itself.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from penstock.simulate.traces.files import Table
from penstock.simulate.traces.formats import (
    acme,
    alibaba,
    astraea,
    chronus,
    elasticflow,
    gavel,
    helios,
    philly,
    plain,
    sia,
    swf,
)
from penstock.simulate.traces.records import Trace


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of trace file. ``required`` lists the columns it cannot do without, each with its accepted spellings."""

    name: str
    required: tuple[tuple[str, ...], ...]
    read: Callable[[Table], Trace]

    def missing(self, header: Sequence[str]) -> list[str]:
        return ["/".join(names) for names in self.required if not set(names) & set(header)]


@dataclass(frozen=True, slots=True)
class HeaderlessFormat:
    """A kind of trace file that begins with its first job or with comments."""

    name: str
    is_like: Callable[[str], bool]
    table: Callable[[str, Iterable[str]], Table]
    read: Callable[[Table], Trace]


FORMATS = tuple(
    Format(module.NAME, module.REQUIRED, module.read)
    for module in (plain, elasticflow, philly, alibaba, chronus, astraea, helios, acme, sia)
)
HEADERLESS = tuple(
    HeaderlessFormat(module.NAME, module.is_like, module.table, module.read) for module in (gavel, swf)
)  # fmt: skip
