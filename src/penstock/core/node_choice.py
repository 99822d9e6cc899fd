"""On which nodes a job may run, and on which it would rather run."""

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.core.cluster import Cluster
from penstock.core.errors import JobError


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChoice:
    """Names of nodes: a job runs on ``only`` these and never on those it shall ``avoid``; it would rather start on
    those it ``prefer``s, if they have room.

    One that names nodes of the first two sorts is *confined*: a condition. The third is a wish, which gives way.

    >>> choice = NodeChoice(only=("a", "b"), prefer=("b",))
    >>> choice.confines, choice.allows("a"), choice.allows("c")
    (True, True, False)
    """

    only: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    prefer: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if both := [name for name in (*self.only, *self.prefer) if name in self.avoid]:
            raise JobError(
                f"node {both[0]!r} is to be used and to be avoided", "every node in one of the two",
                "Take it out of one of them",
            )  # fmt: skip
        if outside := [name for name in self.prefer if self.only and name not in self.only]:
            raise JobError(
                f"node {outside[0]!r} is preferred, but the job runs only on {', '.join(self.only)}",
                "preferred nodes that it may run on", "Add it to `only`, or take it out of `prefer`",
            )  # fmt: skip

    @property
    def confines(self) -> bool:
        """Whether there may be nodes it must not run on."""
        return bool(self.only or self.avoid)

    @property
    def names(self) -> tuple[str, ...]:
        """Every node that is named, whatever for."""
        return tuple(dict.fromkeys((*self.only, *self.avoid, *self.prefer)))

    def allows(self, name: str) -> bool:
        return name not in self.avoid and (not self.only or name in self.only)

    def positions(self, cluster: Cluster) -> list[int]:
        """Where the nodes are that it may run on."""
        return [position for position, node in cluster.present() if self.allows(node.name)]

    def preferred(self, cluster: Cluster) -> list[int]:
        """Where the nodes are that it would rather run on."""
        if not self.prefer:
            return []
        return [position for position, node in cluster.present() if node.name in self.prefer]

    def capacity(self, cluster: Cluster, kind: str) -> int:
        """Devices of a kind on the nodes it may run on, whether they work or not."""
        if not self.confines:
            return cluster.capacity(kind)
        nodes = (node for _, node in cluster.present() if node.kind == kind and self.allows(node.name))
        return sum(node.device_count for node in nodes)

    def __str__(self) -> str:
        said = [f"only on {_listed(self.only)}"] if self.only else []
        return " and ".join([*said, f"never on {_listed(self.avoid)}"] if self.avoid else said) or "anywhere"


ANYWHERE = NodeChoice()
"""Any node will do."""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
