"""Pack text: pieces of files are read and tokenized by several processes and written in the order of the inputs.

What comes out depends on the inputs and the settings alone, not on the number of processes. An interrupted packing goes
on behind its last whole shard when it is started again in the same way.
"""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import InputError
from penstock.runtime.data.packing.sources import (
    BadDocument,
    Piece,
    Source,
    documents_of,
    find_sources,
    pieces_of,
)
from penstock.runtime.data.packing.tokenizers import Document, Tokenizer, tokenizer_named
from penstock.runtime.data.storage.data_manifest import DataManifest
from penstock.runtime.data.storage.token_writer import SHARD_BYTES, TokenWriter

_MOST_PROCESSES = 16
_WORTH_PROCESSES_BYTES = 32 * 2**20
_PIECES_AHEAD = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerChoice:
    """Which tokenizer a process makes for itself."""

    name: str
    end: str | None = None
    vocabulary: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizedPiece:
    """The documents of a piece, one behind the other, and what had to be left out."""

    tokens: NDArray[Any]
    lengths: NDArray[np.int64]
    bad: tuple[BadDocument, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """What a packing came to."""

    manifest: DataManifest
    skipped: tuple[str, ...]
    """The first few lines that were left out."""
    skipped_count: int
    went_on: bool
    """Whether it went on from one that was interrupted."""


def pack_text(
    inputs: Sequence[str | Path],
    out: str | Path,
    *,
    tokenizer: str = "bytes",
    field: str = "text",
    kind: str | None = None,
    end: str | None = None,
    vocabulary: int | None = None,
    shard_bytes: int = SHARD_BYTES,
    processes: int | None = None,
    skip_bad: bool = False,
    force: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> Packed:
    """Pack files of text into a data set at ``out``; ``progress`` hears how many tokens each piece added."""
    sources = find_sources(inputs, kind=kind, field=field)
    choice = TokenizerChoice(name=tokenizer, end=end, vocabulary=vocabulary)
    note = _tokenizer(choice).note
    settings = {"sources": [_identity(source) for source in sources], "tokenizer": [note.name, note.sha256, note.end],
                "skip_bad": skip_bad}  # fmt: skip
    writer = TokenWriter(
        out, vocabulary=note.vocabulary, shard_bytes=shard_bytes, tokenizer=note, settings=settings, force=force
    )
    went_on = bool(writer.documents)
    bad: list[str] = []
    bad_count = 0
    with _Workers(processes or _useful_processes(sources)) as workers:
        try:
            for position, number, found in _tokenized(sources, writer.cursor, choice, workers):
                bad_count += len(found.bad)
                bad += [str(one) for one in found.bad[: 5 - len(bad)]]
                if found.bad and not skip_bad:
                    raise _refusal(found.bad[0])
                with _writing(out):
                    writer.extend(found.tokens, found.lengths, _cursors(position, number, writer.cursor))
                progress(len(found.tokens))
        except BaseException:
            writer.abandon()
            raise
    with _writing(out):
        manifest = writer.finish()
    return Packed(manifest=manifest, skipped=tuple(bad), skipped_count=bad_count, went_on=went_on)


def tokenize(piece: Piece, choice: TokenizerChoice) -> TokenizedPiece:
    """What a process does with a piece."""
    tokenizer = _tokenizer(choice)
    good: list[Document] = []
    bad: list[BadDocument] = []
    for where, document in documents_of(piece):
        if isinstance(document, BadDocument):
            bad.append(document)
        elif reason := tokenizer.why_not(document):
            bad.append(BadDocument(where, reason))
        elif len(document):
            good.append(document)
    arrays = tokenizer.encode(good)
    return TokenizedPiece(
        tokens=np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.uint16),
        lengths=np.array([len(array) for array in arrays], dtype=np.int64), bad=tuple(bad),
    )  # fmt: skip


@cache
def _tokenizer(choice: TokenizerChoice) -> Tokenizer:
    return tokenizer_named(choice.name, end=choice.end, vocabulary=choice.vocabulary)


class _Workers:
    """Processes that tokenize pieces, or this one alone; results come in the order of the questions."""

    def __init__(self, processes: int) -> None:
        self._ahead = processes * _PIECES_AHEAD
        self._pool: ProcessPoolExecutor | None = None
        if processes > 1:
            self._pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_ignore_ctrl_c)

    def results(
        self, pieces: Iterator[tuple[int, Piece]], choice: TokenizerChoice
    ) -> Iterator[tuple[int, int, TokenizedPiece]]:
        if self._pool is None:
            yield from ((position, piece.number, tokenize(piece, choice)) for position, piece in pieces)
            return
        try:
            yield from self._results_of(self._pool, pieces, choice)
        except BrokenProcessPool:
            raise InputError(
                "a process that tokenizes was ended from outside", "memory for all of them",
                "Give the same command again with fewer --processes: it goes on behind the last whole shard",
            ) from None  # fmt: skip

    def _results_of(
        self, pool: ProcessPoolExecutor, pieces: Iterator[tuple[int, Piece]], choice: TokenizerChoice
    ) -> Iterator[tuple[int, int, TokenizedPiece]]:
        asked: deque[tuple[int, int, Future[TokenizedPiece]]] = deque()
        for position, piece in pieces:
            asked.append((position, piece.number, pool.submit(tokenize, piece, choice)))
            while len(asked) > self._ahead:
                yield _answer(asked.popleft())
        while asked:
            yield _answer(asked.popleft())

    def __enter__(self) -> "_Workers":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Nobody wants what is under way after an error: whoever presses Ctrl-C again would wait for it for good."""
        if self._pool is not None:
            for process in list((self._pool._processes or {}).values()) if kind else ():
                process.kill()
            self._pool.shutdown(cancel_futures=True)


def _answer(asked: tuple[int, int, "Future[TokenizedPiece]"]) -> tuple[int, int, TokenizedPiece]:
    position, number, future = asked
    return position, number, future.result()


@contextmanager
def _writing(out: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise InputError(
            f"{out} cannot be written to: {problem.strerror or problem}", "room for 2 or 4 bytes of each token",
            "Make room and give the same command again: it goes on behind the last whole shard",
        ) from None  # fmt: skip


def _ignore_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _tokenized(
    sources: Sequence[Source], cursor: Any, choice: TokenizerChoice, workers: _Workers
) -> Iterator[tuple[int, int, TokenizedPiece]]:
    """Tokenized pieces behind the cursor: source, piece and documents of that piece which are packed already."""
    first_source, first_piece, done = cursor or (0, 0, 0)
    pieces = (
        (position, piece)
        for position, source in enumerate(sources)
        if position >= first_source
        for piece in pieces_of(source, first_piece if position == first_source else 0)
    )
    for position, number, found in workers.results(pieces, choice):
        if (position, number) == (first_source, first_piece) and done:
            found = replace(found, tokens=found.tokens[found.lengths[:done].sum() :], lengths=found.lengths[done:])
        yield position, number, found


def _cursors(position: int, number: int, began_at: Any) -> Callable[[int], list[int]]:
    before = began_at[2] if began_at and began_at[:2] == [position, number] else 0
    return lambda documents: [position, number, before + documents]


def _identity(source: Source) -> list[Any]:
    """What must be the same when a packing goes on."""
    path = Path(source.path)
    size = path.stat().st_size if path.exists() else None
    return [source.path, str(source.format), source.field, size]


def _useful_processes(sources: Sequence[Source]) -> int:
    """One for little text: a process takes longer to start than that takes to pack."""
    size = sum(Path(source.path).stat().st_size for source in sources if Path(source.path).exists())
    if 0 < size < _WORTH_PROCESSES_BYTES:
        return 1
    return min(_MOST_PROCESSES, len(os.sched_getaffinity(0)))


def _refusal(bad: BadDocument) -> InputError:
    return InputError(
        str(bad), "a document in every line or row",
        "Mend it, name another --field, or leave such lines out with --skip-bad",
    )  # fmt: skip
