"""Nodes that fail now and then, and are repaired."""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.core import (
    Cluster,
    Event,
    InputError,
    NodeJoined,
    NodeLost,
    UnknownNameError,
    format_duration,
    parse_duration,
)
from penstock.simulate.traces import exponential_draw

_GUIDE = 'Try "mtbf=5d" or "mtbf=5d,repair=2h"'


@dataclass(frozen=True, slots=True)
class NodeFailures:
    """Every node fails by itself, ``mtbf_s`` of working apart on average (a Poisson process), and is back after
    ``repair_s``. Jobs on it lose what they did since their last checkpoint.

    >>> NodeFailures.parse("mtbf=5d")
    NodeFailures(mtbf_s=432000.0, repair_s=3600.0)
    """

    mtbf_s: float
    repair_s: float = 3600.0

    def __post_init__(self) -> None:
        if not (0 < self.mtbf_s < math.inf and 0 < self.repair_s < math.inf):
            given = f"nodes that fail every {self.mtbf_s:g} s and take {self.repair_s:g} s to repair"
            raise InputError(given, "times above 0", _GUIDE)

    @classmethod
    def parse(cls, text: str) -> "NodeFailures":
        given = dict(_setting(part, text) for part in text.split(","))
        for key in given:
            if key not in ("mtbf", "repair"):
                raise UnknownNameError.of("part of --failures", key, ("mtbf", "repair"), _GUIDE)
        if "mtbf" not in given:
            raise InputError(f"failures {text!r} without a mean time between them", "mtbf=TIME", _GUIDE)
        return cls(given["mtbf"], given.get("repair", cls(1.0).repair_s))

    def __str__(self) -> str:
        return f"mtbf={format_duration(self.mtbf_s)},repair={format_duration(self.repair_s)}"

    def events(self, cluster: Cluster, seed: int, since: float = 0.0) -> Iterator[Event]:
        """What happens to the nodes from ``since`` on, in order of time and without end, the same for every policy."""
        fail_at = [(since + self._works_for(seed, node.name, 0), position, 0) for position, node in cluster.present()]
        repairs: list[tuple[float, int]] = []
        heapq.heapify(fail_at)
        while True:
            if repairs and repairs[0][0] <= fail_at[0][0]:
                at, position = heapq.heappop(repairs)
                yield NodeJoined(at, cluster.nodes[position])
            else:
                at, position, number = fail_at[0]
                node = cluster.nodes[position]
                yield NodeLost(at, node.name)
                heapq.heappush(repairs, (at + self.repair_s, position))
                again = at + self.repair_s + self._works_for(seed, node.name, number + 1)
                heapq.heapreplace(fail_at, (again, position, number + 1))

    def _works_for(self, seed: int, node: str, number: int) -> float:
        return exponential_draw(seed, f"failure {number}", node, self.mtbf_s)


def _setting(part: str, text: str) -> tuple[str, float]:
    key, equals, value = (piece.strip() for piece in part.partition("="))
    if not (equals and key and value):
        raise InputError(f"{part!r} in the failures {text!r}", "mtbf=TIME,repair=TIME", _GUIDE)
    return key, parse_duration(value)
