"""What was written is what is read, to the token; whatever is not is found and named."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core import InputError
from penstock.data import TokenWriter, open_tokens, verify_tokens
from penstock.runtime.data.reading.token_stream import TokenStream
from penstock.runtime.data.storage.shard_file import BLOCK_BYTES, DamagedShardError, index_bytes, read_index
from tests.runtime.data.corpora import documents, flip, write


@settings(max_examples=25)
@given(
    lengths=st.lists(st.integers(0, 400), min_size=1, max_size=30).filter(any),
    vocabulary=st.sampled_from([300, 65_536, 65_537]), shard_bytes=st.sampled_from([1024, 1500, 10_000]),
)  # fmt: skip
def test_documents_and_their_borders_come_back(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], vocabulary: int, shard_bytes: int
) -> None:
    place = tmp_path_factory.mktemp("data") / "set"
    draw = np.random.default_rng(0)
    texts = [draw.integers(0, vocabulary, length) for length in lengths]
    write(place, texts, shard_bytes=shard_bytes, vocabulary=vocabulary)
    stored = open_tokens(place)
    whole, full = np.concatenate(texts), [text for text in texts if len(text)]
    assert stored.manifest.token_bytes == (2 if vocabulary <= 65_536 else 4)
    assert (stored.manifest.tokens, stored.manifest.documents) == (len(whole), len(full))
    stream = TokenStream(stored, open_files=2)
    assert np.array_equal(stream.stretch(0, len(stream)), whole)
    assert stream.borders(0, len(stream)) == [0, *np.cumsum([len(text) for text in full])[:-1]]
    middle = len(whole) // 2
    assert np.array_equal(stream.stretch(middle, len(whole)), whole[middle:])
    assert verify_tokens(stored) == []


def test_shards_end_with_documents_and_have_about_their_size(tmp_path: Path) -> None:
    write(tmp_path / "set", documents(), shard_bytes=2048)
    sizes = [shard.tokens * 2 for shard in open_tokens(tmp_path / "set").manifest.shards]
    assert len(sizes) > 5
    assert all(2048 <= size < 2048 + 2 * 90 for size in sizes[:-1])


def test_a_damaged_block_is_named_and_read_by_nobody(tmp_path: Path) -> None:
    place = tmp_path / "set"
    block = BLOCK_BYTES // 2
    write(place, [np.arange(3 * block) % 1000], shard_bytes=2**23)
    flip(place / "shard-00000.tok", BLOCK_BYTES + 17)
    (damage,) = verify_tokens(open_tokens(place))
    assert (damage.shard, damage.tokens, "block 1" in damage.reason) == ("shard-00000", block, True)
    stream = TokenStream(open_tokens(place))
    assert np.array_equal(stream.stretch(0, block), np.arange(block) % 1000)
    with pytest.raises(DamagedShardError, match="block 1 of shard-00000"):
        stream.stretch(block - 1, block + 1)
    assert len(TokenStream(open_tokens(place), verify=False).stretch(block - 1, block + 1)) == 2


@pytest.mark.parametrize("damage", ["cut", "gone", "index", "offsets", "swapped"])
def test_a_damaged_shard_is_found(tmp_path: Path, damage: str) -> None:
    place = tmp_path / "set"
    write(place, documents(), shard_bytes=8192)
    tokens, index = place / "shard-00001.tok", place / "shard-00001.idx"
    match damage:
        case "cut":
            tokens.write_bytes(tokens.read_bytes()[:-2])
        case "gone":
            tokens.unlink()
        case "index":
            flip(index, 3)
        case "offsets":
            flip(index, index.stat().st_size - 9)
        case "swapped":
            (place / "shard-00000.tok").replace(tokens)
            (place / "shard-00000.idx").replace(index)
            write(tmp_path / "other", documents(seed=2), shard_bytes=8192)
            for suffix in (".tok", ".idx"):
                (tmp_path / "other" / f"shard-00000{suffix}").replace(place / f"shard-00000{suffix}")
    assert "shard-00001" in {one.shard for one in verify_tokens(open_tokens(place))}


@given(offsets=st.lists(st.integers(1, 1000), max_size=20), blocks=st.integers(0, 5))
def test_an_index_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, offsets: list[int], blocks: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "one.idx"
    places = np.concatenate(([0], np.cumsum(np.array(offsets, dtype=np.int64))))
    path.write_bytes(index_bytes(places, np.arange(blocks, dtype=np.uint32), 4))
    index = read_index(path, check_offsets=True)
    assert index.offsets.tolist() == places.tolist()
    assert index.checksums.tolist() == list(range(blocks))


@pytest.mark.parametrize("content", ["", "{}", '{"penstock_tokens": 1}', '{"penstock_tokens": 9, "token_bytes": 2}'])
def test_a_manifest_that_cannot_be_used_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(InputError, match="cannot be used"):
        open_tokens(tmp_path)


def test_a_manifest_that_was_changed_or_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "set", documents(10))
    manifest = tmp_path / "set" / "manifest.json"
    fields = json.loads(manifest.read_text())
    fields["shards"][0][1] += 1
    manifest.write_text(json.dumps(fields))
    with pytest.raises(InputError, match="does not add up"):
        open_tokens(tmp_path / "set")
    fields["shards"][0][0] = "../shard-00000"
    manifest.write_text(json.dumps(fields))
    with pytest.raises(InputError, match="is not a name"):
        open_tokens(tmp_path / "set")


def test_what_is_no_data_set_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no packed tokens at .* Pack them first"):
        open_tokens(tmp_path / "nothing")
    writer = TokenWriter(tmp_path, vocabulary=9, shard_bytes=1024)
    writer.extend(np.zeros(1000, dtype=np.int64), [10] * 100)
    writer.abandon()
    assert not list(tmp_path.glob(".*"))
    with pytest.raises(InputError, match=r"not finished.*goes on where it stopped"):
        open_tokens(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"vocabulary": 0}, "vocabulary of 0"), ({"vocabulary": 9, "shard_bytes": 3}, "shards of 3 bytes")],
)
def test_a_writer_refuses_what_it_cannot_do(tmp_path: Path, arguments: dict[str, int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        TokenWriter(tmp_path / "set", **arguments)


def test_tokens_outside_of_the_vocabulary_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="tokens from 3 to 9"), TokenWriter(tmp_path / "set", vocabulary=9) as writer:
        writer.add([3, 9])
    with pytest.raises(InputError, match="no packed tokens"):
        open_tokens(tmp_path / "set")


def test_a_data_set_that_is_replaced_stays_until_there_is_another(tmp_path: Path) -> None:
    place = tmp_path / "set"
    write(place, documents(), shard_bytes=2048)
    before = open_tokens(place).manifest
    with pytest.raises(InputError, match="tokens from"), TokenWriter(place, vocabulary=9, force=True) as writer:
        writer.extend(np.array([1, 2, 9]), [2, 1])
    assert open_tokens(place).manifest == before
    assert verify_tokens(open_tokens(place)) == []
    for seed in (2, 3):
        with TokenWriter(place, vocabulary=1000, shard_bytes=2**13, force=True) as writer:
            for document in documents(seed=seed):
                writer.add(document)
        stored = open_tokens(place)
        assert verify_tokens(stored) == []
        row = np.concatenate(documents(seed=seed))
        assert np.array_equal(TokenStream(stored).stretch(0, len(row)), row)
        names = {shard.name + suffix for shard in stored.manifest.shards for suffix in (".tok", ".idx")}
        assert {path.name for path in place.iterdir()} == {"manifest.json", *names}


def test_an_interrupted_replacement_leaves_the_old_data_set_and_can_be_begun_anew(tmp_path: Path) -> None:
    place = tmp_path / "set"
    write(place, documents(40))
    before = open_tokens(place).manifest
    for _ in range(2):
        writer = TokenWriter(place, vocabulary=1000, shard_bytes=2048, force=True)
        writer.extend(np.zeros(3000, dtype=np.int64), [100] * 30)
        writer.abandon()
        assert verify_tokens(open_tokens(place)) == []
        assert open_tokens(place).manifest == before
    with pytest.raises(InputError, match="holds packed tokens"):
        TokenWriter(place, vocabulary=1000)


def test_two_do_not_write_to_one_place_at_once(tmp_path: Path) -> None:
    with TokenWriter(tmp_path / "set", vocabulary=9) as writer:
        writer.add([1, 2])
        with pytest.raises(InputError, match=r"another packing is writing to .*Wait until it is through"):
            TokenWriter(tmp_path / "set", vocabulary=9, force=True)
    assert open_tokens(tmp_path / "set").manifest.tokens == 2
    with TokenWriter(tmp_path / "set", vocabulary=9, force=True) as writer:
        writer.add([1])


def test_a_place_that_is_no_directory_is_refused_and_one_made_in_vain_goes(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file cannot be written to: .*Check the path"):
        TokenWriter(tmp_path / "file", vocabulary=9)
    with pytest.raises(InputError, match="no tokens were given"), TokenWriter(tmp_path / "set", vocabulary=9):
        pass
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize("length", [0, 1, 8, 20])
def test_a_file_that_is_too_short_for_an_index_is_damaged(tmp_path: Path, length: int) -> None:
    content = index_bytes(np.array([0, 5], dtype=np.int64), np.arange(1, dtype=np.uint32), 4)
    (tmp_path / "one.idx").write_bytes(content[:length])
    with pytest.raises(DamagedShardError, match="too short"):
        read_index(tmp_path / "one.idx")
