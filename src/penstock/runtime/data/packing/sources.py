"""Files with documents in them, cut into pieces that any process can read: the same pieces in every run.

JSON lines and text are cut at ends of lines every few mebibytes, Parquet files at their row groups, pairs of
Megatron-LM (``.bin`` with ``.idx``) every few thousand documents. A piece knows where it comes from, so that a line
that cannot be used is named by file and number.
"""

import bz2
import gzip
import json
import lzma
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

import numpy as np

from penstock.core import InputError, UnknownNameError, is_url, require
from penstock.runtime.data.packing.megatron import MegatronPair
from penstock.runtime.data.packing.tokenizers import Document
from penstock.runtime.file_systems import file_system

PIECE_BYTES = 4 * 2**20
PIECE_DOCUMENTS = 4096
_FIELDS_NAMED = 8
_WORDS = {
    type(None): "null", bool: "a truth value", int: "a number", float: "a number", str: "a string", list: "a list",
    dict: "an object",
}  # fmt: skip
_COMPRESSED: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


class SourceFormat(StrEnum):
    """What a file is."""

    JSONL = "jsonl"
    TEXT = "text"
    LINES = "lines"
    PARQUET = "parquet"
    MEGATRON = "megatron"


_SUFFIXES = {
    ".jsonl": SourceFormat.JSONL, ".ndjson": SourceFormat.JSONL,
    ".txt": SourceFormat.TEXT, ".text": SourceFormat.TEXT, ".md": SourceFormat.TEXT,
    ".parquet": SourceFormat.PARQUET, ".idx": SourceFormat.MEGATRON,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One file, and what to take from it; ``field`` is the key or column with the text or the tokens."""

    path: str
    format: SourceFormat
    field: str = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a source: bytes of lines, or the number of a row group or of a run of documents."""

    source: Source
    number: int
    first_line: int = 1
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class BadDocument:
    """A line or row that has no document: where it is, by file and line, and what is wrong."""

    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where} {self.reason}"


def find_sources(inputs: Sequence[str | Path], *, kind: str | None = None, field: str = "text") -> list[Source]:
    """The files a person means, directories walked in the order of names; what is not there is refused at once."""
    chosen = _format_named(kind)
    found = [source for given in inputs for source in _sources_of(str(given), chosen, field)]
    if not found:
        raise InputError("no files to pack", f"files that end in {', '.join(_SUFFIXES)}", "Check the paths")
    for source in found:
        if source.format in (SourceFormat.PARQUET, SourceFormat.MEGATRON):
            _count(source)
    return found


def pieces_of(source: Source, first: int = 0) -> Iterator[Piece]:
    """The pieces of a source from one of them on."""
    if source.format in (SourceFormat.PARQUET, SourceFormat.MEGATRON):
        yield from (Piece(source=source, number=number) for number in range(first, _count(source)))
    else:
        yield from (piece for piece in _line_pieces(source) if piece.number >= first)


