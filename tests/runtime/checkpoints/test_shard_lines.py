"""Shards arrive whole, and whoever is in the middle of one hears at once that its peer is gone."""

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from penstock.runtime.checkpoints.memory import shard_lines
from penstock.runtime.checkpoints.memory.shard_lines import ShardLines
from penstock.runtime.world import group as world

SIZE = 3
BYTES = 8 << 20


def _member(rank: int, folder: str, play: Callable[[int, ShardLines], None]) -> None:
    """A ring: everybody's shard is held by the next."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=SIZE)
    group = world.open_side_group()
    with world.noted_connections():
        lines = ShardLines(group, (rank + 1) % SIZE, [(rank - 1) % SIZE])
    play(rank, lines)
    Path(folder, f"done-{rank}").touch()
    os._exit(0)


def _shard(rank: int) -> torch.Tensor:
    return torch.full((BYTES,), rank, dtype=torch.uint8)


def _exchange(rank: int, lines: ShardLines) -> None:
    for _ in range(2):
        sending = lines.send((_shard(rank), torch.empty(0, dtype=torch.uint8)))
        room = torch.empty(BYTES, dtype=torch.uint8)
        lines.receive(room, (rank - 1) % SIZE)
        sending.result()
        assert torch.equal(room, _shard((rank - 1) % SIZE))
    dist.barrier()
    lines.close()


def _one_dies(rank: int, lines: ShardLines) -> None:
    if rank == 1:
        lines.send((_shard(1)[: BYTES // 2],)).result()
        os._exit(0)
    if rank == 2:
        with pytest.raises(ConnectionError, match=r"gone|reset"):
            lines.receive(torch.empty(BYTES, dtype=torch.uint8), 1)


def _all_hang_up(rank: int, lines: ShardLines) -> None:
    """Nobody sends all of a shard: who waits for the rest is woken by who ends the world in the same process."""
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            lines.receive(torch.empty(BYTES, dtype=torch.uint8), (rank - 1) % SIZE)
        except ConnectionError as error:
            ended.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    lines.send((_shard(rank)[: BYTES // 2],)).result()
    dist.barrier()
    world.close_groups()
    waiting.join(60)
    assert ended
    lines.close()


@pytest.mark.parametrize(("play", "done"), [(_exchange, {0, 1, 2}), (_one_dies, {0, 2}), (_all_hang_up, {0, 1, 2})])
def test_lines_between_three(tmp_path: Path, play: Callable[[int, ShardLines], None], done: set[int]) -> None:
    mp.start_processes(_member, (str(tmp_path), play), nprocs=SIZE, start_method="fork")
    assert {rank for rank in range(SIZE) if (tmp_path / f"done-{rank}").exists()} == done


def test_strangers_are_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    key, highest = b"k" * 16, 2**64 - 1
    with shard_lines._listener("127.0.0.1") as listener:
        where = ("another", "127.0.0.1", listener.getsockname()[1], key)
        stranger = socket.create_connection(where[1:3])
        stranger.sendall(b"x" * 24)
        member = shard_lines._called(where, highest)
        rank, line = shard_lines._answered(listener, key)
        assert rank == highest, "all bytes of a rank arrive"
        assert not stranger.recv(1)
        monkeypatch.setattr(shard_lines, "_CALL_S", 0.01)
        with pytest.raises(ConnectionError, match="does not call"):
            shard_lines._answered(listener, key)
    for one in (stranger, member, line):
        one.close()
