"""Data in a bucket is packed and read as in a directory, block by block, and kept on the machine within a budget."""

import os
import subprocess
import sys
from pathlib import Path

import fsspec
import numpy as np
import pytest

from penstock.core import InputError
from penstock.data import TokenDataset, open_tokens, pack, verify_tokens
from penstock.runtime.data.reading.token_stream import TokenStream
from penstock.runtime.data.storage import places
from penstock.runtime.data.storage.places import RemotePlace
from penstock.runtime.data.storage.shard_file import DamagedShardError
from tests.runtime.buckets import Bucket
from tests.runtime.data.corpora import documents, flip, write


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PENSTOCK_DATA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def kept(cache: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in cache.glob("*/[!.]*"))


def test_text_is_packed_into_a_bucket_and_read_from_it(bucket: Bucket, tmp_path: Path, cache: Path) -> None:
    (tmp_path / "a.txt").write_text("some text " * 5000)
    pack([tmp_path / "a.txt"], bucket.url, shard_bytes=2**14)
    pack([tmp_path / "a.txt"], tmp_path / "here", shard_bytes=2**14)
    assert "manifest.json" in bucket.names()
    assert "packing.json" not in bucket.names()
    there, here = TokenDataset(bucket.url, sequence=100), TokenDataset(tmp_path / "here", sequence=100)
    indices = here.order(1).stretch(0, 0, len(here))
    for ours, theirs in zip(there.read(indices), here.read(indices), strict=True):
        assert np.array_equal(ours, theirs)
    bucket.delete(f"{bucket.prefix}/shard-00000.tok")
    assert np.array_equal(TokenDataset(bucket.url, sequence=100).read([0]).tokens, here.read([0]).tokens), "kept here"


def test_only_blocks_that_are_read_are_fetched(bucket: Bucket, cache: Path) -> None:
    write(bucket.url, [np.arange(8 * 2**19) % 1000], shard_bytes=2**30)
    dataset = TokenDataset(bucket.url, sequence=1000)
    assert dataset.read([2000]).tokens[0].tolist() == list(range(1000))
    assert kept(cache) <= 2 * 2**20 + 2**16
    dataset.expect(0, 1000)
    assert 3 * 2**20 <= kept(cache) <= 4 * 2**20 + 2**16
    again = TokenDataset(bucket.url, sequence=1000)
    bucket.delete(f"{bucket.prefix}/shard-00000.tok")
    assert again.read([0]).tokens[0].tolist() == list(range(1000))
    with pytest.raises(FileNotFoundError):
        again.read([4000])


def test_a_copy_that_goes_while_it_is_open_is_read_on(bucket: Bucket, cache: Path) -> None:
    """Another process may need the room; blocks that are still to come are fetched all the same."""
    write(bucket.url, [np.arange(8 * 2**19) % 1000], shard_bytes=2**30)
    dataset = TokenDataset(bucket.url, sequence=1000)
    dataset.read([0])
    for path in cache.glob("*/shard-*.tok"):
        path.unlink()
    assert dataset.read([4000]).tokens[0].tolist() == list(range(1000))
    dataset.expect(2000, 2500)
    assert TokenDataset(bucket.url, sequence=1000).read([2100]).tokens[0].tolist() == list(range(1000))


def test_small_shards_are_copied_whole_and_room_is_looked_for_now_and_then(
    bucket: Bucket, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Path] = []
    monkeypatch.setattr(RemotePlace, "_make_room", lambda _, kept: looked.append(kept))
    texts = documents(1500)
    write(bucket.url, texts, shard_bytes=2**12)
    dataset = TokenDataset(bucket.url, sequence=64)
    whole = np.concatenate(texts)[: 64 * len(dataset)]
    assert np.array_equal(dataset.read(range(len(dataset))).tokens.ravel(), whole)
    assert len(list(cache.glob("*/shard-*.tok"))) == len(dataset.manifest.shards) > 20
    assert not list(cache.glob("*/.*.have")), "nothing is marked where everything is there"
    assert len(looked) == 1


