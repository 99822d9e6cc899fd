"""What makes tokens of text: a file of Hugging Face's tokenizers, the bytes of UTF-8, or nobody."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.core import InputError, require
from penstock.runtime.data.storage.data_manifest import TokenizerNote

BYTES, NONE = "bytes", "none"
_END_NAMES = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|im_end|>", "[SEP]")
_BYTE_END = 256

Document = str | Sequence[int] | NDArray[Any]


class Tokenizer(Protocol):
    """Turns documents into tokens; every one ends with the token ``note.end``, if there is one."""

    note: TokenizerNote

    def why_not(self, document: Document) -> str | None:
        """What is wrong with a document that cannot be encoded."""
        ...

    def encode(self, documents: list[Document]) -> list[NDArray[Any]]:
        """The tokens of each document."""
        ...


class TextTokenizer:
    """What tokenizers of text have in common."""

    def why_not(self, document: Document) -> str | None:
        return None if isinstance(document, str) else "is a list where text should be (tokens go with --tokenizer none)"


class ByteTokenizer(TextTokenizer):
    """A token for each byte of UTF-8, and 256 behind every document: no file, no vocabulary to agree on."""

    def __init__(self) -> None:
        self.note = TokenizerNote(name=BYTES, vocabulary=257, end=_BYTE_END)

    def encode(self, documents: list[Document]) -> list[NDArray[Any]]:
        return [self._encoded(str(document)) for document in documents]

    def _encoded(self, document: str) -> NDArray[Any]:
        data = document.encode("utf-8", "surrogatepass")
        tokens = np.empty(len(data) + 1, dtype=np.uint16)
        tokens[:-1] = np.frombuffer(data, dtype=np.uint8)
        tokens[-1] = _BYTE_END
        return tokens


class FileTokenizer(TextTokenizer):
    """A ``tokenizer.json``."""

    def __init__(self, path: Path, end: str | None = None) -> None:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        library = require("tokenizers", extra="data", why=f"the tokenizer {path}")
        try:
            content = path.read_bytes()
            self._tokenizer: Any = library.Tokenizer.from_str(content.decode())
        except OSError as problem:
            raise InputError(
                f"no tokenizer at {path}: {problem.strerror}", "a tokenizer.json, or `bytes`", "Check the path"
            ) from None
        except Exception as problem:
            raise InputError(
                f"{path} is no tokenizer: {problem}", "a tokenizer.json, or `bytes`",
                "Take the tokenizer.json that lies beside the model",
            ) from None  # fmt: skip
        self.note = TokenizerNote(
            name=path.name, vocabulary=self._tokenizer.get_vocab_size(), end=self._end(path, end),
            sha256=hashlib.sha256(content).hexdigest(),
        )  # fmt: skip

    def encode(self, documents: list[Document]) -> list[NDArray[Any]]:
        behind = [] if self.note.end is None else [self.note.end]
        found = self._tokenizer.encode_batch_fast(documents, add_special_tokens=False)
        return [np.array(one.ids + behind, dtype=np.uint32) for one in found]

    def _end(self, path: Path, name: str | None) -> int | None:
        if name == NONE:
            return None
        for candidate in (name,) if name else _END_NAMES:
            found = self._tokenizer.token_to_id(candidate)
            if found is not None:
                return int(found)
        known = [token.content for token in self._tokenizer.get_added_tokens_decoder().values()]
        given = f"{path} has no token {name!r}" if name else f"no end of documents is known in {path}"
        raise InputError(
            given, "; ".join(known[:8]) or "a token of its vocabulary", "Name one with --end, or give --end none"
        )


class GivenTokens:
    """Documents that are lists of tokens already."""

    def __init__(self, vocabulary: int | None) -> None:
        if vocabulary is None:
            raise InputError(
                "tokens that are given, without a vocabulary", "--vocabulary N with --tokenizer none",
                "Say how many tokens exist",
            )  # fmt: skip
        self.note = TokenizerNote(name=NONE, vocabulary=vocabulary)

    def why_not(self, document: Document) -> str | None:
        if isinstance(document, str):
            return "is text, where --tokenizer none wants a list of tokens"
        tokens = np.asarray(document)
        if len(tokens) and tokens.dtype.kind not in "iu":
            return "is no list of tokens"
        if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < self.note.vocabulary:
            return f"has tokens outside of 0 to {self.note.vocabulary - 1}"
        return None

    def encode(self, documents: list[Document]) -> list[NDArray[Any]]:
        return [np.asarray(document).astype(np.uint32) for document in documents]


def tokenizer_named(name: str, *, end: str | None = None, vocabulary: int | None = None) -> Tokenizer:
    """``bytes``, ``none`` or a path."""
    if name == NONE:
        return GivenTokens(vocabulary)
    if vocabulary is not None:
        raise InputError(
            f"a vocabulary with the tokenizer {name}", "one of them: a tokenizer has its own vocabulary",
            "Leave --vocabulary out, or give --tokenizer none",
        )  # fmt: skip
    if name != BYTES:
        return FileTokenizer(Path(name), end)
    if end is not None:
        raise InputError(f"--end {end} with bytes", "no --end", f"Documents of bytes end with the token {_BYTE_END}")
    return ByteTokenizer()
