"""Bad nodes and weak links from trials of small worlds, without any process."""

import random
from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import InputError
from penstock.diagnose import locate
from penstock.diagnose.preflight.pairing import World, pairs_of


class Fabric:
    """Worlds fail that have a bad node, or a bad link between two of theirs."""

    def __init__(self, bad: set[str], links: Sequence[World] = ()) -> None:
        self.bad = bad
        self.links = [frozenset(link) for link in links]
        self.rounds: list[Sequence[World]] = []

    def __call__(self, worlds: Sequence[World]) -> list[bool]:
        names = [node for world in worlds for node in world]
        assert len(names) == len(set(names)), "a node cannot be in two worlds at once"
        self.rounds.append(worlds)
        return [self._well(world) for world in worlds]

    def _well(self, world: World) -> bool:
        return not self.bad & set(world) and not any(frozenset(pair) in self.links for pair in combinations(world, 2))


def names(count: int) -> list[str]:
    return [f"n{number}" for number in range(count)]


@given(st.integers(2, 40), st.randoms(use_true_random=False))
def test_all_is_well_in_one_round(count: int, draw: random.Random) -> None:
    found = locate(names(count), Fabric(set()), draw)
    assert (found.ok, found.rounds) == (True, 1)


@given(st.data())
def test_bad_nodes_are_found_and_no_other_is(data: st.DataObject) -> None:
    nodes = names(data.draw(st.integers(3, 30)))
    bad = set(data.draw(st.lists(st.sampled_from(nodes), max_size=len(nodes) // 4, unique=True)))
    found = locate(nodes, Fabric(bad), data.draw(st.randoms(use_true_random=False)))
    assert found.fabric or set(found.bad) == bad
    assert found.weak_links == ()
    assert not found.fabric or len(nodes) < 4 * (len(bad) + 1)


@given(st.data())
def test_a_weak_link_condemns_no_node(data: st.DataObject) -> None:
    nodes = names(data.draw(st.integers(4, 30)))
    link = tuple(sorted(data.draw(st.lists(st.sampled_from(nodes), min_size=2, max_size=2, unique=True))))
    found = locate(nodes, Fabric(set(), [link]), data.draw(st.randoms(use_true_random=False)))
    assert (found.bad, found.fabric) == ((), False)
    assert found.weak_links in ((), (link,))


def test_a_weak_link_that_was_tried_is_named() -> None:
    nodes = names(8)
    first = pairs_of(nodes, random.Random(3))[0]
    found = locate(nodes, Fabric(set(), [first]), random.Random(3))
    assert found.weak_links == (tuple(sorted(first)),)


def test_with_one_bad_node_it_takes_three_rounds_whatever_the_number() -> None:
    """Two as published, and a third for the second opinion of those that failed again."""
    assert [locate(names(count), Fabric({"n1"})).rounds for count in (10, 100, 1000)] == [3, 3, 3]


@pytest.mark.parametrize("count", [2, 3, 4, 7, 8])
def test_where_nobody_does_well_it_is_the_fabric(count: int) -> None:
    found = locate(names(count), Fabric(set(names(count))))
    assert (found.fabric, found.bad, found.ok) == (True, (), False)


@pytest.mark.parametrize("count", [2, 3, 5, 8, 13])
def test_everybody_is_in_one_world_and_none_has_more_than_three(count: int) -> None:
    worlds = pairs_of(names(count), random.Random(1))
    assert sorted(node for world in worlds for node in world) == sorted(names(count))
    assert sorted(map(len, worlds)) == [2] * (len(worlds) - count % 2) + [3] * (count % 2)


@pytest.mark.parametrize("nodes", [[], ["a"], ["a", "a"]])
def test_too_few_nodes_are_refused(nodes: list[str]) -> None:
    with pytest.raises(InputError, match="two or more"):
        locate(nodes, Fabric(set()))