def test_a_small_copy_that_was_damaged_is_found_though_it_was_sound_before(bucket: Bucket, cache: Path) -> None:
    write(bucket.url, documents(1500), shard_bytes=2**12)
    stream = TokenStream(open_tokens(bucket.url), open_files=1)
    stream.stretch(0, 10)
    stream.stretch(len(stream) - 10, len(stream))
    (copy,) = cache.glob("*/shard-00000.tok")
    flip(copy, 3)
    with pytest.raises(DamagedShardError, match="block 0 of shard-00000"):
        stream.stretch(0, 10)


def test_damage_on_the_way_is_found(bucket: Bucket, cache: Path) -> None:
    write(bucket.url, documents(), shard_bytes=2**13)
    bucket.replace(f"{bucket.prefix}/shard-00001.tok", lambda content: content[:-1] + bytes([content[-1] ^ 1]))
    assert {one.shard for one in verify_tokens(open_tokens(bucket.url))} == {"shard-00001"}


def test_copies_over_the_budget_go_and_another_version_is_not_taken_for_this_one(
    bucket: Bucket, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_DATA_CACHE_SIZE", "64KiB")
    write(bucket.url, documents(1500), shard_bytes=2**14)
    dataset = TokenDataset(bucket.url, sequence=64)
    first = dataset.read(range(len(dataset))).tokens
    assert kept(cache) <= 2**16 + 2 * 2**14
    from penstock.data import TokenWriter

    with TokenWriter(bucket.url, vocabulary=1000, shard_bytes=2**14, force=True) as writer:
        for document in documents(1500, seed=2):
            writer.add(document)
    other = TokenDataset(bucket.url, sequence=64)
    assert not np.array_equal(other.read(range(100)).tokens, first[:100])


def test_a_store_that_does_not_answer_is_asked_again(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(places.time, "sleep", pauses.append)
    place = RemotePlace(bucket.url)

    def unreachable() -> str:
        raise ConnectionResetError("the line is dead")

    with pytest.raises(ConnectionResetError):
        place._patiently("manifest.json", unreachable)
    assert pauses == [1.0, 2.0, 4.0, 8.0]
    with pytest.raises(InputError, match="no packed tokens at"):
        open_tokens(bucket.url)
    assert len(pauses) == 4, "what is not there is told at once"


def test_a_url_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InputError, match="packed tokens at s4://bucket/data"):
        open_tokens("s4://bucket/data")


def test_a_store_without_credentials_is_refused_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    fsspec.filesystem("s3").clear_instance_cache()
    for ask in (open_tokens, lambda url: pack([tmp_path / "a.txt"], url)):
        (tmp_path / "a.txt").write_text("text")
        with pytest.raises(InputError, match=r"s3://nobody/data cannot be used: .*Set AWS_ACCESS_KEY_ID"):
            ask("s3://nobody/data")
    fsspec.filesystem("s3").clear_instance_cache()


def test_packing_and_reading_need_no_torch(tmp_path: Path) -> None:
    write(tmp_path / "set", documents())
    program = f"""
import sys
sys.modules["torch"] = None
import penstock.data as data
assert len(data.TokenDataset({str(tmp_path / "set")!r}, sequence=64).read([0]).tokens[0]) == 64
assert "pydantic" not in sys.modules and "typer" not in sys.modules and "numba" not in sys.modules
try:
    data.TokenLoader
except ImportError as problem:
    print(problem)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "penstock.data.TokenLoader needs torch" in done.stdout


def test_what_a_copy_takes_is_counted_in_blocks(tmp_path: Path) -> None:
    (tmp_path / "full").write_bytes(os.urandom(1 << 20))
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(1 << 20)
    full, hole = (places._room(tmp_path / name) for name in ("full", "hole"))
    assert 1 << 20 <= full < 2 << 20
    assert hole < 1 << 20
