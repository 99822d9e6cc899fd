"""Samples are stretches of the text, with borders where documents have them; nothing is padded, lost or repeated."""

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from weakref import WeakSet

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import InputError
from penstock.data import TokenDataset, TooMuchDamageError, open_tokens
from penstock.runtime.data.reading import token_stream
from penstock.runtime.data.reading.best_fit import best_fit
from penstock.runtime.data.reading.token_stream import OPEN_FILES, TokenStream
from penstock.runtime.data.storage.shard_file import DamagedShardError, ShardIndex, read_index
from tests.runtime.data.corpora import Documents, documents, flip, write

TEXTS = documents(300)
ROW = np.concatenate(TEXTS)
STARTS = set(np.cumsum([0, *(len(text) for text in TEXTS)]).tolist())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("data") / "set"
    write(place, TEXTS)
    return place


def expected(start: int, length: int) -> tuple[list[int], list[int], list[int]]:
    """A sample by the book, token by token."""
    labels, positions = [], []
    for at in range(start, start + length):
        is_last = at + 1 in STARTS
        labels.append(-100 if is_last else int(ROW[at + 1]))
        positions.append(0 if at == start or at in STARTS else positions[-1] + 1)
    return ROW[start : start + length].tolist(), labels, positions


@pytest.mark.parametrize("sequence", [1, 16, 100, 512])
def test_samples_are_the_text_cut_at_every_length(place: Path, sequence: int) -> None:
    dataset = TokenDataset(place, sequence=sequence)
    assert len(dataset) == len(ROW) // sequence
    for index in [0, 1, len(dataset) // 2, len(dataset) - 1, -1]:
        sample = dataset[index]
        wanted = expected(index % len(dataset) * sequence, sequence)
        assert tuple(part.tolist() for part in sample) == wanted


def test_without_boundaries_labels_run_on(place: Path) -> None:
    sample = TokenDataset(place, sequence=200, boundaries=False)[3]
    assert sample.labels.tolist() == ROW[601:801].tolist()
    assert sample.positions is None


def test_the_last_token_of_all_has_no_label(tmp_path: Path) -> None:
    write(tmp_path / "set", [np.arange(32)])
    for pack in ("concat", "best_fit"):
        dataset = TokenDataset(tmp_path / "set", sequence=16, boundaries=False, pack=pack)
        assert dataset[1].labels.tolist() == [*range(17, 32), -100]


@pytest.mark.parametrize("sequence", [16, 100, 512])
def test_best_fit_has_every_token_once_and_labels_as_in_the_text(place: Path, sequence: int) -> None:
    dataset = TokenDataset(place, sequence=sequence, pack="best_fit")
    plain = TokenDataset(place, sequence=sequence)
    ours, theirs = (data.read(range(len(data))) for data in (dataset, plain))
    assert sorted(ours.tokens.ravel()) == sorted(theirs.tokens.ravel())
    pairs = sorted(zip(ours.tokens.ravel().tolist(), ours.labels.ravel().tolist(), strict=True))
    assert pairs == sorted(zip(theirs.tokens.ravel().tolist(), theirs.labels.ravel().tolist(), strict=True))


def test_best_fit_cuts_far_fewer_documents_than_concatenation_does(tmp_path: Path) -> None:
    write(tmp_path / "set", documents(4000, longest=200), shard_bytes=2**20)
    whole: dict[str, int] = {}
    for pack in ("concat", "best_fit"):
        rows = TokenDataset(tmp_path / "set", sequence=512, pack=pack).read(range(700))
        begins = int((rows.positions == 0).sum())
        ends = int((rows.labels == -100).sum())
        whole[pack] = begins - ends
    assert whole["concat"] > 400
    assert whole["best_fit"] < whole["concat"] / 10


def fitted_one_by_one(lengths: list[int], packs: int, capacity: int) -> list[list[tuple[int, int]]]:
    """Best fit by the book: every document is offered to every pack."""
    arranged: list[list[tuple[int, int]]] = []
    rest: list[tuple[int, int]] = []
    start = 0
    for length in lengths:
        whole, short = divmod(length, capacity)
        arranged += [[(start + number * capacity, capacity)] for number in range(whole)]
        rest += [(-short, start + whole * capacity)] if short else []
        start += length
    free = [0] * len(arranged) + [capacity] * (packs - len(arranged))
    arranged += [[] for _ in range(packs - len(arranged))]
    homeless = []
    for minus_length, start in sorted(rest):
        fitting = [number for number in range(packs) if free[number] >= -minus_length]
        if fitting:
            chosen = min(fitting, key=lambda number: (free[number], number))
            arranged[chosen].append((start, -minus_length))
            free[chosen] += minus_length
        else:
            homeless.append((start, -minus_length))
    for start, length in homeless:
        while length:
            largest = max(range(packs), key=lambda number: (free[number], number))
            taken = min(length, free[largest])
            arranged[largest].append((start, taken))
            start, length, free[largest] = start + taken, length - taken, free[largest] - taken
    return arranged


@given(lengths=st.lists(st.integers(0, 300), min_size=1, max_size=60), capacity=st.integers(1, 120))
def test_best_fit_fills_every_pack_as_by_the_book(lengths: list[int], capacity: int) -> None:
    lengths = [*lengths, -sum(lengths) % capacity or capacity]
    starts = np.cumsum([0, *lengths])
    packs = int(starts[-1]) // capacity
    found = best_fit(starts[:-1], np.array(lengths), packs, capacity)
    pieces = list(zip(found.starts.tolist(), found.lengths.tolist(), strict=True))
    arranged = [pieces[first:last] for first, last in pairwise(found.firsts.tolist())]
    assert [sum(length for _, length in pack) for pack in arranged] == [capacity] * packs
    assert arranged == fitted_one_by_one(lengths, packs, capacity)
    covered = sorted((start, start + length) for start, length in pieces)
    assert covered[0][0] == 0
    assert all(before[1] == after[0] for before, after in pairwise(covered))


def test_who_arranges_in_the_background_pauses_often() -> None:
    pauses: list[None] = []
    best_fit(np.arange(0, 8000, 8), np.full(1000, 8), 20, 400, lambda: pauses.append(None))
    assert len(pauses) >= 1000 // 128


def test_bad_questions_get_an_answer(place: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="sequence=0"):
        TokenDataset(place, sequence=0)
    with pytest.raises(InputError, match="unknown packing 'tight'"):
        TokenDataset(place, pack="tight")
    with pytest.raises(InputError, match="more than the 100000 of a sample"):
        TokenDataset(place, sequence=100_000)
    data = TokenDataset(place, sequence=64)
    for outside in (len(data), -len(data) - 1):
        with pytest.raises(IndexError):
            data[outside]
    assert np.array_equal(data[-len(data)].tokens, data[0].tokens)


def damaged_set(place: Path, count: int, blocks: tuple[int, ...]) -> Documents:
    """Blocks of a mebibyte of which some are damaged."""
    texts = [np.full(2**19, number) for number in range(count)]
    write(place, texts, shard_bytes=2**30)
    for block in blocks:
        flip(place / "shard-00000.tok", block * 2**20 + 99)
    return texts


@pytest.mark.parametrize("pack", ["concat", "best_fit"])
def test_damaged_samples_are_replaced_the_same_way_for_everybody_and_all_others_stay(
    tmp_path: Path, pack: str, caplog: pytest.LogCaptureFixture
) -> None:
    damaged_set(tmp_path / "set", 4, (1,))
    dataset, other = (TokenDataset(tmp_path / "set", sequence=2**18, pack=pack) for _ in range(2))
    rows = dataset.read([0])
    assert dataset.damaged == 0
    rows = dataset.read([0, 2, 7])
    assert dataset.damaged == 1
    assert (rows.tokens[0] == 0).all()
    assert (rows.tokens[2] == 3).all()
    assert np.array_equal(other.read([2]).tokens[0], rows.tokens[1])
    assert (rows.positions >= 0).all()
    assert "block 1 of shard-00000" in caplog.text


def test_damage_that_is_met_ahead_is_told_to_whoever_reads_it(tmp_path: Path) -> None:
    damaged_set(tmp_path / "set", 4, (1,))
    dataset = TokenDataset(tmp_path / "set", sequence=2**18)
    dataset.expect(0, 8)
    assert dataset.damaged == 0
    assert (dataset.read([0, 7]).tokens == [[0], [3]]).all()
    flip(tmp_path / "set" / "shard-00000.tok", 99)
    assert dataset.read([0]).tokens[0, 0] == 0
    assert dataset.damaged == 0, "what was compared ahead is not compared again"
    dataset.read([2])
    assert dataset.damaged == 1


def test_a_block_is_compared_once_however_often_its_shard_is_opened(tmp_path: Path) -> None:
    place = tmp_path / "set"
    write(place, [np.full(2**16, number) for number in range(4)], shard_bytes=2**17)
    stream = TokenStream(open_tokens(place), open_files=1)
    assert stream.stretch(0, 9).tolist() == [0] * 9
    assert stream.stretch(3 * 2**16, 3 * 2**16 + 9).tolist() == [3] * 9
    flip(place / "shard-00000.tok", 2**16)
    assert stream.stretch(0, 9).tolist() == [0] * 9
    with pytest.raises(DamagedShardError, match="block 0 of shard-00000"):
        TokenStream(open_tokens(place)).stretch(0, 9)


def test_samples_that_were_arranged_ahead_are_the_same(place: Path) -> None:
    ahead, plain = (TokenDataset(place, sequence=100, pack="best_fit") for _ in range(2))
    ahead.prepare(0, len(ahead))
    assert ahead._arranged.keys() == set(range(-(-len(ahead) // ahead.block)))
    for ours, theirs in zip(ahead.read(range(len(ahead))), plain.read(range(len(plain))), strict=True):
        assert np.array_equal(ours, theirs)


def test_too_much_damage_ends_training(tmp_path: Path) -> None:
    damaged_set(tmp_path / "set", 3, (1,))
    dataset = TokenDataset(tmp_path / "set", sequence=2**10)
    with pytest.raises(TooMuchDamageError, match="penstock data verify"):
        dataset.read(range(len(dataset)))
    damaged_set(tmp_path / "all", 2, (0, 1))
    with pytest.raises(TooMuchDamageError, match="could replace it"):
        TokenDataset(tmp_path / "all", sequence=2**10).read([0])


def test_training_is_not_resumed_on_other_data(place: Path, tmp_path: Path) -> None:
    state = TokenDataset(place, sequence=64).state_dict()
    TokenDataset(place, sequence=64).load_state_dict(state)
    write(tmp_path / "other", documents(300, seed=2))
    for dataset in (TokenDataset(tmp_path / "other", sequence=64), TokenDataset(place, sequence=32)):
        with pytest.raises(InputError, match="began on other data"):
            dataset.load_state_dict(state)


def under_many_names(place: Path, tokens: int, count: int) -> Path:
    """A data set whose shards are one file with many names."""
    write(place.with_name("one"), [np.arange(tokens) % 1000], shard_bytes=2**30)
    place.mkdir()
    one = open_tokens(place.with_name("one")).manifest
    shards = tuple(replace(one.shards[0], name=f"shard-{number:05d}") for number in range(count))
    for shard in shards:
        for suffix in (".tok", ".idx"):
            (place / (shard.name + suffix)).hardlink_to(place.with_name("one") / f"shard-00000{suffix}")
    (place / "manifest.json").write_text(replace(one, shards=shards).to_text())
    return place


@pytest.mark.parametrize(("tokens", "count"), [(700, 10_000), (50_000, 1000), (600_000, 100)])
def test_many_shards_need_few_open_files(tmp_path: Path, tokens: int, count: int) -> None:
    """Of shards that are read, that are mapped, and that are too long to be without a file beside the map."""
    dataset = TokenDataset(under_many_names(tmp_path / "many", tokens, count), sequence=64)
    before = len(os.listdir("/proc/self/fd"))
    indices = dataset.order(0).stretch(0, 0, 3 * dataset.order(0).window)[::37]
    found = dataset.read(indices).tokens
    assert len(os.listdir("/proc/self/fd")) - before <= OPEN_FILES + 5
    assert np.array_equal(found, (indices[:, None] * 64 + np.arange(64)) % tokens % 1000)


def test_data_sets_share_the_files_that_a_process_may_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = under_many_names(tmp_path / "many", 50_000, 300)
    monkeypatch.setattr(token_stream, "_streams", WeakSet())
    monkeypatch.setattr(token_stream.resource, "getrlimit", lambda _: (200, 200))
    before = len(os.listdir("/proc/self/fd"))
    first = TokenDataset(place, sequence=64)
    indices = first.order(0).stretch(0, 0, len(first))[::97]
    assert np.array_equal(first.read(indices).tokens, (indices[:, None] * 64 + np.arange(64)) % 50_000 % 1000)
    assert 50 < len(os.listdir("/proc/self/fd")) - before <= 100
    others = [TokenDataset(place, sequence=64) for _ in range(3)]
    for dataset in (first, *others):
        dataset.read(indices)
    assert len(os.listdir("/proc/self/fd")) - before <= 100


def test_small_shards_are_opened_once_for_two_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that is read, and the next one that is brought nearer meanwhile."""
    opened: list[str] = []

    def counted(path: Path, **options: bool) -> ShardIndex:
        opened.append(path.name)
        return read_index(path, **options)

    monkeypatch.setattr(token_stream, "read_index", counted)
    dataset = TokenDataset(under_many_names(tmp_path / "many", 50_000, 1000), sequence=100)
    order = dataset.order(0)
    for position in (0, order.window):
        for first, last in order.blocks_at(0, position):
            dataset.expect(first, last)
    dataset.read(order.stretch(0, 0, 2 * order.window)[::11])
    assert len(opened) == len(set(opened))
    assert 250 < len(opened) <= 2 * 16 * 9


@pytest.mark.parametrize(
    ("tokens", "count", "block"),
    [(700, 10_000, 8 * 700 // 64), (50_000, 1000, 8 * 50_000 // 64), (600_000, 10, 2**20 // 64),
     (2_000_000, 2, 2**20 // 64), (5000, 3, 15_000 // 64)],
)  # fmt: skip
def test_a_block_is_a_mebitoken_or_eight_shards_or_everything(
    tmp_path: Path, tokens: int, count: int, block: int
) -> None:
    assert TokenDataset(under_many_names(tmp_path / "many", tokens, count), sequence=64).block == block


def test_a_training_whose_blocks_were_of_one_small_shard_is_not_gone_on_with_in_another_order(tmp_path: Path) -> None:
    """State of before blocks were in it: where shards are large the order is the same, and it is taken."""
    small = TokenDataset(under_many_names(tmp_path / "small" / "set", 700, 20), sequence=64)
    large = TokenDataset(under_many_names(tmp_path / "large" / "set", 1_100_000, 2), sequence=64)
    before = {"sequence": 64, "pack": "concat"}
    large.load_state_dict(before | {"checksum": large.manifest.checksum})
    with pytest.raises(InputError, match=r"began in blocks of 10 samples.*blocks of 87.*earlier version"):
        small.load_state_dict(before | {"checksum": small.manifest.checksum})
