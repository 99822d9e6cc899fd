"""Several data sets as one, in given shares: which comes next is decided by who is furthest behind its share.

Shares are rounded to a schedule of at most ten thousand samples that repeats, so that any position of a training is
found without going through those before it. Every data set keeps its own order and its own epochs: a small one with a
large share is gone through more often.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import InputError
from penstock.runtime.data.reading.token_batch import TokenBatch
from penstock.runtime.data.reading.token_dataset import TokenDataset
from penstock.runtime.data.reading.windowed_order import Samples, WindowedOrder, mixed

PERIOD = 10_000


@dataclass(frozen=True, slots=True)
class ShareSchedule:
    """Whose turn it is at every position of a period, and how many turns of its own came before it there."""

    whose: NDArray[np.int64]
    rank: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, weights: Sequence[float]) -> "ShareSchedule":
        """Largest deficit first; at every position everybody is within one sample of its share."""
        counts = _whole_counts(weights)
        shares = counts / counts.sum()
        given = np.zeros(len(counts))
        whose, rank = np.zeros(counts.sum(), np.int64), np.zeros(counts.sum(), np.int64)
        for turn in range(len(whose)):
            chosen = int(np.argmax(shares * (turn + 1) - given))
            whose[turn], rank[turn] = chosen, given[chosen]
            given[chosen] += 1
        return cls(whose, rank, counts)


class Mixture:
    """``Mixture({web: 0.7, code: 0.2, books: 0.1})`` of :class:`TokenDataset` with one sequence length.

    Its samples are those of its parts, one behind the other; ``order`` says which come when. An epoch has as many
    samples as the parts have together.
    """

    concurrent = True

    def __init__(self, parts: Mapping[TokenDataset, float]) -> None:
        if not parts:
            raise InputError("a mixture of nothing", "at least one data set")
        for part, weight in parts.items():
            if not (weight > 0 and math.isfinite(weight)):
                raise InputError(f"a weight of {weight} for {part.location}", "weights above 0", "Leave it out")
        self.parts, self._weights = list(parts), list(parts.values())
        first = self.parts[0]
        for part in self.parts[1:]:
            if (part.sequence, part.boundaries) != (first.sequence, first.boundaries):
                raise InputError(
                    f"{part.location} in samples of {part.sequence}, {first.location} in samples of {first.sequence}",
                    "one sequence length and one kind of boundaries in a mixture",
                )  # fmt: skip
            if part.manifest.tokenizer != first.manifest.tokenizer:
                raise InputError(
                    f"{part.location} and {first.location} were made by different tokenizers", "one tokenizer",
                    "Pack one of them again",
                )  # fmt: skip
        self.sequence, self.boundaries = first.sequence, first.boundaries
        self._schedule = ShareSchedule.of(self._weights)
        self._bases = np.concatenate(([0], np.cumsum([len(part) for part in self.parts])))

    def __len__(self) -> int:
        return int(self._bases[-1])

    def __getitem__(self, index: int) -> TokenBatch:
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        index %= len(self)
        part = self._part_of(index)
        return self.parts[part][index - int(self._bases[part])]

    @property
    def vocabulary(self) -> int:
        return max(part.vocabulary for part in self.parts)

    @property
    def damaged(self) -> int:
        return sum(part.damaged for part in self.parts)

    @property
    def token_bytes(self) -> int:
        return max(part.token_bytes for part in self.parts)

    def order(self, seed: int) -> "MixtureOrder":
        orders = [part.order(mixed(seed, 3, number)) for number, part in enumerate(self.parts)]
        return MixtureOrder(self._schedule, orders, self._bases)

    def empty(self, rows: int) -> TokenBatch:
        return self.parts[0].empty(rows)

    def read(self, indices: Any) -> TokenBatch:
        batch = self.empty(len(indices))
        self.read_into(indices, batch)
        return batch

    def read_into(self, indices: Any, batch: TokenBatch) -> None:
        for row, index in enumerate(indices):
            part = self._part_of(int(index))
            self.parts[part].read_row(int(index) - int(self._bases[part]), batch, row)

    def expect(self, first: int, last: int) -> None:
        part = self._part_of(first)
        base = int(self._bases[part])
        self.parts[part].expect(first - base, last - base)

    def prepare(self, first: int, last: int) -> None:
        part = self._part_of(first)
        base = int(self._bases[part])
        self.parts[part].prepare(first - base, last - base)

    def state_dict(self) -> dict[str, Any]:
        return {"weights": self._weights, "parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state.get("weights") != self._weights or len(state["parts"]) != len(self.parts):
            raise InputError(
                f"weights {self._weights}, where training began with {state.get('weights')}", "the same mixture",
                "Give the same data and weights, or begin a new training",
            )  # fmt: skip
        for part, of_part in zip(self.parts, state["parts"], strict=True):
            part.load_state_dict(of_part)

    def _part_of(self, index: int) -> int:
        return int(np.searchsorted(self._bases, index, side="right")) - 1


@dataclass(slots=True)
class MixtureOrder:
    """Positions of a training to samples of the parts."""

    schedule: ShareSchedule
    orders: list[WindowedOrder]
    bases: NDArray[np.int64]

    @property
    def window(self) -> int:
        """Positions within which no part goes through more than a window of its own."""
        shares = self.schedule.counts / self.schedule.counts.sum()
        return max(1, int(min(order.window / share for order, share in zip(self.orders, shares, strict=True))))

    def stretch(self, epoch: int, start: int, stop: int) -> Samples:
        positions = np.arange(start, stop, dtype=np.int64) + epoch * int(self.bases[-1])
        periods, turns = np.divmod(positions, len(self.schedule.whose))
        whose = self.schedule.whose[turns]
        turns_of_own = periods * self.schedule.counts[whose] + self.schedule.rank[turns]
        found = np.empty(len(positions), dtype=np.int64)
        for number, order in enumerate(self.orders):
            mine = whose == number
            if mine.any():
                first = int(turns_of_own[mine][0])
                found[mine] = self.bases[number] + order.overall(first, first + int(mine.sum()))
        return found

    def blocks_at(self, epoch: int, position: int) -> list[tuple[int, int]]:
        overall = position + epoch * int(self.bases[-1])
        period, turn = divmod(overall, len(self.schedule.whose))
        found: list[tuple[int, int]] = []
        for number, order in enumerate(self.orders):
            before = int((self.schedule.whose[:turn] == number).sum())
            of_epoch, place = divmod(period * int(self.schedule.counts[number]) + before, order.samples)
            base = int(self.bases[number])
            found += [(base + first, base + last) for first, last in order.blocks_at(of_epoch, place)]
        return found


def _whole_counts(weights: Sequence[float]) -> NDArray[np.int64]:
    """Counts in these proportions: at least one each, about ``PERIOD`` together, by largest remainders."""
    exact = np.array(weights) / math.fsum(weights) * max(PERIOD, len(weights))
    counts = np.maximum(1, np.floor(exact)).astype(np.int64)
    for number in np.argsort(counts - exact)[: max(0, round(exact.sum()) - int(counts.sum()))]:
        counts[number] += 1
    return counts // math.gcd(*counts.tolist())
