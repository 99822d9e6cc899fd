"""Trace files as text: opened, taken apart into cells, and written in one piece.

This is the only module that knows about bytes, compression and line numbers, so that every complaint about a file can
say where it is. It does not know what the columns of any format mean.
"""

import csv
import gzip
import io
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NoReturn, TextIO, cast

from penstock.core import TraceError
from penstock.tools import atomic_file

_GZIP_MAGIC = b"\x1f\x8b"
_GUIDE = "docs/trace-formats.md describes the formats"


@dataclass(slots=True)
class Table:
    """A file as rows of cells. ``seen`` remembers on which line each id was first used."""

    source: str
    header: tuple[str, ...]
    numbered: Iterable[tuple[int, Sequence[str]]]
    seen: dict[str, int] = field(default_factory=dict)

    @classmethod
    def from_csv(cls, source: str, lines: Iterable[str]) -> "Table":
        rows = _filled_rows(lines, source)
        header = tuple(name.strip() for name in next(rows, (0, []))[1])
        if not header:
            raise _empty(source)
        for position, name in enumerate(header):
            if name in header[:position]:
                raise TraceError(f"{source} has the column {name!r} twice", "every column once")
        return cls(source, header, _of_width(rows, len(header), source))

    def rows(self) -> Iterator["Row"]:
        for line, cells in self.numbered:
            yield Row(self, line, cells)

    def find(self, *spellings: str) -> int | None:
        """The position of the column with one of these names, if there is one."""
        return next((self.header.index(name) for name in spellings if name in self.header), None)

    def column(self, *spellings: str) -> int:
        """The position of a column that must be there."""
        position = self.find(*spellings)
        if position is None:
            wanted = " or ".join(map(repr, spellings))
            raise TraceError(
                f"{self.source} has the columns {', '.join(self.header)}", f"a header with {wanted}", _GUIDE
            )
        return position


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table. Cells are asked for by position: a dictionary per line would double the reading time."""

    table: Table
    line: int
    cells: Sequence[str]

    def refuse(self, column: int, allowed: str, hint: str = "") -> NoReturn:
        """Say where the cell is, what it holds and what it may hold."""
        where = f"{self.table.source}, line {self.line}, column {self.table.header[column]!r}"
        raise TraceError(f"{where}: {self.cells[column]!r}", allowed, hint) from None

    def text(self, column: int | None) -> str:
        """A cell without surrounding blanks; nothing if the file lacks the column."""
        return self.cells[column].strip() if column is not None else ""

    def name(self, column: int) -> str:
        """A cell that must not be empty."""
        return self.text(column) or self.refuse(column, "a name")

    def new_id(self, column: int) -> str:
        """A name that no earlier row has."""
        name = self.name(column)
        first = self.table.seen.setdefault(name, self.line)
        if first != self.line:
            self.refuse(column, "every id once", f"Line {first} uses it already; rename one of the two")
        return name

    def number(self, column: int) -> float:
        try:
            value = float(self.cells[column])
        except ValueError:
            self.refuse(column, "a number")
        return value if math.isfinite(value) else self.refuse(column, "a finite number")

    def time(self, column: int) -> float:
        value = self.number(column)
        return value if value >= 0 else self.refuse(column, "zero or more seconds")

    def positive(self, column: int) -> float:
        value = self.number(column)
        return value if value > 0 else self.refuse(column, "a number above 0")

    def count(self, column: int, at_least: int = 1) -> int:
        """A whole number; "8.0" is one."""
        value = self.number(column)
        if value < at_least or not value.is_integer():
            self.refuse(column, f"a whole number, {at_least} or more")
        return int(value)


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text file, plain or gzip, refusing an empty file before the first one."""
    lines = _decoded(path)
    first = next(lines, None)
    if first is None:
        raise _empty(str(path))
    return chain([first], lines)


