"""Who writes what: every box once, and what several workers hold by the one with the least to write."""

import torch

from penstock.runtime.checkpoints.layout.chunks import Box, Chunk
from penstock.runtime.checkpoints.shard_writing import _divided


def chunk(key: str, start: int, rows: int, whole: int = 8) -> Chunk:
    return Chunk(key=key, shape=(whole, 2), dtype=torch.float32, box=Box((start, 0), (rows, 2)), host=True, start=0)


def test_every_box_is_written_once() -> None:
    everyone = [[chunk("w", 0, 4), chunk("b", 0, 8)], [chunk("w", 4, 4), chunk("b", 0, 8)]]
    divided = _divided(everyone)
    written = [(each.key, each.box) for chunks in divided for each in chunks]
    assert sorted(written, key=str) == sorted({(each.key, each.box) for chunks in everyone for each in chunks}, key=str)


def test_replicas_share_the_writing() -> None:
    """Four workers hold the same eight tensors: each writes two of them."""
    everyone = [[chunk(f"layer{number}", 0, 8) for number in range(8)] for _ in range(4)]
    assert [len(chunks) for chunks in _divided(everyone)] == [2, 2, 2, 2]


def test_what_one_worker_holds_alone_is_written_by_it() -> None:
    stages = [[chunk("first", 0, 8)], [], [chunk("last", 0, 8)]]
    assert [[each.key for each in chunks] for chunks in _divided(stages)] == [["first"], [], ["last"]]
