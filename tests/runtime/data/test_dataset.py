"""Samples are stretches of the text, with borders where documents have them; nothing is padded, lost or repeated."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import InputError
from penstock.data import TokenDataset, TooMuchDamageError, open_tokens
from penstock.runtime.data.reading.best_fit import best_fit
from penstock.runtime.data.reading.token_stream import TokenStream
from penstock.runtime.data.storage.shard_file import DamagedShardError
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


@given(lengths=st.lists(st.integers(1, 300), min_size=1, max_size=60), capacity=st.integers(1, 120))
def test_best_fit_fills_every_pack(lengths: list[int], capacity: int) -> None:
    total = sum(lengths)
    lengths = [*lengths, *([-total % capacity] if total % capacity else [])]
    starts = np.cumsum([0, *lengths]).tolist()
    packs = sum(lengths) // capacity
    arranged = best_fit(list(zip(starts, lengths, strict=False)), packs, capacity)
    assert [sum(length for _, length in pack) for pack in arranged] == [capacity] * packs
    covered = sorted((start, start + length) for pack in arranged for start, length in pack)
    assert covered[0][0] == 0
    assert all(before[1] == after[0] for before, after in pairwise(covered))


def test_bad_questions_get_an_answer(place: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="sequence=0"):
        TokenDataset(place, sequence=0)
    with pytest.raises(InputError, match="unknown packing 'tight'"):
        TokenDataset(place, pack="tight")
    with pytest.raises(InputError, match="more than the 100000 of a sample"):
        TokenDataset(place, sequence=100_000)
    with pytest.raises(IndexError):
        TokenDataset(place, sequence=64)[10**6]


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
    stream = TokenStream(open_tokens(place), open_shards=1)
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


def test_ten_thousand_shards_need_few_open_files(tmp_path: Path) -> None:
    """A shard is one file with ten thousand names."""
    import json
    import os

    write(tmp_path / "one", [np.arange(700) % 1000])
    place = tmp_path / "many"
    place.mkdir()
    manifest = json.loads((tmp_path / "one" / "manifest.json").read_text())
    (row,) = manifest["shards"]
    from penstock.runtime.data.storage.data_manifest import DataManifest, TokenizerNote, shards_from_rows

    names = [f"shard-{number:05d}" for number in range(10_000)]
    for name in names:
        for suffix in (".tok", ".idx"):
            os.link(tmp_path / "one" / f"shard-00000{suffix}", place / (name + suffix))
    rows = [[name, *row[1:]] for name in names]
    whole = DataManifest(token_bytes=2, tokenizer=TokenizerNote(**manifest["tokenizer"]), shards=shards_from_rows(rows))
    (place / "manifest.json").write_text(whole.to_text())
    dataset = TokenDataset(place, sequence=64)
    before = len(os.listdir("/proc/self/fd"))
    indices = dataset.order(0).stretch(0, 0, 4000)
    tokens = dataset.read(indices).tokens
    assert len(os.listdir("/proc/self/fd")) - before < 250
    assert np.array_equal(tokens, (indices[:, None] * 64 + np.arange(64)) % 700)