def _count(source: Source) -> int:
    """Pieces of a file that has an index; one that cannot be read is refused."""
    if source.format is SourceFormat.MEGATRON:
        return -(-MegatronPair(Path(source.path)).documents // PIECE_DOCUMENTS)
    with _parquet(source) as file:
        return int(file.num_row_groups)


def documents_of(piece: Piece) -> Iterator[tuple[str, Document | BadDocument]]:
    """Where each document of a piece comes from, and the document or why there is none."""
    match piece.source.format:
        case SourceFormat.JSONL:
            yield from _json_documents(piece)
        case SourceFormat.LINES:
            for number, line in _lines(piece):
                where = f"{piece.source.path}:{number}"
                yield where, _text(line, where)
        case SourceFormat.TEXT:
            yield piece.source.path, _text(piece.data, piece.source.path)
        case SourceFormat.PARQUET:
            yield from _parquet_documents(piece)
        case SourceFormat.MEGATRON:
            pair = MegatronPair(Path(piece.source.path))
            first = piece.number * PIECE_DOCUMENTS
            for number in range(first, min(first + PIECE_DOCUMENTS, pair.documents)):
                yield f"{piece.source.path}, document {number}", pair.document(number)


def _format_named(kind: str | None) -> SourceFormat | None:
    if kind is not None and kind not in list(SourceFormat):
        raise UnknownNameError.of("format", kind, list(SourceFormat))
    return None if kind is None else SourceFormat(kind)


def _sources_of(given: str, kind: SourceFormat | None, field: str) -> Iterator[Source]:
    if is_url(given):
        yield Source(path=given, format=kind or _format_of(given), field=field)
        return
    path = Path(given)
    if path.is_dir():
        for one in sorted(path.rglob("*")):
            if not one.name.startswith(".") and (kind or _is_source(one)) and (one.is_file() or not one.exists()):
                if not one.exists():
                    raise InputError(f"{one} leads nowhere", "files that are there", "Mend the link, or remove it")
                yield Source(path=str(one), format=kind or _format_of(one.name), field=field)
    elif path.exists():
        yield Source(path=given, format=kind or _format_of(given), field=field)
    else:
        raise InputError(f"{given} does not exist", "a file, a directory or a URL", "Check the path")


def _format_of(name: str) -> SourceFormat:
    found = _SUFFIXES.get(_suffix(name))
    if found is None:
        raise InputError(
            f"{name}, whose format its name does not tell", f"names that end in {', '.join(_SUFFIXES)}",
            f"Say which it is with --format ({', '.join(SourceFormat)})",
        )  # fmt: skip
    return found


def _is_source(path: Path) -> bool:
    known = _SUFFIXES.get(_suffix(path.name))
    return known is not None and (known is not SourceFormat.MEGATRON or path.with_suffix(".bin").exists())


def _suffix(name: str) -> str:
    path = Path(name)
    return Path(path.stem).suffix.lower() if path.suffix.lower() in _COMPRESSED else path.suffix.lower()


def _line_pieces(source: Source) -> Iterator[Piece]:
    line = 1
    with _opened(source.path) as file:
        if source.format is SourceFormat.TEXT:
            yield Piece(source=source, number=0, data=file.read())
            return
        number = 0
        while data := file.read(PIECE_BYTES):
            data += file.readline()
            yield Piece(source=source, number=number, first_line=line, data=data)
            line += data.count(b"\n")
            number += 1


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    unpack = _COMPRESSED.get(Path(path).suffix.lower())
    files = file_system(path, "text", "Give a file or such a URL") if is_url(path) else None
    with ExitStack() as stack:
        try:
            opened = files.open(path, "rb") if files else Path(path).open("rb")  # noqa: SIM115
        except OSError as problem:
            reason = problem.strerror or problem
            raise InputError(
                f"{path} cannot be read: {reason}", "a file that you may read", "Check the path and its rights"
            ) from None
        file: IO[bytes] = stack.enter_context(opened)
        try:
            yield stack.enter_context(unpack(file)) if unpack else file
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as problem:
            raise InputError(
                f"{path} cannot be read to its end: {problem}",
                "a whole file",
                "Fetch or make it again, or leave it out",
            ) from None


def _lines(piece: Piece) -> Iterator[tuple[int, bytes]]:
    for offset, line in enumerate(piece.data.split(b"\n")):
        if stripped := line.strip():
            yield piece.first_line + offset, stripped


def _json_documents(piece: Piece) -> Iterator[tuple[str, Document | BadDocument]]:
    field = piece.source.field
    for number, line in _lines(piece):
        where = f"{piece.source.path}:{number}"
        text = _text(line, where)
        if isinstance(text, BadDocument):
            yield where, text
            continue
        try:
            value = json.loads(text)
        except ValueError as problem:
            yield where, BadDocument(where, f"is no JSON: {problem}")
        except RecursionError:
            yield where, BadDocument(where, "is no JSON that can be read: it is nested too deeply")
        else:
            yield where, _of_field(value, field, where)


def _of_field(value: Any, field: str, where: str) -> Document | BadDocument:
    if not isinstance(value, dict):
        return BadDocument(where, f"is {_words(value)}, not an object with the field {field!r}")
    if field not in value:
        known = [*value][:_FIELDS_NAMED]
        return BadDocument(where, f"has no field {field!r}, only {', '.join(known) or 'none at all'}")
    return _usable(value[field], where)


@contextmanager
def _parquet(source: Source) -> Iterator[Any]:
    """A Parquet file that has the column."""
    library = require("pyarrow.parquet", extra="data", why=f"the Parquet file {source.path}")
    with _opened(source.path) as content:
        try:
            file = library.ParquetFile(content)
        except Exception as problem:
            raise InputError(
                f"{source.path} is no Parquet file: {problem}", "a whole Parquet file",
                "Fetch or make it again, or say what it is with --format",
            ) from None  # fmt: skip
        names = file.schema_arrow.names
        if source.field not in names:
            raise InputError(f"{source.path} has no column {source.field!r}", ", ".join(names), "Name it with --field")
        yield file


def _parquet_documents(piece: Piece) -> Iterator[tuple[str, Document | BadDocument]]:
    with _parquet(piece.source) as file:
        column = file.read_row_group(piece.number, columns=[piece.source.field])
    for row, value in enumerate(column.column(0).to_pylist()):
        where = f"{piece.source.path}, row {row} of group {piece.number}"
        yield where, _usable(value, where)


def _usable(value: Any, where: str) -> Document | BadDocument:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return _row(value, where)
    return BadDocument(where, f"has {_words(value)} where text should be")


def _row(values: list[Any], where: str) -> Document | BadDocument:
    """Tokens that are given; lists within a list are none."""
    try:
        found = np.array(values)
    except ValueError:
        return BadDocument(where, "is no list of tokens")
    return found if found.ndim == 1 else BadDocument(where, "is no list of tokens")


def _words(value: Any) -> str:
    return _WORDS.get(type(value), f"a {type(value).__name__}")


def _text(data: bytes, where: str) -> str | BadDocument:
    """What an editor puts before the text to say that it is UTF-8 is not part of it."""
    try:
        return data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as problem:
        return BadDocument(where, f"is not UTF-8: {problem.reason}")
