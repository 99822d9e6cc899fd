"""Which nodes are bad, and which links between them, from tests of small groups: two rounds for any number of nodes.

Acme's way (Hu et al., NSDI 2024, section 3.3): pairs at random, then each member of a pair that failed with a node
that is known to be good. Links are told from nodes as an idea of our own: when both members of a failed pair do well
with others, what lies between them is weak; and a node is called bad only after two good nodes said so, where there
are two, so that one weak link does not condemn it.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from penstock.core import InputError

World = tuple[str, ...]
"""Nodes that try a collective together."""
_FEW = 4
Trial = Callable[[Sequence[World]], Sequence[bool]]
"""Lets disjoint worlds run side by side, and says of each whether it did well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """``fabric`` is true where no node did well with any other: then it is not nodes that are bad."""

    bad: tuple[str, ...] = ()
    weak_links: tuple[World, ...] = ()
    fabric: bool = False
    rounds: int = 0

    @property
    def ok(self) -> bool:
        return not (self.bad or self.weak_links or self.fabric)


@dataclass(slots=True)
class _Search:
    trial: Trial
    rounds: int = 0
    failed: set[World] = field(default_factory=set)
    good: set[str] = field(default_factory=set)

    def run(self, worlds: Sequence[World]) -> list[World]:
        """One round; returns the worlds that failed."""
        if not worlds:
            return []
        self.rounds += 1
        answers = self.trial(worlds)
        lost = [world for world, well in zip(worlds, answers, strict=True) if not well]
        self.failed |= set(lost)
        self.good |= {node for world, well in zip(worlds, answers, strict=True) if well for node in world}
        return lost

    def suspects_that_fail(self, suspects: Sequence[str], partners: Sequence[str]) -> list[str]:
        """Each suspect with a partner that it has not failed with, as many at a time as there are partners."""
        lost = []
        for wave in _waves(suspects, len(partners)):
            pairs = list(zip(wave, _dealt(wave, partners, self.failed), strict=True))
            lost += [next(node for node in world if node in wave) for world in self.run(pairs)]
        return lost


def locate(nodes: Sequence[str], trial: Trial, draw: random.Random | None = None) -> Located:
    """Bad nodes and weak links: one round if all is well, three if not, more where few nodes are good."""
    if len(set(nodes)) != len(nodes) or len(nodes) < 2:
        raise InputError(f"{len(nodes)} nodes to pair, {len(set(nodes))} of them different", "two or more, each once")
    search, draw = _Search(trial), draw or random.Random(0)
    lost = search.run(pairs_of(nodes, draw))
    for worlds in _other_pairs(nodes, draw):
        if not search.good:
            lost += search.run(worlds)
    if not search.good:
        return Located(fabric=True, rounds=search.rounds)
    suspects = sorted({node for world in lost for node in world} - search.good)
    trusted = sorted(search.good)
    second = search.suspects_that_fail(suspects, trusted)
    bad = search.suspects_that_fail(second, trusted) if len(trusted) > 1 else second
    return Located(bad=tuple(sorted(bad)), weak_links=_weak_links(search, set(bad)), rounds=search.rounds)


def pairs_of(nodes: Sequence[str], draw: random.Random) -> list[World]:
    """All nodes in pairs at random; if their number is odd, one world has three."""
    shuffled = list(nodes)
    draw.shuffle(shuffled)
    worlds = [tuple(shuffled[at : at + 2]) for at in range(0, len(shuffled) - 1, 2)]
    if len(shuffled) % 2:
        worlds[-1] = (*worlds[-1], shuffled[-1])
    return worlds


def _other_pairs(nodes: Sequence[str], draw: random.Random) -> list[list[World]]:
    """Where nobody did well: other pairs, once. Few nodes have few pairs, and each is tried by itself."""
    if len(nodes) <= _FEW:
        return [[pair] for pair in combinations(nodes, 2)] if len(nodes) > 2 else []
    even = list(nodes)
    draw.shuffle(even)
    return [pairs_of(even[: len(even) // 2 * 2], draw)]


def _weak_links(search: _Search, bad: set[str]) -> tuple[World, ...]:
    """Worlds that failed although none of their nodes is bad; of three nodes, each link is tried by itself."""
    innocent = [world for world in search.failed if not bad & set(world)]
    links = {tuple(sorted(world)) for world in innocent if len(world) == 2}
    for world in (world for world in innocent if len(world) > 2):
        for link in combinations(sorted(world), 2):
            links |= {tuple(sorted(lost)) for lost in search.run([link])}
    return tuple(sorted(links))


def _waves(suspects: Sequence[str], width: int) -> Iterator[Sequence[str]]:
    for at in range(0, len(suspects), width):
        yield suspects[at : at + width]


def _dealt(wave: Sequence[str], partners: Sequence[str], failed: set[World]) -> list[str]:
    """A partner for each suspect, another one than it failed with before where that can be arranged."""
    known = {frozenset(world) for world in failed}
    for turn in range(len(partners)):
        dealt = [partners[(at + turn) % len(partners)] for at in range(len(wave))]
        if all(frozenset(pair) not in known for pair in zip(wave, dealt, strict=True)):
            return dealt
    return list(partners[: len(wave)])
