"""What is stored in few bytes is read as what it was: shapes and thresholds exactly, leaves as they were rounded."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.predict.kernels.packing import (
    packed_forest,
    packed_memory,
    rounded_leaves,
    unpacked_forest,
    unpacked_memory,
)
from penstock.predict.kernels.trees import Forest
from penstock.predict.lab.fitting.layer_memory_fitting import remember_layers
from tests.predict.kernels.made_up import conv

SMALLEST_STEP = 64 * 2.0**-100
"""Between neighbours of the largest leaves of a tree that has the least exponent there is."""


@st.composite
def trees(draw: st.DrawFn, depth: int = 5) -> list[tuple[int, float]]:
    """Nodes of one tree as a walk to the left meets them: (feature, threshold), or (-1, value) for a leaf."""
    if depth == 0 or draw(st.booleans()):
        return [(-1, draw(st.floats(-3, 3, width=32)))]
    feature, place = draw(st.integers(0, 4)), draw(st.integers(-20, 20))
    return [(feature, place / 7), *draw(trees(depth=depth - 1)), *draw(trees(depth=depth - 1))]


def forest_of(nodes: list[list[tuple[int, float]]]) -> Forest:
    right: list[int] = []

    def walk(tree: list[tuple[int, float]], at: int, start: int) -> int:
        """Where the subtree that begins at ``at`` ends."""
        right.append(start + at)
        if tree[at][0] < 0:
            return at + 1
        middle = walk(tree, at + 1, start)
        right[start + at] = start + middle
        return walk(tree, middle, start)

    roots = []
    for tree in nodes:
        roots.append(len(right))
        walk(tree, 0, len(right))
    flat = [node for tree in nodes for node in tree]
    return Forest(
        feature=np.array([max(feature, 0) for feature, _ in flat], dtype=np.int16),
        number=np.array([number for _, number in flat], dtype=np.float32),
        right=np.array(right, dtype=np.int32), roots=np.array(roots, dtype=np.int32), base=0.25,
    )  # fmt: skip


def leaves_of(forest: Forest) -> np.ndarray:
    return forest.right == np.arange(len(forest.right))


@settings(max_examples=40, deadline=None)
@given(st.lists(trees(), min_size=1, max_size=5))
def test_forests_come_back(nodes: list[list[tuple[int, float]]]) -> None:
    forest = forest_of(nodes)
    leaf = leaves_of(forest)
    again = unpacked_forest(packed_forest(forest), 0.25)
    assert np.array_equal(again.right, forest.right)
    assert np.array_equal(again.roots, forest.roots)
    assert np.array_equal(again.feature, forest.feature)
    assert np.array_equal(again.number[~leaf], forest.number[~leaf])
    assert again.number.dtype == np.float32
    twice = unpacked_forest(packed_forest(again), 0.25)
    assert np.array_equal(twice.number, again.number), "what was rounded once is exact"


@settings(max_examples=40, deadline=None)
@given(st.lists(trees(), min_size=1, max_size=5))
def test_rounded_leaves_are_stored_as_they_are(nodes: list[list[tuple[int, float]]]) -> None:
    forest = forest_of(nodes)
    leaf = leaves_of(forest)
    rounded = rounded_leaves(forest.number.astype(float), leaf, forest.roots)
    stored = Forest(
        feature=forest.feature, number=rounded, right=forest.right, roots=forest.roots, base=0.0
    )  # fmt: skip
    assert np.array_equal(unpacked_forest(packed_forest(stored), 0.0).number, rounded)
    assert np.array_equal(rounded[~leaf], forest.number[~leaf])
    tree = np.searchsorted(forest.roots, np.flatnonzero(leaf), side="right") - 1
    largest = np.array([np.abs(forest.number[leaf][tree == one]).max() for one in range(len(forest.roots))])[tree]
    assert np.all(np.abs(rounded[leaf] - forest.number[leaf]) <= 0.0115 * largest + SMALLEST_STEP)


def test_more_thresholds_than_a_byte_counts() -> None:
    nodes = [[(0, place / 3), (-1, 1.0), (-1, -1.0)] for place in range(700)]
    forest = forest_of(nodes)
    inner = ~leaves_of(forest)
    assert np.array_equal(unpacked_forest(packed_forest(forest), 0.0).number[inner], forest.number[inner])


def test_layer_memories_come_back() -> None:
    calls = [conv(64, 56, batch=batch) for batch in (8, 16, 32)] + [conv(128, 28), conv(96, 28)]
    off = np.random.default_rng(0).uniform(-0.6, 0.6, (len(calls), 2))
    memory = remember_layers(calls, off)
    again = unpacked_memory(packed_memory(memory))
    assert again.corrections(calls) == pytest.approx(memory.corrections(calls), abs=1e-12)
    assert np.array_equal(again.layers, memory.layers)
    assert np.array_equal(again.off, memory.off)
    assert len(packed_memory(memory)["layers"]) == 3, "a layer at three batch sizes is stored once"
