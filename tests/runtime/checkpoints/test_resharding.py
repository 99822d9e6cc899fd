"""Which snapshot is whole, who holds whose shard, and which box of a tensor goes from whom to whom."""

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from penstock.core import InputError
from penstock.runtime.checkpoints.layout import resharding
from penstock.runtime.checkpoints.layout.chunks import Box, Chunk, Layout
from penstock.runtime.checkpoints.layout.resharding import check_covered, journeys, newest_whole
from penstock.runtime.checkpoints.memory.peers import holders
from penstock.runtime.checkpoints.memory.shards import HeldShard, ShardName, record_of


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


SHAPES: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
    "weight": ((700, 240), torch.float32), "half": ((640, 300), torch.bfloat16), "bias": ((37,), torch.float32),
    "step": ((), torch.int64),
}  # fmt: skip


def whole(key: str) -> torch.Tensor:
    shape, dtype = SHAPES[key]
    return torch.arange(math.prod(shape), dtype=torch.float32).add(7).view(shape).to(dtype)


def part_of(key: str, rank: int, size: int, dim: int) -> tuple[Box, torch.Tensor]:
    """A worker's part along one dimension; scalars are everybody's."""
    tensor = whole(key)
    dim = min(dim, tensor.dim() - 1)
    if dim < 0:
        return Box((), ()), tensor
    begin, end = (tensor.shape[dim] * at // size for at in (rank, rank + 1))
    offset = tuple(begin if axis == dim else 0 for axis in range(tensor.dim()))
    cut = tensor.narrow(dim, begin, end - begin)
    return Box(offset, tuple(cut.shape)), cut


def shard_of(folder: Path, rank: int, size: int) -> HeldShard:
    """Rows of everything, one behind the other in a file."""
    chunks, content = [], b""
    for key in SHAPES:
        box, cut = part_of(key, rank, size, 0)
        chunks.append(Chunk(key=key, shape=SHAPES[key][0], dtype=cut.dtype, box=box, host=True, start=len(content)))
        content += bytes(cut.contiguous().view(-1).view(torch.uint8).numpy())
        content += bytes(-len(content) % 64)
    path = folder / f"{rank}.bin"
    path.write_bytes(content)
    return HeldShard(record_of(name(3, rank, size), tuple(chunks), len(content), b""), path)


def _receiver(rank: int, folder: str, dim: int) -> None:
    """Three workers take over what four had; the second read two of the shards."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet-{dim}", rank=rank, world_size=3)
    readers = (0, 1, 1, 2)
    shards = {shard: shard_of(Path(folder), shard, 4) for shard in range(4) if readers[shard] == rank}
    everything: list[Any] = [None] * 3
    dist.all_gather_object(everything, {shard: held.record.chunks for shard, held in shards.items()})
    chunks = [next(one[shard] for one in everything if shard in one) for shard in range(4)]
    needs = [{key: part_of(key, to, 3, dim)[0] for key in SHAPES} for to in range(3)]
    ways = journeys(chunks, readers, needs)
    room = {key: torch.zeros_like(part_of(key, rank, 3, dim)[1]) for key in SHAPES}
    resharding.fill(room, needs[rank], {shard: held.read() for shard, held in shards.items()}, ways, dist.group.WORLD)
    assert all(torch.equal(room[key], part_of(key, rank, 3, dim)[1]) for key in SHAPES)
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.parametrize("dim", [0, 1])
def test_large_and_small_parts_arrive_where_they_belong(tmp_path: Path, dim: int) -> None:
    """Rows to other rows go as they lie; rows to columns, and what is small, are gathered first."""
    assert max(part_of("weight", 0, 3, 0)[1].nbytes, part_of("half", 0, 3, 0)[1].nbytes) > resharding._ALONE_BYTES
    mp.start_processes(_receiver, (str(tmp_path), dim), nprocs=3, start_method="fork")
