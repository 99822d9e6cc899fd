"""Which snapshot is whole, who holds whose shard, and which box of a tensor goes from whom to whom."""

import itertools

import pytest
import torch

from penstock.core import InputError
from penstock.runtime.checkpoints.memory.chunks import Box, Chunk, Layout
from penstock.runtime.checkpoints.memory.peers import holders
from penstock.runtime.checkpoints.memory.resharding import check_covered, journeys, newest_whole
from penstock.runtime.checkpoints.memory.shards import ShardName


def name(step: int, rank: int, size: int = 2, of: str = "set") -> ShardName:
    return ShardName(set=of, rank=rank, size=size, step=step)


def rows(start: int, count: int) -> Chunk:
    """Some rows of a tensor of 10 by 3."""
    return Chunk(key="w", shape=(10, 3), dtype=torch.float32, box=Box((start, 0), (count, 3)), host=True, start=0)


def columns(start: int, count: int) -> Box:
    return Box((0, start), (10, count))


@pytest.mark.parametrize(
    ("offers", "step", "readers"),
    [
        ([[name(5, 0)], [name(5, 1)]], 5, (0, 1)),
        ([[name(5, 0), name(4, 0), name(4, 1)], [name(5, 0)]], 4, (0, 0)),
        ([[name(6, 0)], [name(6, 1, of="another")]], None, ()),
        ([[name(6, 0), name(6, 1)], [name(7, 0, size=3), name(7, 1, size=3)]], 6, (0, 0)),
        ([[], []], None, ()),
    ],
)
def test_the_newest_snapshot_with_all_its_shards_counts(
    offers: list[list[ShardName]], step: int | None, readers: tuple[int, ...]
) -> None:
    found = newest_whole(offers)
    assert (None if found is None else found.step) == step
    assert (() if found is None else found.readers) == readers


@pytest.mark.parametrize("nodes", ["ab", "aab", "aabbcc", "abcabc", "abbb", "aaaabb"])
def test_every_shard_is_held_on_another_machine_and_nobody_holds_much_more_than_others(nodes: str) -> None:
    found = holders(nodes)
    assert all(by is not None and nodes[by] != nodes[rank] for rank, by in enumerate(found))
    most = max(found.count(by) for by in found)
    sizes = [nodes.count(node) for node in dict.fromkeys(nodes)]
    assert most <= max(-(-one // other) for one, other in itertools.permutations(sizes, 2))


def test_each_number_travels_once_from_rows_to_columns() -> None:
    chunks = [[rows(0, 4)], [rows(4, 6)], [rows(0, 4)]]
    needs = [{"w": columns(0, 1)}, {"w": columns(1, 2)}]
    ways = journeys(chunks, (0, 1, 1), needs)
    for rank, wanted in enumerate(needs):
        check_covered(wanted, ways, rank)
        parts = [part for (_, to), found in ways.items() if to == rank for part in found]
        assert sorted(part.box.offset for part in parts) == [(0, rank), (4, rank)]
        assert sum(part.box.count for part in parts) == wanted["w"].count
    assert [part.shard for part in ways[1, 1]] == [2, 1], "what one has oneself does not travel"


def test_a_tensor_that_nobody_would_fill_is_refused() -> None:
    needs = {"w": columns(0, 3)}
    with pytest.raises(InputError, match="12 of 30 numbers of 'w'"):
        check_covered(needs, journeys([[rows(0, 4)]], (0,), [needs]), 0)


def test_boxes_meet_where_they_overlap_and_scalars_are_boxes_too() -> None:
    assert Box((0, 2), (4, 4)).meet(Box((2, 0), (4, 3))) == Box((2, 2), (2, 1))
    assert Box((0,), (4,)).meet(Box((4,), (4,))) is None
    assert Box((), ()).meet(Box((), ())) == Box((), ())
    layout = Layout.of({"scalar": torch.tensor(2.0), "w": torch.ones(5, 3)})
    assert [Chunk.from_row(chunk.to_row()) for chunk in layout.chunks] == list(layout.chunks)
    assert (layout.bytes, layout.chunks[1].start) == (128, 64)
