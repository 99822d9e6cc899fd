"""Every number of ranks trains on the same samples in the same order, from any point on; nobody waits without need."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from penstock.core import InputError
from penstock.data import Mixture, TokenBatch, TokenDataset, TokenLoader
from penstock.runtime.data.reading.prefetch import Prefetch
from penstock.runtime.parallel.token_data import PackedTokens
from penstock.runtime.training.data import Loader
from tests.runtime.data.corpora import documents, write

GLOBAL_BATCH = 10


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("data") / "set"
    write(place, documents(121))
    return place


def data(place: Path, kind: str) -> Any:
    dataset = TokenDataset(place, sequence=32, pack="best_fit" if kind == "best_fit" else "concat")
    return Mixture({dataset: 2, TokenDataset(place, sequence=32): 1}) if kind == "mixture" else dataset


def steps(place: Path, kind: str, size: int, count: int, state: dict[str, Any] | None = None) -> Any:
    """The first steps of all ranks, joined, and the state that each of them has then."""
    loaders = [
        TokenLoader(data(place, kind), global_batch=GLOBAL_BATCH, rank=r, size=size, seed=4) for r in range(size)
    ]
    for loader in loaders:
        if state is not None:
            loader.load_state_dict(state)
    rows = [iter(loader) for loader in loaders]
    found = []
    for _ in range(count):
        shares = [next(one) for one in rows]
        found.append(TokenBatch(*(torch.cat(parts) for parts in zip(*shares, strict=True))))
    states = [loader.state_dict() for loader in loaders]
    for loader in loaders:
        loader.close()
    return found, states


def same(ours: list[TokenBatch], theirs: list[TokenBatch]) -> bool:
    return all(torch.equal(a, b) for x, y in zip(ours, theirs, strict=True) for a, b in zip(x, y, strict=True))


@pytest.mark.parametrize("kind", ["concat", "best_fit", "mixture"])
def test_all_ranks_together_see_what_one_sees(place: Path, kind: str) -> None:
    count = 2 * len(data(place, kind)) // GLOBAL_BATCH + 3
    alone, _ = steps(place, kind, 1, count)
    assert {len(batch.tokens) for batch in alone} == {GLOBAL_BATCH, len(data(place, kind)) % GLOBAL_BATCH}
    for size in (2, 3, 8, 13):
        together, states = steps(place, kind, size, count)
        assert same(together, alone), size
        assert all(state == states[0] for state in states)


@pytest.mark.parametrize("kind", ["concat", "mixture"])
@pytest.mark.parametrize("at", [0, 1, 7, 20])
def test_training_goes_on_from_anywhere_at_another_width(place: Path, kind: str, at: int) -> None:
    whole, _ = steps(place, kind, 1, at + 9)
    _, states = steps(place, kind, 3, at) if at else (None, [None])
    state = states[0] and json.loads(json.dumps(states[0]))
    rest, later = steps(place, kind, 2, 9, state)
    assert same(rest, whole[at:])
    assert len(json.dumps(later[0])) < 1000


def test_a_loader_goes_on_only_with_what_it_began_with(place: Path) -> None:
    dataset = data(place, "concat")
    state = TokenLoader(dataset, global_batch=8, seed=1).state_dict()
    for changed in ({"global_batch": 9}, {"seed": 2}, {"shuffle": False}):
        with pytest.raises(InputError, match="order of samples would be another"):
            TokenLoader(dataset, **{"global_batch": 8, "seed": 1, **changed}).load_state_dict(state)
    with pytest.raises(InputError, match="rank 2 of 2"):
        TokenLoader(dataset, global_batch=8, rank=2, size=2)
    with pytest.raises(InputError, match="prefetch=-1"):
        Loader(dataset, torch.device("cpu"), prefetch=-1)


def test_without_shuffling_samples_come_as_they_lie(place: Path) -> None:
    dataset = data(place, "concat")
    loader = TokenLoader(dataset, global_batch=3, shuffle=False, prefetch=0)
    batches = iter(loader)
    assert np.array_equal(next(batches).tokens, dataset.read([0, 1, 2]).tokens)
    assert np.array_equal(next(batches).tokens, dataset.read([3, 4, 5]).tokens)


def test_batches_are_read_ahead_and_no_further_than_asked_for() -> None:
    read: list[tuple[int, ...]] = []
    reached = threading.Semaphore(0)

    def reader(indices: Any) -> int:
        read.append(tuple(indices))
        reached.release()
        return sum(indices)

    ahead = Prefetch(reader, depth=3)
    ahead.follow((number, number + 1) for number in range(100))
    for _ in range(3):
        assert reached.acquire(timeout=60)
    assert read == [(0, 1), (1, 2), (2, 3)]
    assert [ahead.take((number, number + 1)) for number in range(5)] == [1, 3, 5, 7, 9]
    assert ahead.take((50, 60)) == 110, "what nobody announced is read all the same"
    ahead.follow([(7,)])
    assert ahead.take((7,)) == 7
    stats = ahead.stats()
    assert (stats.batches, stats.samples) == (7, 13)
    assert 0 <= stats.p50_s <= stats.p99_s <= stats.p999_s <= stats.stall_s
    ahead.close()


def test_what_comes_next_is_found_out_by_the_reading_thread_which_is_woken_when_a_batch_is_delivered() -> None:
    asked: list[str] = []
    delivered: list[int] = []

    def announced() -> Iterator[tuple[int]]:
        for number in range(10):
            asked.append(threading.current_thread().name)
            yield (number,)

    def reader(indices: Any) -> int:
        if indices[0] >= 2:
            assert indices[0] - 2 in delivered, "two were ahead, and another is read once one of them has arrived"
        return int(indices[0])

    def deliver(batch: int) -> str:
        delivered.append(batch)
        return f"batch {batch}"

    ahead = Prefetch(reader, depth=2, deliver=deliver)
    ahead.follow(announced())
    assert [ahead.take((number,)) for number in range(6)] == [f"batch {number}" for number in range(6)]
    ahead.close()
    assert {name.startswith("penstock-data") for name in asked} == {True}


def test_what_goes_wrong_while_reading_ahead_is_raised_where_the_batch_is_taken() -> None:
    def reader(indices: Any) -> int:
        raise OSError(f"no {indices}")

    ahead = Prefetch(reader, depth=2)
    ahead.follow([(1,), (2,)])
    with pytest.raises(OSError, match=r"no \(1,\)"):
        ahead.take((1,))
    ahead.close()


def _member(rank: int, place: str, folder: str) -> None:
    """Two groups of two ranks, each a replica of a model in two parts; only the first of each has the files."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=4)
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    dataset = TokenDataset(place, sequence=32)
    if rank % 2:
        dataset.read_into = None  # type: ignore[assignment,method-assign]
    loader = TokenLoader(dataset, global_batch=6, rank=rank // 2, size=2, seed=4, group=groups[rank // 2])
    batches = iter(loader)
    rows = [torch.stack(tuple(next(batches))) for _ in range(4)]
    source = PackedTokens(place, 1000, 16, torch.device("cpu"))
    torch.save([rows, [torch.stack(source.batch(step, 5, 16)) for step in (1, 2, 999)]], f"{folder}/{rank}.pt")
    with pytest.raises(InputError, match="Give --vocabulary 1000"):
        PackedTokens(place, 999, 16, torch.device("cpu"))
    loader.close()
    assert (loader.stats() is None) == bool(rank % 2)
    dist.barrier()
    dist.destroy_process_group()


def test_one_rank_of_a_group_reads_for_all_of_it(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    mp.start_processes(_member, (str(place), str(tmp_path)), nprocs=4, start_method="fork")
    saved = [torch.load(tmp_path / f"{rank}.pt") for rank in range(4)]
    got = [rows for rows, _ in saved]
    for _, of_plan in saved:
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(of_plan, saved[0][1], strict=True))
    order = TokenDataset(place, sequence=16, boundaries=False).order(0)
    first = TokenDataset(place, sequence=16, boundaries=False).read(order.stretch(0, 5, 10))
    assert np.array_equal(saved[3][1][1], np.stack(first[:2]))
    for step in range(4):
        assert torch.equal(got[0][step], got[1][step])
        assert torch.equal(got[2][step], got[3][step])
    alone = iter(TokenLoader(TokenDataset(place, sequence=32), global_batch=6, seed=4))
    for step in range(4):
        assert torch.equal(torch.cat((got[0][step], got[2][step]), dim=1), torch.stack(tuple(next(alone))))
    assert os.environ["OMP_NUM_THREADS"] == "1"