@contextmanager
def replacing(path: Path, *, overwrite: bool, source: Path | None = None) -> Iterator[TextIO]:
    """A text file that takes the place of ``path`` once all of it is written, and leaves no trace of itself if not."""
    target = path.resolve()
    _check_target(path, target, overwrite=overwrite, source=source)
    try:
        with atomic_file(target) as raw, _text_writer(raw, compressed=target.suffix == ".gz") as stream:
            yield stream
    except OSError as problem:
        raise TraceError(f"cannot write {path}: {problem.strerror or problem}", "a file we may write") from None


def _check_target(path: Path, target: Path, *, overwrite: bool, source: Path | None) -> None:
    if not target.parent.is_dir():
        raise TraceError(f"cannot write {path}", "a file in an existing directory", f"Create {target.parent}")
    if source is not None and source.resolve() == target:
        raise TraceError(f"{path} is the trace being read", "another file to write to")
    if not target.exists():
        return
    if not target.is_file():
        raise TraceError(f"{path} exists and is not a regular file", "a file to write to")
    if not overwrite:
        raise TraceError(f"{path} exists", "a new file", "Give --force to replace it")


@contextmanager
def _text_writer(raw: BinaryIO, *, compressed: bool) -> Iterator[TextIO]:
    """Text into ``raw``. The gzip header carries no name and no time, so that equal jobs give equal bytes."""
    if not compressed:
        with io.TextIOWrapper(raw, encoding="utf-8", newline="") as text:
            yield text
        return
    packed = gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0)
    with packed, io.TextIOWrapper(packed, encoding="utf-8", newline="") as text:
        yield text


def _empty(source: str) -> TraceError:
    return TraceError(f"{source} is empty", "a header and at least one row", _GUIDE)


def _decoded(path: Path) -> Iterator[str]:
    """Lines decoded one by one, because a decoder that reads ahead cannot say on which line it stumbled."""
    line, offset = 0, 0
    try:
        with path.open("rb") as raw, _unpacked(path, raw) as binary:
            for line, content in enumerate(binary, 1):
                yield content.decode("utf-8-sig" if line == 1 else "utf-8")
                offset += len(content)
    except UnicodeDecodeError as problem:
        raise TraceError(
            f"{path}, line {line}, byte {offset + problem.start}: not UTF-8 text",
            "UTF-8, plain or gzip",
            "Save the file as UTF-8",
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
        raise TraceError(
            f"{path} is a damaged gzip file after line {line} ({problem})",
            "a complete gzip or plain text file",
            "Copy or download it again",
        ) from None
    except OSError as problem:
        raise _unreadable(path, problem) from None


def _unpacked(path: Path, raw: io.BufferedReader) -> BinaryIO:
    start = raw.peek(2)[:2]
    if start == _GZIP_MAGIC or (path.suffix == ".gz" and start):
        return cast("BinaryIO", gzip.GzipFile(fileobj=raw))
    return raw


def _unreadable(path: Path, problem: OSError) -> TraceError:
    if isinstance(problem, FileNotFoundError):
        return TraceError(f"there is no file {path}", "an existing trace file", "Check the path")
    if isinstance(problem, IsADirectoryError):
        return TraceError(f"{path} is a directory", "one trace file", "Name a file inside it")
    return TraceError(f"cannot read {path}: {problem.strerror or problem}", "a readable file")


def _filled_rows(lines: Iterable[str], source: str) -> Iterator[tuple[int, list[str]]]:
    """CSV rows with their line numbers, blank lines left out."""
    reader = csv.reader(lines, strict=True)
    try:
        for cells in reader:
            if len(cells) > 1 or (cells and cells[0].strip()):
                yield reader.line_num, cells
    except csv.Error as problem:
        raise TraceError(
            f"{source}, line {reader.line_num}: not CSV ({problem})", "comma-separated cells", _GUIDE
        ) from None


def _of_width(rows: Iterator[tuple[int, list[str]]], width: int, source: str) -> Iterator[tuple[int, list[str]]]:
    for line, cells in rows:
        if len(cells) != width:
            raise TraceError(
                f"{source}, line {line}: {len(cells)} cells", f"{width} cells, as in the header", "Was it cut off?"
            )
        yield line, cells
