"""Is a data set still what was written? Reads all of it."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from penstock.runtime.data.storage.data_manifest import DataManifest, ShardEntry
from penstock.runtime.data.storage.opening import StoredTokens
from penstock.runtime.data.storage.places import Place
from penstock.runtime.data.storage.shard_file import (
    BLOCK_BYTES,
    INDEX,
    TOKENS,
    DamagedShardError,
    TokenFile,
    block_checksums,
    read_index,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One thing that is wrong, and how many tokens it concerns."""

    shard: str
    reason: str
    tokens: int


def verify_tokens(stored: StoredTokens, progress: Callable[[int], None] = lambda _: None) -> list[Damage]:
    """Everything that is not what was written; ``progress`` hears the tokens of each shard that was looked at."""
    found: list[Damage] = []
    for entry in stored.manifest.shards:
        found += _damages(entry, stored.place, stored.manifest)
        progress(entry.tokens)
    return found


def _damages(entry: ShardEntry, place: Place, manifest: DataManifest) -> Iterator[Damage]:
    try:
        path = place.local(entry.name + INDEX)
        index = read_index(path, check_offsets=True)
        if zlib.crc32(path.read_bytes()) != entry.index_crc:
            raise DamagedShardError("its index is not the one that the manifest means")
        if index.token_bytes != manifest.token_bytes:
            raise DamagedShardError("its tokens are of another size than the manifest says")
        copy = place.shard(entry.name + TOKENS, index.tokens * index.token_bytes)
        if copy.fetch:
            copy.fetch(0, len(index.checksums))
        tokens = TokenFile(copy.path, index).tokens
    except (OSError, DamagedShardError) as problem:
        yield Damage(shard=entry.name, reason=str(problem), tokens=entry.tokens)
        return
    per_block = BLOCK_BYTES // index.token_bytes
    for block in np.flatnonzero(block_checksums(tokens) != index.checksums):
        size = min(per_block, entry.tokens - int(block) * per_block)
        yield Damage(shard=entry.name, reason=f"block {block} differs from its checksum", tokens=size)
