"""What is in every sample is what it was: a training that began under an earlier version goes on with the same text."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.data import Mixture, TokenBatch, TokenDataset
from tests.runtime.data.corpora import Documents, write

GOLDEN = {
    ("concat", True, 32): "47708395debb7b62 b3cd87177e1b1637",
    ("concat", False, 32): "ed393c61fa71fb51 7967653f076c95c0",
    ("concat", True, 500): "e0dc6074b957d9de 911881b8548e1887",
    ("best_fit", True, 32): "a4a9926b64a2ed77 14f539ac1ddb9ecf",
    ("best_fit", False, 100): "0ded68d38b241ec4 f53e87eaaf36c6f7",
    ("best_fit", True, 500): "232e9d5cb01d0420 2efd9eb797a2110a",
}
GOLDEN_OF_LARGE_SHARDS = {
    ("concat", True, 2048): "f1ed1cefac89d89f",
    ("best_fit", True, 2048): "3d1362baee8babde",
    ("best_fit", False, 500): "41ed7d8c5205f7f3",
}
GOLDEN_MIXTURE = "5bafb9b5cae685e1"


def texts(count: int, longest: int, seed: int, vocabulary: int = 1000) -> Documents:
    """Documents that no generator has a say in."""
    lengths = [1 + (number * 7919 + seed * 104_729) % longest for number in range(count)]
    return [
        (np.arange(length, dtype=np.int64) * 48_271 + number * 69_621 + seed) % 2_147_483_647 % vocabulary
        for number, length in enumerate(lengths)
    ]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("data")
    write(folder / "small", texts(400, 700, 5), shard_bytes=2**14)
    write(folder / "large", texts(900, 90, 6, 70_000), vocabulary=70_000, shard_bytes=2**17)
    write(folder / "other", texts(50, 300, 7), shard_bytes=2**12)
    return [folder / "small", folder / "large", folder / "other"]


def digest(batch: TokenBatch) -> str:
    content = b"".join(part.astype("<i8").tobytes() for part in batch if part is not None)
    return hashlib.sha256(content).hexdigest()[:16]


def two_epochs(data: Any) -> TokenBatch:
    order = data.order(3)
    return data.read([index for epoch in (0, 1) for index in order.stretch(epoch, 0, len(data)).tolist()])


@pytest.mark.parametrize(("pack", "boundaries", "sequence"), GOLDEN)
def test_samples_hold_what_they_held(places: list[Path], pack: str, boundaries: bool, sequence: int) -> None:
    found = [
        digest(two_epochs(TokenDataset(place, sequence=sequence, pack=pack, boundaries=boundaries)))
        for place in places[:2]
    ]
    assert " ".join(found) == GOLDEN[pack, boundaries, sequence]


@pytest.fixture(scope="module")
def large_shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Above a mebitoken each, so that a block lies in one or two."""
    place = tmp_path_factory.mktemp("data") / "set"
    write(place, texts(2200, 3000, 8), shard_bytes=5 * 2**19)
    return place


@pytest.mark.parametrize(("pack", "boundaries", "sequence"), GOLDEN_OF_LARGE_SHARDS)
def test_samples_of_large_shards_hold_what_they_held(
    large_shards: Path, pack: str, boundaries: bool, sequence: int
) -> None:
    dataset = TokenDataset(large_shards, sequence=sequence, pack=pack, boundaries=boundaries)
    assert digest(two_epochs(dataset)) == GOLDEN_OF_LARGE_SHARDS[pack, boundaries, sequence]


def test_a_mixture_holds_what_it_held(places: list[Path]) -> None:
    parts = {TokenDataset(places[0], sequence=64): 2, TokenDataset(places[2], sequence=64, pack="best_fit"): 1}
    assert digest(two_epochs(Mixture(parts))) == GOLDEN_MIXTURE
