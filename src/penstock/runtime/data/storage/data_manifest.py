"""The record that makes shards a data set: how many tokens and documents each has, and what made them.

It is written last. A place without one holds no data set, whatever else is there.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

MANIFEST = "manifest.json"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardEntry:
    """One shard, and a checksum of its index, which in turn has those of its tokens."""

    name: str
    tokens: int
    documents: int
    index_crc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerNote:
    """What made tokens of text: ``bytes``, the name of a tokenizer's file, or ``none`` for tokens that were given."""

    name: str
    vocabulary: int
    end: int | None = None
    """The token behind every document, if there is one."""
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataManifest:
    """A data set of packed tokens."""

    token_bytes: int
    tokenizer: TokenizerNote
    shards: tuple[ShardEntry, ...]

    @property
    def tokens(self) -> int:
        return sum(shard.tokens for shard in self.shards)

    @property
    def documents(self) -> int:
        return sum(shard.documents for shard in self.shards)

    @property
    def checksum(self) -> str:
        """Says whether two data sets hold the same tokens in the same order, cut in the same way."""
        words = (f"{shard.tokens} {shard.documents} {shard.index_crc}" for shard in self.shards)
        text = "\n".join((f"{VERSION} {self.token_bytes} {self.tokenizer.sha256}", *words))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_text(self) -> str:
        return json.dumps(
            {
                "penstock_tokens": VERSION, "checksum": self.checksum, "tokens": self.tokens,
                "documents": self.documents, "token_bytes": self.token_bytes, "tokenizer": asdict(self.tokenizer),
                "shards": shard_rows(self.shards),
            },
            indent=1,
        )  # fmt: skip

    @classmethod
    def parse(cls, text: str) -> "DataManifest":
        """Read one; whatever is not a manifest of this version, or not the one that was written, is a ValueError."""
        try:
            fields = json.loads(text)
            version = fields["penstock_tokens"]
            manifest = cls(
                token_bytes=fields["token_bytes"],
                tokenizer=TokenizerNote(**fields["tokenizer"]),
                shards=shards_from_rows(fields["shards"]),
            )
        except (KeyError, TypeError) as problem:
            raise ValueError(f"not a manifest of packed tokens ({problem!r})") from None
        if version != VERSION:
            raise ValueError(f"a manifest of version {version}, where this Penstock reads {VERSION}")
        if manifest.checksum != fields["checksum"]:
            raise ValueError("its content does not add up to its checksum")
        return manifest


def shard_rows(shards: Sequence[ShardEntry]) -> list[list[Any]]:
    return [[shard.name, shard.tokens, shard.documents, shard.index_crc] for shard in shards]


def shards_from_rows(rows: Sequence[Sequence[Any]]) -> tuple[ShardEntry, ...]:
    """Shards whose names are names: a path would lead elsewhere."""
    found = tuple(ShardEntry(name=name, tokens=t, documents=d, index_crc=c) for name, t, d, c in rows)
    for shard in found:
        if "/" in shard.name or shard.name.startswith("."):
            raise ValueError(f"{shard.name!r} is not a name")
    return found
