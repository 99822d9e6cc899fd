"""What is in every sample is what it was: a training that began under an earlier version goes on with the same text."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.data import Mixture, TokenBatch, TokenDataset
from tests.runtime.data.corpora import Documents, write

GOLDEN = {
    ("concat", True, 32): "d67358c414a41e0a b46636430ef5c04f",
    ("concat", False, 32): "cb475d644caf3860 f47abffc5e68affb",
    ("concat", True, 500): "5c58fb5aeb6b7ce6 06f6695a751ed56c",
    ("best_fit", True, 32): "4b86be4d71504ff0 b7df94240d2c29b6",
    ("best_fit", False, 100): "8e728dcebc30506c 2fe8ebdbf847217f",
    ("best_fit", True, 500): "bc999b82cae13218 8b6ef90a8b144592",
}
GOLDEN_MIXTURE = "fa1f795fe0de6810"


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


def test_a_mixture_holds_what_it_held(places: list[Path]) -> None:
    parts = {TokenDataset(places[0], sequence=64): 2, TokenDataset(places[2], sequence=64, pack="best_fit"): 1}
    assert digest(two_epochs(Mixture(parts))) == GOLDEN_MIXTURE
