"""Which format a file is in, told by its first line."""

import difflib
import textwrap
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from penstock.core import TraceError
from penstock.simulate.traces.files import Table, read_lines
from penstock.simulate.traces.formats import FORMATS, HEADERLESS, Format, plain
from penstock.simulate.traces.records import Trace


def read_trace(path: Path) -> Trace:
    """The trace in a file of any format we know, compressed or not."""
    source = str(path)
    lines = read_lines(Path(path))
    first = next(lines)
    if first.lstrip().startswith("{"):
        return plain.read(plain.table_of_jsonl(source, chain([first], lines)))
    for bare in HEADERLESS:
        if bare.is_like(first):
            return bare.read(bare.table(source, chain([first], lines)))
    table = Table.from_csv(source, chain([first], lines))
    return _recognise(table).read(table)


def _recognise(table: Table) -> Format:
    for known in FORMATS:
        if not known.missing(table.header):
            return known
    raise _unknown_header(table)


def _unknown_header(table: Table) -> TraceError:
    closest = sorted(FORMATS, key=lambda known: len(known.missing(table.header)) / len(known.required))
    return TraceError(
        f"{table.source} has the columns {_shown(table.header)}, which make no trace format we know",
        "; ".join(f"{known.name} (missing: {', '.join(known.missing(table.header))})" for known in closest)
        + f"; without a header: {', '.join(bare.name for bare in HEADERLESS)}",
        _near_miss(closest[0], table.header) or "docs/trace-formats.md describes the formats",
    )


def _shown(header: Sequence[str]) -> str:
    """The column names, cut short where the first line is something else entirely."""
    return textwrap.shorten(", ".join(header), 200, placeholder=" …")


def _near_miss(known: Format, header: Sequence[str]) -> str:
    for missing in known.missing(header):
        for spelling in missing.split("/"):
            near = difflib.get_close_matches(spelling, header, n=1, cutoff=0.7)
            if near:
                return f"Did you mean {spelling!r} where the file says {near[0]!r}?"
    return ""
